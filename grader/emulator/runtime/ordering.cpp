// Time for the race detector: barriers, warp synchronisation, and fences with atomics.
//
// Fences and atomics: the first atomic of a thread after a fence releases what the thread did
// before the fence, what its block did before the last barrier in front of the fence, and what lanes
// of its warp did before it met them in a __syncwarp. If a barrier lies between the fence and the
// atomic, the fences that other warps of the block made in front of that barrier are released, too.
// A thread with a later atomic on the same address acquires all of that. Releases are numbered over
// the launch, and acquiring one includes all releases with lower numbers. That is more than strictly
// follows, but it is transitive at no cost, and it never orders threads without fences.
//
// A fence or an atomic of block scope releases to threads of its own block only: `Within` keeps
// those. What a thread has acquired so, it releases to everyone by its next release to everyone.
#include "ordering.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "../include/warpgrade/device_api.h"
#include "block_order.h"
#include "scheduler.h"

namespace warpgrade {

RaceNow race_now;
std::uint16_t warp_clocks[32];

namespace {

constexpr std::uint32_t most_epochs = (1u << stamp::epoch_bits) - 1;

std::uint32_t blocks_run, first_of_launch;  // or the first behind the grid's barrier

// The warp clock (exclusive) up to which a lane knows the work of the others of its warp.
struct WarpOrder {
    std::uint16_t all;  // by a __syncwarp of the whole warp
    bool partial;       // also by masks of some lanes: `seen` counts
    std::uint16_t seen[warp_lanes][warp_lanes];
};
WarpOrder warp_orders[32];

// Accesses with stamps below `until` are released at `time`. Lists grow in both.
struct Release {
    std::uint64_t until;
    std::uint32_t time;
};
using Releases = std::vector<Release>;

bool fences_used;
std::uint64_t fences_released;  // those made before this epoch, by an earlier atomic
std::uint32_t release_count;
std::unordered_map<std::uint64_t, Releases> thread_releases;  // key: block run and thread
std::unordered_map<std::uint64_t, Releases> block_releases;   // key: block run
std::unordered_map<Address, std::uint64_t> last_atomic;       // its stamp
struct BlockRelease {
    std::uint64_t block;  // block run
    std::uint32_t time;
};
std::unordered_map<Address, BlockRelease> last_release;  // of an atomic's address
std::uint32_t acquired[1024];    // by the threads of the running block
std::uint32_t seen[1024];        // by their relaxed atomics: a fence acquires it
std::uint64_t last_fence[1024];  // stamps; 0: none

// Of the releases to threads of the same block.
// A thread that had acquired them until `most` released to everyone, first at `time`.
struct HandedOn {
    std::uint32_t most, time;
};
struct {
    std::unordered_map<std::uint64_t, Releases> releases;    // key: block run and thread
    std::unordered_map<Address, BlockRelease> last_release;  // of an atomic's address
    std::unordered_map<std::uint64_t, HandedOn> handed_on;   // key: block run
    std::uint32_t acquired[1024], seen[1024];                // by the threads of the running block
    std::uint64_t last_fence[1024];                          // of either scope; 0: none
} within;

std::uint64_t thread_key(std::uint64_t stamp) {
    return stamp >> stamp::block_shift << stamp::thread_bits | (stamp & stamp::thread_mask);
}

bool released(const std::unordered_map<std::uint64_t, Releases>& map, std::uint64_t key,
              std::uint64_t stamp, std::uint32_t known) {
    auto list = map.find(key);
    if (list == map.end()) return false;
    auto first = std::upper_bound(list->second.begin(), list->second.end(), stamp,
                                  [](std::uint64_t s, const Release& r) { return s < r.until; });
    return first != list->second.end() && first->time <= known;
}

// As released_before, by releases to threads of the stamp's block. `known`: of those to everyone.
bool released_within(std::uint64_t stamp, const Thread& thread, std::uint32_t known) {
    if (within.releases.empty()) return false;
    std::uint32_t most = within.acquired[thread.linear];
    if (stamp < race_now.block_floor) {
        auto handed = within.handed_on.find(stamp >> stamp::block_shift);
        if (handed == within.handed_on.end() || handed->second.time > known) return false;
        most = handed->second.most;
    }
    return released(within.releases, thread_key(stamp), stamp, most);
}

bool released_before(std::uint64_t stamp, const Thread& thread) {
    std::uint32_t known = acquired[thread.linear];
    if (released_within(stamp, thread, known)) return true;
    if (!known) return false;
    return released(thread_releases, thread_key(stamp), stamp, known) ||
           released(block_releases, stamp >> stamp::block_shift, stamp, known);
}

// Of the lanes of this thread's own warp, those that aren't ordered before it.
std::uint32_t unordered_lanes(std::uint64_t stamp, std::uint32_t lanes, const Thread& thread) {
    std::uint32_t clock = stamp >> stamp::clock_shift & stamp::most_clocks;
    const WarpOrder& order = warp_orders[thread.warp];
    lanes &= ~(1u << thread.lane);
    if (clock < order.all || clock == stamp::most_clocks) return 0;
    if (!order.partial) return lanes;
    for (std::uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left);
        if (clock < order.seen[thread.lane][lane]) lanes &= ~(1u << lane);
    }
    return lanes;
}

void forget_releases() {
    thread_releases.clear();
    block_releases.clear();
    last_release.clear();
    last_atomic.clear();
    within.releases.clear();
    within.last_release.clear();
    within.handed_on.clear();
    release_count = 0;
    fences_released = 0;
    fences_used = false;
}

void restart_warp_clocks() {
    std::size_t warps = (threads.size() + warp_lanes - 1) / warp_lanes;
    for (std::size_t warp = 0; warp < warps; ++warp) {
        warp_clocks[warp] = 0;
        warp_orders[warp].all = 0;
        warp_orders[warp].partial = false;
    }
}

std::uint16_t tick(std::uint32_t warp) {
    std::uint16_t& clock = warp_clocks[warp];
    if (clock < stamp::most_clocks) ++clock;
    return clock;
}

void set_epoch() {
    // Epoch 0 is before everything that the block's threads do.
    if (current_block.barrier_epoch > most_epochs)
        warpgrade_unsupported("more than 65,534 barriers in one block");
    std::uint64_t epoch = std::max(current_block.barrier_epoch, 1u);
    race_now.epoch_floor = race_now.block_floor | epoch << stamp::epoch_shift;
}

std::uint32_t lanes_of(std::uint32_t warp) {
    std::size_t lanes = std::min<std::size_t>(threads.size() - warp * warp_lanes, warp_lanes);
    return lanes == warp_lanes ? ~0u : (1u << lanes) - 1;
}

void join_lanes(WarpOrder& order, unsigned mask, std::uint16_t clock) {
    if (!order.partial) std::memset(order.seen, 0, sizeof order.seen);
    order.partial = true;
    std::uint16_t joined[warp_lanes] = {};
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
        if (!(mask >> lane & 1)) continue;
        for (unsigned i = 0; i < warp_lanes; ++i) {
            joined[i] = std::max(joined[i], order.seen[lane][i]);
        }
    }
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
        if (mask >> lane & 1) joined[lane] = clock;
    }
    for (unsigned lane = 0; lane < warp_lanes; ++lane) {
        if (mask >> lane & 1) std::memcpy(order.seen[lane], joined, sizeof joined);
    }
}

