// Cooperative groups: the grid, blocks, tiles of a warp, coalesced threads. Clusters and several
// grids are not modelled; the build refuses them by name.
#ifndef WARPGRADE_COOPERATIVE_GROUPS_H
#define WARPGRADE_COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

namespace cooperative_groups {

namespace details {

// Threads of a block in order; a warp is 32 of them.
WARPGRADE_INLINE unsigned linear_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
WARPGRADE_INLINE unsigned lane() { return linear_thread() & 31; }
WARPGRADE_INLINE unsigned lanes_below(unsigned lane) { return (1u << lane) - 1; }

WARPGRADE_INLINE unsigned long long blocks_of_grid() {
    return 1ull * gridDim.x * gridDim.y * gridDim.z;
}
WARPGRADE_INLINE unsigned long long block_in_grid() {
    return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
}
WARPGRADE_INLINE unsigned threads_of_block() { return blockDim.x * blockDim.y * blockDim.z; }
WARPGRADE_INLINE unsigned long long threads_of_grid() {
    return blocks_of_grid() * threads_of_block();
}
WARPGRADE_INLINE unsigned long long rank_in_grid() {
    return block_in_grid() * threads_of_block() + linear_thread();
}

// The lane of the rank-th bit of a mask, from 0. Hooks don't see it, and its blocks don't count.
WARPGRADE_UNSEEN __attribute__((noinline)) inline unsigned nth_lane(unsigned mask, unsigned rank) {
    for (unsigned lane = 0; lane < 32; lane++)
        if (mask >> lane & 1 && rank-- == 0) return lane;
    return 32;
}

// A shuffle of any trivially copyable type, eight bytes at a time.
template <class T>
WARPGRADE_INLINE T shuffle(int operation, unsigned mask, T value, int argument, int width) {
    if constexpr (sizeof(T) <= 8) {
        return ::warpgrade::exchange(operation, mask, value, argument, width);
    } else {
        constexpr size_t words = (sizeof(T) + 7) / 8;
        unsigned long long bits[words] = {};
        ::warpgrade_move_bits(bits, &value, sizeof value);
#pragma GCC unroll 8
        for (size_t i = 0; i < words; i++)
            bits[i] = warpgrade_warp_operation(operation, mask, bits[i], argument, width);
        ::warpgrade_move_bits(&value, bits, sizeof value);
        return value;
    }
}

struct parts;  // makes groups of the lanes of others

}  // namespace details

// The base of every group: a block, or lanes of one warp by a mask. A grid converted to it loses
// its kind: CUDA's has a pointer in that place, and on a GPU its sync() waits for nobody.
class thread_group {
 public:
    WARPGRADE_INLINE unsigned long long num_threads() const { return count_; }
    WARPGRADE_INLINE unsigned long long size() const { return num_threads(); }
    WARPGRADE_INLINE unsigned long long thread_rank() const {
        if (!count_) return 0;
        return mask_ ? __popc(mask_ & details::lanes_below(details::lane()))
                     : details::linear_thread();
    }
    WARPGRADE_INLINE void sync(int line = __builtin_LINE()) const {
        if (mask_)
            __syncwarp(mask_);
        else if (count_)
            (__syncthreads)(line);
    }
    WARPGRADE_INLINE bool is_valid() const { return true; }

