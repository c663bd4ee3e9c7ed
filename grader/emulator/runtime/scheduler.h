// Runs the threads of one block to their end, warp after warp (internal to the execution half).
#pragma once
#include "core.h"

namespace warpgrade {

// Makes the table of threads, and stacks for them, for blocks of this shape.
void prepare_threads(Index3 block);

// Runs current_block; every thread calls thunk(context). False: the launch was abandoned.
bool run_block(void (*thunk)(void*), void* context);

// The running thread leaves the processor in this state; returns when it is ready again.
void wait_as(ThreadState state, Address pc);

// Carries out the operations of a warp that all their lanes have come to (warps.cpp). True where
// some thread became ready.
bool resolve_warp_operations(uint32_t warp);

// `stuck` waits in a warp operation that can never be carried out: says why (warps.cpp).
void report_stuck_warp_operation(const Thread& stuck);

// What a round over the warps left behind.
struct Standing {
    uint32_t at_barrier, finished;
    Thread* spinning;  // ready, but gave its turn away
    Thread* stuck;     // in a warp operation
    Thread *first, *other;  // at a barrier; `other` at another one than `first`
    Thread* gone;           // finished
};

// All that can still move wait at a barrier, or at several: says what is wrong with that, then lets
// them go on with the results (barriers.cpp).
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

}  // namespace warpgrade