// Joins the knowledge of those threads in [first, last) that `mask` names (bit i: thread first +
// i).
void share_acquired(std::size_t first, std::size_t last, std::uint64_t mask, bool all) {
    for (std::uint32_t* times : {acquired, within.acquired}) {
        std::uint32_t most = 0;
        for (std::size_t i = first; i < last; ++i) {
            if (all || mask >> (i - first) & 1) most = std::max(most, times[i]);
        }
        for (std::size_t i = first; most && i < last; ++i) {
            if (all || mask >> (i - first) & 1) times[i] = most;
        }
    }
}

void restart_fences() {
    for (std::uint32_t* times : {acquired, seen, within.acquired, within.seen}) {
        std::fill_n(times, threads.size(), 0);
    }
    std::fill_n(last_fence, threads.size(), 0);
    std::fill_n(within.last_fence, threads.size(), 0);
}

void acquire(const Thread& thread, Address address, AtomicOrder order) {
    std::uint32_t& known = (order.acquires ? acquired : seen)[thread.linear];
    std::uint32_t& own = (order.acquires ? within.acquired : within.seen)[thread.linear];
    const auto of_block = [](const BlockRelease& release) {
        return release.block == race_now.block_floor >> stamp::block_shift;
    };
    auto earlier = last_release.find(address);
    if (earlier != last_release.end() && (!order.of_block || of_block(earlier->second))) {
        known = std::max(known, earlier->second.time);
    }
    own = std::max(own, known);
    auto near = within.last_release.find(address);
    if (near != within.last_release.end() && of_block(near->second)) {
        own = std::max(own, near->second.time);
    }
}