 protected:
    WARPGRADE_INLINE thread_group(unsigned mask, unsigned count) : mask_(mask), count_(count) {}
    unsigned mask_;   // 0: the block, or a grid
    unsigned count_;  // 0: a grid
    friend thread_group tiled_partition(const thread_group& parent, unsigned size);
    friend struct details::parts;
};

// All threads of a launch. They can wait for each other where the launch is cooperative.
class grid_group : public thread_group {
 public:
    WARPGRADE_INLINE void sync(int line = __builtin_LINE()) const { warpgrade_grid_sync(line); }
    WARPGRADE_INLINE bool is_valid() const { return warpgrade_grid_is_valid(); }
    WARPGRADE_INLINE static unsigned long long thread_rank() { return details::rank_in_grid(); }
    WARPGRADE_INLINE static unsigned long long num_threads() { return details::threads_of_grid(); }
    WARPGRADE_INLINE static unsigned long long size() { return num_threads(); }
    WARPGRADE_INLINE static unsigned long long block_rank() { return details::block_in_grid(); }
    WARPGRADE_INLINE static unsigned long long num_blocks() { return details::blocks_of_grid(); }
    WARPGRADE_INLINE static dim3 block_index() { return blockIdx; }
    WARPGRADE_INLINE static dim3 dim_blocks() { return gridDim; }
    WARPGRADE_INLINE static dim3 group_dim() { return gridDim; }
    WARPGRADE_INLINE static dim3 thread_index() {
        return dim3(blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y,
                    blockIdx.z * blockDim.z + threadIdx.z);
    }
    WARPGRADE_INLINE static dim3 dim_threads() {
        return dim3(gridDim.x * blockDim.x, gridDim.y * blockDim.y, gridDim.z * blockDim.z);
    }

 private:
    WARPGRADE_INLINE grid_group() : thread_group(0, 0) {}
    friend grid_group this_grid();
};
WARPGRADE_INLINE grid_group this_grid() { return grid_group(); }

class thread_block : public thread_group {
 public:
    WARPGRADE_INLINE static void sync(int line = __builtin_LINE()) { (__syncthreads)(line); }
    WARPGRADE_INLINE static unsigned thread_rank() { return details::linear_thread(); }
    WARPGRADE_INLINE static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    WARPGRADE_INLINE static unsigned size() { return num_threads(); }
    WARPGRADE_INLINE static dim3 group_index() { return blockIdx; }
    WARPGRADE_INLINE static dim3 thread_index() { return threadIdx; }
    WARPGRADE_INLINE static dim3 group_dim() { return blockDim; }
    WARPGRADE_INLINE static dim3 dim_threads() { return blockDim; }
    // A barrier in two steps; the token is the phase to wait for.
    struct arrival_token {
        unsigned phase;
    };
    WARPGRADE_INLINE static arrival_token barrier_arrive() { return {warpgrade_block_arrive()}; }
    WARPGRADE_INLINE static void barrier_wait(arrival_token&& token) {
        warpgrade_block_wait(token.phase);
    }

 private:
    WARPGRADE_INLINE thread_block() : thread_group(0, num_threads()) {}
    friend thread_block this_thread_block();
};
WARPGRADE_INLINE thread_block this_thread_block() { return thread_block(); }

// The common part of tiles and coalesced groups: votes over a mask, results in ranks of the group.
template <unsigned N, class Parent = thread_block>
class thread_block_tile : public thread_group {
    static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0,
                  "tiles of more than 32 threads are not modelled");

 public:
    WARPGRADE_INLINE void sync() const { __syncwarp(mask_); }
    WARPGRADE_INLINE static unsigned thread_rank() { return details::linear_thread() & (N - 1); }
    WARPGRADE_INLINE static constexpr unsigned num_threads() { return N; }
    WARPGRADE_INLINE static constexpr unsigned size() { return N; }
    WARPGRADE_INLINE unsigned meta_group_rank() const {
        return details::linear_thread() % parent_ / N;
    }
    WARPGRADE_INLINE unsigned meta_group_size() const { return (parent_ + N - 1) / N; }

