// Runs the threads of one block to their end, warp after warp (internal to the execution half).
#pragma once
#include "core.h"

namespace warpgrade {

// Makes the table of threads, and their stacks, for blocks of this shape.
void prepare_threads(Index3 block);

enum class BlockEnd { finished, abandoned, at_grid_barrier };

// Runs current_block; every thread calls thunk(context). `abandoned`: the launch was.
BlockEnd run_block(void (*thunk)(void*), void* context);
// Resumes a block at the grid's barrier.
BlockEnd resume_block();

// The threads of a block that waits at the grid's barrier. All blocks use the same stacks, so their
// contents are saved here, and restored to the same addresses.
struct WaitingThreads {
    std::vector<Thread> threads;
    std::vector<char> stacks;  // the used part of each thread's, one after the other

    size_t bytes() const { return threads.size() * sizeof(Thread) + stacks.size(); }
};
WaitingThreads put_threads_aside();
void bring_threads_back(WaitingThreads& waiting);

// Suspends the running thread in this state; returns when it is ready again.
void wait_as(ThreadState state, Address pc);

// Runs the operations of a warp that all their lanes have reached (warps.cpp). True where some
// thread became ready.
bool resolve_warp_operations(uint32_t warp);

// What a lane gets in a shuffle from an absent one, from now on: one of three values, counted from 1.
// 0: the first of them, and that it is read is a finding.
void set_undefined_value(unsigned number);

// `stuck` waits in a warp operation that can never run: reports why (warps.cpp).
void report_stuck_warp_operation(const Thread& stuck);

enum BarrierKind : int { barrier_plain, barrier_count, barrier_and, barrier_or, barrier_grid };

// The state after a round over the warps.
struct Standing {
    uint32_t at_barrier, at_grid_barrier, finished;  // those at the grid's are at a barrier, too
    Thread* spinning;  // ready, but has yielded
    Thread* stuck;     // in a warp operation
    Thread *first, *other;  // at a barrier; `other` at a different one
    Thread* gone;           // finished
};

// All live threads wait at one or several barriers: reports errors, then resumes them with the
// results (barriers.cpp). No block passes where some threads wait for the grid.
void check_barrier(const Standing& standing);
void pass_barrier(const Standing& standing);

struct WarpRange {
    uint32_t first, last;  // threads[first .. last - 1]
};
inline WarpRange warp_range(uint32_t warp) {
    uint32_t first = warp * warp_lanes, end = first + warp_lanes;
    uint32_t count = static_cast<uint32_t>(threads.size());
    return {first, end < count ? end : count};
}

inline uint32_t warps_of_block() {
    return static_cast<uint32_t>((threads.size() + warp_lanes - 1) / warp_lanes);
}

}  // namespace warpgrade
