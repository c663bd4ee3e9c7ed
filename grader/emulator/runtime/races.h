// Data races: two unordered accesses of one byte by different threads, at least one of them a store
// (internal to the observation half).
//
// Accesses are ordered by the program order of one thread; by __syncthreads for a block; by
// __syncwarp for the lanes of its mask; by the barrier of a grid; by the end of a kernel; and by a
// fence followed by an atomic, followed by another thread's atomic on the same address; a fence or
// an atomic of block scope orders threads of one block only. All but the
// last are independent of the order in which the emulator happens to run the threads.
//
// A stamp is the time of an access, in 64 bits, of which the high ones grow with time:
//     22 block run (counted over the process) | 16 barrier epoch | 16 warp clock | 10 thread
// so that "before this launch", "before this block" and "before the last barrier" are comparisons.
// Behind the grid's barrier each block is another block run, as in another launch. The warp clock
// grows at each __syncwarp and fence of the warp and starts again at each barrier.
//
// A cell keeps, for four bytes, the last store and up to two groups of accesses since: a group is
// the lanes of one warp that made the same kind of access at the same warp clock. Two suffice to
// find a conflict with a third warp. Four bytes that are accessed in parts are split into cells of
// a byte each. (Keeping only the last accesses follows FastTrack, Flanagan and Freund 2009.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "core.h"
#include "device_memory.h"
#include "hooks.h"