    template <class T>
    WARPGRADE_INLINE T shfl(T value, int rank) const {
        return details::shuffle(warpgrade_shuffle, mask_, value, rank, N);
    }
    template <class T>
    WARPGRADE_INLINE T shfl_up(T value, int delta) const {
        return details::shuffle(warpgrade_shuffle_up, mask_, value, delta, N);
    }
    template <class T>
    WARPGRADE_INLINE T shfl_down(T value, int delta) const {
        return details::shuffle(warpgrade_shuffle_down, mask_, value, delta, N);
    }
    template <class T>
    WARPGRADE_INLINE T shfl_xor(T value, int lane_mask) const {
        return details::shuffle(warpgrade_shuffle_xor, mask_, value, lane_mask, N);
    }
    WARPGRADE_INLINE int any(int predicate) const { return __any_sync(mask_, predicate); }
    WARPGRADE_INLINE int all(int predicate) const { return __all_sync(mask_, predicate); }
    WARPGRADE_INLINE unsigned ballot(int predicate) const {
        return __ballot_sync(mask_, predicate) >> first_lane();
    }
    template <class T>
    WARPGRADE_INLINE unsigned match_any(T value) const {
        return __match_any_sync(mask_, value) >> first_lane();
    }
    template <class T>
    WARPGRADE_INLINE unsigned match_all(T value, int& predicate) const {
        return __match_all_sync(mask_, value, &predicate) >> first_lane();
    }

 private:
    WARPGRADE_INLINE explicit thread_block_tile(unsigned parent)
        : thread_group(lanes(), N), parent_(parent) {}
    WARPGRADE_INLINE static unsigned first_lane() { return details::lane() & ~(N - 1); }
    WARPGRADE_INLINE static unsigned lanes() {
        return (N == 32 ? ~0u : (1u << (N & 31)) - 1) << first_lane();
    }
    unsigned parent_;  // threads of the group it is a part of
    template <unsigned M, class P>
    friend thread_block_tile<M, P> tiled_partition(const P& parent);
};

template <unsigned N, class Parent>
WARPGRADE_INLINE thread_block_tile<N, Parent> tiled_partition(const Parent& parent) {
    return thread_block_tile<N, Parent>(parent.num_threads());
}

// Threads of a warp that are converged now, or a part of such threads or of a tile.
class coalesced_group : public thread_group {
 public:
    WARPGRADE_INLINE void sync() const { __syncwarp(mask_); }
    WARPGRADE_INLINE unsigned thread_rank() const {
        return __popc(mask_ & details::lanes_below(details::lane()));
    }
    WARPGRADE_INLINE unsigned num_threads() const { return count_; }
    WARPGRADE_INLINE unsigned size() const { return count_; }
    WARPGRADE_INLINE unsigned meta_group_rank() const { return part_; }
    WARPGRADE_INLINE unsigned meta_group_size() const { return parts_; }

    template <class T>
    WARPGRADE_INLINE T shfl(T value, int rank) const {
        return from_rank(value, (unsigned)rank % count_);
    }
    template <class T>
    WARPGRADE_INLINE T shfl_up(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return from_rank(value, rank < delta ? rank : rank - delta);
    }
    template <class T>
    WARPGRADE_INLINE T shfl_down(T value, unsigned delta) const {
        const unsigned rank = thread_rank();
        return from_rank(value, rank + delta >= count_ ? rank : rank + delta);
    }
    WARPGRADE_INLINE int any(int predicate) const { return __any_sync(mask_, predicate); }
    WARPGRADE_INLINE int all(int predicate) const { return __all_sync(mask_, predicate); }
    WARPGRADE_INLINE unsigned ballot(int predicate) const {
        return packed(__ballot_sync(mask_, predicate));
    }
    template <class T>
    WARPGRADE_INLINE unsigned match_any(T value) const {
        return packed(__match_any_sync(mask_, value));
    }
    template <class T>
    WARPGRADE_INLINE unsigned match_all(T value, int& predicate) const {
        return packed(__match_all_sync(mask_, value, &predicate));
    }

 private:
    WARPGRADE_INLINE explicit coalesced_group(unsigned mask, unsigned part = 0, unsigned parts = 1)
        : thread_group(mask, __popc(mask)), part_(part), parts_(parts) {}
    template <class T>
    WARPGRADE_INLINE T from_rank(T value, unsigned rank) const {
        const int lane = details::nth_lane(mask_, rank);
        return details::shuffle(warpgrade_shuffle, mask_, value, lane, 32);
    }
    WARPGRADE_UNSEEN unsigned packed(unsigned lanes) const {
        unsigned result = 0;
        for (unsigned lane = 0, rank = 0; lane < 32; lane++)
            if (mask_ >> lane & 1) result |= (lanes >> lane & 1) << rank++;
        return result;
    }
    unsigned part_, parts_;  // which part of its parent it is, and of how many
    friend coalesced_group coalesced_threads();
    friend struct details::parts;
};
WARPGRADE_INLINE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// ---- Parts of a group by a value of each thread -------------------------------------------------