void add(Releases& list, const Release& one) {
    if (list.empty() || list.back().until < one.until) list.push_back(one);
}

// What the thread knows of the other lanes of its warp.
void release_lanes(std::unordered_map<std::uint64_t, Releases>& map, const Thread& thread,
                   std::uint32_t time) {
    const WarpOrder& order = warp_orders[thread.warp];
    if (!order.all && !order.partial) return;
    WarpRange lanes = warp_range(thread.warp);
    for (std::uint32_t other = lanes.first; other < lanes.last; ++other) {
        std::uint64_t clock = order.all;
        if (order.partial) clock = std::max(order.all, order.seen[thread.lane][other - lanes.first]);
        if (other == thread.linear || !clock) continue;
        const std::uint64_t until = race_now.epoch_floor | clock << stamp::clock_shift;
        add(map[thread_key(until | other)], {until, time});
    }
}

void release_within(const Thread& thread, Address address, std::uint32_t time) {
    std::uint64_t fence = within.last_fence[thread.linear];
    add(within.releases[thread_key(fence)], {fence, time});
    release_lanes(within.releases, thread, time);
    within.last_release[address] = {fence >> stamp::block_shift, time};
}

// What each warp did before the last fence of one of its lanes, if a barrier came since.
void release_fenced_warps(std::uint32_t time) {
    if (fences_released == race_now.epoch_floor) return;
    fences_released = race_now.epoch_floor;
    for (std::uint32_t warp = 0; warp * warp_lanes < threads.size(); ++warp) {
        const WarpRange lanes = warp_range(warp);
        std::uint64_t fence = 0;
        for (std::uint32_t i = lanes.first; i < lanes.last; ++i) {
            if (last_fence[i] < race_now.epoch_floor) fence = std::max(fence, last_fence[i]);
        }
        for (std::uint32_t i = lanes.first; fence && i < lanes.last; ++i) {
            const std::uint64_t until = (fence & ~stamp::thread_mask) | i;
            add(thread_releases[thread_key(until)], {until, time});
        }
    }
}

void release(const Thread& thread, Address address, std::uint32_t time) {
    std::uint64_t fence = last_fence[thread.linear], block = fence >> stamp::block_shift;
    add(thread_releases[thread_key(fence)], {fence, time});
    release_lanes(thread_releases, thread, time);
    add(block_releases[block], {fence >> stamp::epoch_shift << stamp::epoch_shift, time});
    if (fence < race_now.epoch_floor) release_fenced_warps(time);
    last_release[address] = {block, time};
    if (std::uint32_t own = within.acquired[thread.linear]) {
        HandedOn& handed = within.handed_on.try_emplace(block, HandedOn{0, time}).first->second;
        handed.most = std::max(handed.most, own);
    }
}

// What the thread has done so far is what its next atomic releases.
void begin_release(const Thread& thread, bool of_block) {
    if (!fences_used) {
        fences_used = true;
        restart_fences();
    }
    tick(thread.warp);
    within.last_fence[thread.linear] = stamp_of(thread);
    if (!of_block) last_fence[thread.linear] = stamp_of(thread);
}

}  // namespace

bool happens_before(std::uint64_t stamp, std::uint32_t lanes, const RaceAccess& access) {
    if (access.global ? settled_before<true>(stamp) : settled_before<false>(stamp)) return true;
    const Thread& thread = *access.thread;
    if (stamp >= race_now.block_floor) {
        bool own_warp = ((stamp ^ access.stamp) & stamp::thread_mask & ~stamp::lane_mask) == 0;
        if (own_warp) lanes = unordered_lanes(stamp, lanes, thread);
    }
    if (lanes && !fences_used) return false;
    for (; lanes; lanes &= lanes - 1) {
        std::uint64_t member = stamp | static_cast<std::uint64_t>(__builtin_ctz(lanes));
        if (!released_before(member, thread)) return false;
    }
    return true;
}