namespace warpgrade {

namespace stamp {
constexpr int thread_bits = 10, clock_bits = 16, epoch_bits = 16;
constexpr int clock_shift = thread_bits, epoch_shift = clock_shift + clock_bits;
constexpr int block_shift = epoch_shift + epoch_bits;
constexpr std::uint64_t thread_mask = (1u << thread_bits) - 1, lane_mask = warp_lanes - 1;
constexpr std::uint32_t most_clocks = (1u << clock_bits) - 1, most_blocks = 1u << 22;
}  // namespace stamp

// `block_write` is an atomic of block scope: to other blocks it is no better than a plain access.
enum class GroupKind : std::uint32_t {
    read = 0,
    atomic_read = 1,
    atomic_write = 2,
    block_write = 3
};

struct AccessGroup {
    std::uint64_t stamp;  // with the lane's bits zero
    std::uint32_t lanes;
    std::uint32_t pc : 30, kind : 2;  // of the first access
};

struct RaceCell {
    std::uint64_t store;  // stamp of the last plain store
    std::uint32_t store_pc;
    std::uint32_t split;  // number of its four cells of a byte each; 0: not split
    AccessGroup groups[2];
};

// The current state of the running block and launch, as stamps.
struct RaceNow {
    std::uint64_t kernel_floor;  // below: an earlier launch
    std::uint64_t launch_floor;  // below: an earlier launch, or before the grid's barrier
    std::uint64_t block_floor;   // below: an earlier block
    std::uint64_t epoch_floor;   // below, and not below block_floor: before the last barrier
};
extern RaceNow race_now;
extern std::uint16_t warp_clocks[32];

inline std::uint64_t stamp_of(const Thread& thread) {
    return race_now.epoch_floor |
           (std::uint64_t{warp_clocks[thread.warp]} << stamp::clock_shift) | thread.linear;
}

// One access, for the detector's slow paths.
struct RaceAccess {
    const Thread* thread;
    std::uint64_t stamp;
    Address address, pc;
    std::uint32_t size;  // of the whole access
    bool global;
    std::uint32_t relative_pc() const { return static_cast<std::uint32_t>(pc - image().base); }
};

// Cells of global memory, made a page at a time on first access; and of shared memory.
extern RaceCell** global_cell_pages;
extern RaceCell* shared_cells;
RaceCell* make_cell_page(std::uint32_t page);

// The four cells of a byte each of a cell that is split.
extern RaceCell (*split_cells)[4];

constexpr std::uint32_t cells_per_page = page_bytes / 4;
inline RaceCell* global_cell(std::uint32_t offset) {
    std::uint32_t page = offset / page_bytes;
    RaceCell* cells = global_cell_pages[page];
    if (__builtin_expect(!cells, 0)) cells = make_cell_page(page);
    return cells + offset / 4 % cells_per_page;
}

// For cases that the fast paths below leave: a split cell, or accesses that no barrier orders.
void slow_read(RaceCell& cell, const RaceAccess& access, GroupKind kind);
void slow_store(RaceCell& cell, const RaceAccess& access);
void atomic_store(RaceCell& cell, const RaceAccess& access, GroupKind kind);

// Whether barriers and launches order the stamp before this thread's next access.
template <bool is_global>
inline bool settled_before(std::uint64_t stamp) {
    if (!is_global) return stamp < race_now.epoch_floor;
    if (stamp < race_now.launch_floor) return true;
    return stamp < race_now.epoch_floor && stamp >= race_now.block_floor;
}

template <bool is_global>
inline bool own_or_before(std::uint64_t stamp, std::uint64_t mine) {
    if (settled_before<is_global>(stamp)) return true;
    return stamp >= race_now.block_floor && !((stamp ^ mine) & stamp::thread_mask);
}

// A whole cell is read; false: slow_read is needed.
template <bool is_global>
inline bool read_quickly(RaceCell& cell, std::uint64_t mine, std::uint32_t pc) {
    if (cell.split || !own_or_before<is_global>(cell.store, mine)) return false;
    AccessGroup &first = cell.groups[0], &second = cell.groups[1];
    std::uint64_t key = mine & ~stamp::lane_mask;
    if (first.kind != 0) return false;
    if (first.stamp == key) {
        first.lanes |= 1u << (mine & stamp::lane_mask);
        return true;
    }
    bool first_settled = settled_before<is_global>(first.stamp);
    bool second_settled = settled_before<is_global>(second.stamp);
    if (first_settled && second_settled) {
        first.stamp = key;
        first.lanes = 1u << (mine & stamp::lane_mask);
        first.pc = pc;
        return true;
    }
    // Two warps' reads are recorded: a store that races with this one races with one of them.
    constexpr std::uint64_t clock = std::uint64_t{stamp::most_clocks} << stamp::clock_shift;
    return !first_settled && !second_settled && second.kind == 0 &&
           ((first.stamp ^ second.stamp) & ~clock) != 0;
}

// A whole cell is stored to; false: slow_store is needed.
template <bool is_global>
inline bool store_quickly(RaceCell& cell, std::uint64_t mine, std::uint32_t pc) {
    if (cell.split || !own_or_before<is_global>(cell.store, mine)) return false;
    if (!settled_before<is_global>(cell.groups[0].stamp)) return false;
    if (!settled_before<is_global>(cell.groups[1].stamp)) return false;
    cell.store = mine;
    cell.store_pc = pc;
    return true;
}

// An access of part of a cell, which is split for it: `first` and `count` are bytes of the cell.
enum class PartKind : std::uint8_t { read, store, atomic_read, atomic_write, block_write };
void access_part(RaceCell& cell, unsigned first, unsigned count, const RaceAccess& access,
                 PartKind kind);

template <bool is_global>
inline bool read_part_quickly(RaceCell& cell, unsigned first, unsigned count, std::uint64_t mine,
                              std::uint32_t pc) {
    if (!cell.split) return false;
    RaceCell* parts = split_cells[cell.split];
    for (unsigned i = first; i < first + count; ++i) {
        if (!read_quickly<is_global>(parts[i], mine, pc)) return false;
    }
    return true;
}
template <bool is_global>
inline bool store_part_quickly(RaceCell& cell, unsigned first, unsigned count, std::uint64_t mine,
                               std::uint32_t pc) {
    if (!cell.split) return false;
    RaceCell* parts = split_cells[cell.split];
    for (unsigned i = first; i < first + count; ++i) {
        if (!store_quickly<is_global>(parts[i], mine, pc)) return false;
    }
    return true;
}

// Whether the running block has stored to all, or any, of these bytes of the (shared) cell.
bool stored_in_block(const RaceCell& cell, unsigned first, unsigned count);
bool any_stored_in_block(const RaceCell& cell, unsigned first, unsigned count);
// From now on it counts as if it had (a read of it has been reported).
void take_as_stored(RaceCell& cell, unsigned first, unsigned count);
// From now on it counts as if nobody had: its contents are undefined.
void take_as_unwritten(RaceCell& cell, unsigned first, unsigned count);

// The place (relative) of a store or an atomic write of this launch to the cell, or 0. One by the
// thread with this stamp doesn't count; 0: all count.
std::uint32_t written_in_kernel(const RaceCell& cell, unsigned first, unsigned count,
                                std::uint64_t but_for);

// A store of unknown value collides with another store; storing the same value is harmless. Settled
// at the next hook.
void settle_race();
extern bool race_pending;

void initialise_races(std::size_t global_bytes);
void races_launch_begin();
void races_block_begin();
void races_barrier();
void races_grid_barrier();
void races_warp_sync(std::uint32_t warp, unsigned mask);
// What an atomic (or volatile) access orders. CUDA's own atomics name no order: where a fence stands
// before them they release, and they always acquire.
struct AtomicOrder {
    bool of_block = false;  // its scope is one block
    bool acquires = true;   // else a later fence of its thread does
    bool releases = false;  // also without a fence
    const struct Comparison* comparison = nullptr;
};
void races_fence(const Thread& thread, AtomicOrder order);
// One that only loads (not `stores`) doesn't release.
void races_atomic_order(const Thread& thread, Address address, bool stores, AtomicOrder order);
void forget_races();

}  // namespace warpgrade