namespace details {

template <class Group>
inline constexpr bool has_lanes = false;
template <unsigned N, class Parent>
inline constexpr bool has_lanes<thread_block_tile<N, Parent>> = true;
template <>
inline constexpr bool has_lanes<coalesced_group> = true;

struct parts {
    WARPGRADE_INLINE static coalesced_group of_two(const thread_group& parent, bool side) {
        const unsigned mask = parent.mask_, set = __ballot_sync(mask, side);
        if (set == mask || set == 0) return coalesced_group(mask);
        return coalesced_group(side ? set : mask & ~set, side, 2);
    }
    // Parts are counted by the first thread of each.
    WARPGRADE_INLINE static coalesced_group by_label(const thread_group& parent,
                                                     unsigned long long label) {
        const unsigned mask = parent.mask_, part = __match_any_sync(mask, label);
        const unsigned first = __ffs(part) - 1;
        const unsigned firsts = __ballot_sync(mask, first == lane());
        return coalesced_group(part, __popc(firsts & lanes_below(first)), __popc(firsts));
    }
};

}  // namespace details

template <class Group, class = std::enable_if_t<details::has_lanes<Group>>>
WARPGRADE_INLINE coalesced_group binary_partition(const Group& group, bool side) {
    return details::parts::of_two(group, side);
}
template <class Group, class Label, class = std::enable_if_t<details::has_lanes<Group>>>
WARPGRADE_INLINE coalesced_group labeled_partition(const Group& group, Label label) {
    static_assert(std::is_integral_v<Label> || std::is_pointer_v<Label>,
                  "labeled_partition takes an integer or a pointer");
    if constexpr (std::is_pointer_v<Label>)
        return details::parts::by_label(group, reinterpret_cast<unsigned long long>(label));
    else if constexpr (std::is_same_v<Label, bool>)
        return details::parts::of_two(group, label);
    else
        return details::parts::by_label(group, static_cast<unsigned long long>(label));
}

// In one thread of the group, the first one here.
template <class Group, class Function, class... Arguments>
WARPGRADE_INLINE void invoke_one(const Group& group, Function&& function,
                                 Arguments&&... arguments) {
    if (group.thread_rank() == 0) function(static_cast<Arguments&&>(arguments)...);
}

// A tile whose size is only known at run time.
WARPGRADE_INLINE thread_group tiled_partition(const thread_group& parent, unsigned size) {
    const unsigned first = details::lane() & ~(size - 1);
    (void)parent;
    return thread_group((size >= 32 ? ~0u : (1u << size) - 1) << first, size);
}

namespace details {

// A barrier of the group at a line of the student's.
template <class Group>
WARPGRADE_INLINE void sync_at(const Group& group, int) {
    group.sync();
}
WARPGRADE_INLINE void sync_at(const thread_block&, int line) { (__syncthreads)(line); }
WARPGRADE_INLINE void sync_at(const thread_group& group, int line) { group.sync(line); }

}  // namespace details

// ---- The same as functions ----------------------------------------------------------------------

template <class Group>
WARPGRADE_INLINE void sync(const Group& group) {
    group.sync();
}
WARPGRADE_INLINE void sync(const thread_block&, int line = __builtin_LINE()) {
    (__syncthreads)(line);
}
WARPGRADE_INLINE void sync(const grid_group&, int line = __builtin_LINE()) {
    warpgrade_grid_sync(line);
}
template <class Group>
WARPGRADE_INLINE auto thread_rank(const Group& group) {
    return group.thread_rank();
}
template <class Group>
WARPGRADE_INLINE auto group_size(const Group& group) {
    return group.num_threads();
}

}  // namespace cooperative_groups

#endif
