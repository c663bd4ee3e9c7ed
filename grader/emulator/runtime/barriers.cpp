// The block's barrier, __syncthreads and its counting variants; and the grid's, for a thread
// (grid.cpp has the blocks' part).
#include "../include/warpgrade/device_api.h"
#include "block_order.h"
#include "errors.h"
#include "observe.h"
#include "records.h"
#include "scheduler.h"

namespace warpgrade {

namespace {

// `pc`: the barrier's call. Does nothing in host code.
int wait_at_barrier(BarrierKind kind, int value, int place, Address pc) {
    Thread* self = current_thread;
    if (!self) return value;
    // One race is all that a sample reports. A block with a long loop would run out of time first.
    if (blocks_are_sampled() && race_was_found()) abandon_block();
    if (self->arrived) {
        report_finding(FindingKind::misused_barrier, pc, self, self->arrived, self,
                       "a barrier between barrier_arrive() and barrier_wait()");
        abandon_launch(error_launch_failure);
    }
    self->barrier_kind = kind;
    self->barrier_value = value != 0;
    self->barrier_place = place;
    wait_as(ThreadState::at_barrier, pc);
    return self->barrier_value;
}

}  // namespace

void check_barrier(const Standing& standing) {
    if (standing.other) {
        report_finding(FindingKind::divergent_barrier, standing.first->waiting_at, standing.first,
                       standing.other->waiting_at, standing.other,
                       "all threads of a block must come to the same one");
    } else if (standing.gone) {
        report_finding(FindingKind::missing_barrier, standing.first->waiting_at, standing.first, 0,
                       standing.gone, "%u of the block's %zu threads wait", standing.at_barrier,
                       threads.size());
    }
}

void pass_barrier(const Standing& standing) {
    if (recording) record_barrier();
    uint32_t holding = 0;
    for (const Thread& thread : threads) {
        if (thread.state == ThreadState::at_barrier && thread.barrier_value) ++holding;
    }
    for (Thread& thread : threads) {
        if (thread.state != ThreadState::at_barrier) continue;
        switch (thread.barrier_kind) {
            case barrier_count: thread.barrier_value = static_cast<int>(holding); break;
            case barrier_and: thread.barrier_value = holding == standing.at_barrier; break;
            case barrier_or: thread.barrier_value = holding != 0; break;
        }
        thread.state = ThreadState::ready;
        thread.path = 0;
    }
    ++current_block.barrier_epoch;
    observe_barrier();
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

void __syncthreads(int place) { wait_at_barrier(barrier_plain, 0, place, WARPGRADE_CALLER); }
int __syncthreads_count(int predicate, int place) {
    return wait_at_barrier(barrier_count, predicate, place, WARPGRADE_CALLER);
}
int __syncthreads_and(int predicate, int place) {
    return wait_at_barrier(barrier_and, predicate, place, WARPGRADE_CALLER);
}
int __syncthreads_or(int predicate, int place) {
    return wait_at_barrier(barrier_or, predicate, place, WARPGRADE_CALLER);
}

void warpgrade_grid_sync(int line) {
    Address pc = WARPGRADE_CALLER;
    if (current_thread && !current_launch->cooperative) {
        report_finding(FindingKind::grid_barrier, pc, current_thread, 0, nullptr,
                       "the launch is not a cooperative one");
        abandon_launch(error_launch_failure);  // as CUDA's own grid_group does
    }
    wait_at_barrier(barrier_grid, 0, line, pc);
}
bool warpgrade_grid_is_valid() { return current_launch && current_launch->cooperative; }

void warpgrade_atomic(void* p, int bytes) {
    observe_atomic(p, bytes, WARPGRADE_CALLER);
    count_spin();
}
void warpgrade_block_atomic(void* p, int bytes) {
    observe_atomic(p, bytes, WARPGRADE_CALLER, true);
    count_spin();
}
// The next event of the thread is the exchange, so other threads have their turn before.
void warpgrade_exchange(void* p, int bytes) {
    count_spin();
    observe_atomic(p, bytes, WARPGRADE_CALLER, false, true);
}
void warpgrade_block_exchange(void* p, int bytes) {
    count_spin();
    observe_atomic(p, bytes, WARPGRADE_CALLER, true, true);
}
void warpgrade_ordered_atomic(void* p, int bytes, int parts, int order, int scope) {
    count_spin();
    observe_ordered_atomic(p, bytes, WARPGRADE_CALLER, parts, order, scope);
}
void warpgrade_compare_and_swap(void* p, int bytes, unsigned long long expected, int order,
                                int failure, int scope) {
    count_spin();  // others have their turn before it compares
    const Comparison comparison = {
        expected, failure != __ATOMIC_RELAXED && failure != __ATOMIC_RELEASE};
    observe_ordered_atomic(p, bytes, WARPGRADE_CALLER, warpgrade_loads | warpgrade_stores, order,
                           scope, &comparison);
}
bool warpgrade_exchanged(const void* p, bool) {
    observe_exchanged(p);
    return true;
}

}  // extern "C"