bool follows_last_atomic(const RaceAccess& access) {
    if (!fences_used) return false;
    auto last = last_atomic.find(access.address);
    if (last == last_atomic.end()) return false;
    const std::uint64_t stamp = last->second;
    if (thread_key(stamp) == thread_key(access.stamp)) return true;
    return stamp >= race_now.block_floor &&
           happens_before(stamp & ~stamp::lane_mask, 1u << (stamp & stamp::lane_mask), access);
}

Who who_of(std::uint64_t stamp) {
    const Index3& block = current_launch->block;
    auto block_run = static_cast<std::uint32_t>(stamp >> stamp::block_shift);
    std::uint32_t thread = stamp & stamp::thread_mask;
    return {true,
            block_in_turn(block_run - first_of_launch).index,
            {thread % block.x, thread / block.x % block.y, thread / block.x / block.y}};
}

void races_launch_begin() {
    std::uint64_t blocks = std::uint64_t{current_launch->grid.x} * current_launch->grid.y *
                           current_launch->grid.z;
    if (blocks_run + blocks >= stamp::most_blocks - 1) {
        clear_cells();
        blocks_run = 0;
    }
    first_of_launch = blocks_run + 1;
    race_now.launch_floor = std::uint64_t{first_of_launch} << stamp::block_shift;
    race_now.kernel_floor = race_now.launch_floor;
    forget_releases();
}

void races_grid_barrier() {
    const std::uint64_t kernel_floor = race_now.kernel_floor;
    races_launch_begin();
    race_now.kernel_floor = std::min(kernel_floor, race_now.launch_floor);
}

void races_block_begin() {
    if (blocks_run == stamp::most_blocks - 1) {  // a launch of millions of blocks: start again
        clear_cells();
        blocks_run = first_of_launch - 1;
    }
    ++blocks_run;
    race_now.block_floor = std::uint64_t{blocks_run} << stamp::block_shift;
    set_epoch();
    restart_warp_clocks();
    if (fences_used) restart_fences();
}

void races_barrier() {
    set_epoch();
    restart_warp_clocks();
    if (fences_used) share_acquired(0, threads.size(), 0, true);
}

void races_warp_sync(std::uint32_t warp, unsigned mask) {
    std::uint16_t clock = tick(warp);
    std::uint32_t lanes = lanes_of(warp);
    WarpOrder& order = warp_orders[warp];
    if ((mask & lanes) == lanes) {
        order.all = clock;
    } else {
        join_lanes(order, mask & lanes, clock);
    }
    if (!fences_used) return;
    std::size_t first = std::size_t{warp} * warp_lanes;
    share_acquired(first, std::min(first + warp_lanes, threads.size()), mask, false);
}

void races_fence(const Thread& thread, AtomicOrder order) {
    if (order.releases) begin_release(thread, order.of_block);
    if (!order.acquires) return;
    const std::uint32_t me = thread.linear;
    acquired[me] = std::max(acquired[me], seen[me]);
    within.acquired[me] = std::max(within.acquired[me], within.seen[me]);
}

void races_atomic_order(const Thread& thread, Address address, bool stores, AtomicOrder order) {
    std::uint64_t &nearest = within.last_fence[thread.linear], &fence = last_fence[thread.linear];
    const std::uint64_t nearest_before = nearest, fence_before = fence;
    if (order.releases) begin_release(thread, order.of_block);
    if (!fences_used) return;
    last_atomic[address] = stamp_of(thread);
    acquire(thread, address, order);
    if (nearest && stores) {
        std::uint32_t time = ++release_count;
        if (fence && !order.of_block) release(thread, address, time);
        if (fence < nearest || order.of_block) release_within(thread, address, time);
    }
    if (order.releases) {  // what it releases, no later atomic does
        nearest = nearest_before;
        fence = fence_before;
    }
}

}  // namespace warpgrade
