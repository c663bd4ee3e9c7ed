// The scheduler: chooses the next thread of the block.
//
// A warp runs until each of its threads waits or has finished, then the next warp does. The order
// is fixed, so every run is the same. A thread that has to wait switches directly to the next ready
// thread of its warp. A thread that finishes continues as the next one on the same stack, so
// kernels that never wait need one stack and hardly a switch.
#include "scheduler.h"

#include <cstring>

#include "../include/warpgrade/device_api.h"
#include "block_order.h"
#include "errors.h"
#include "fibers.h"
#include "observe.h"

// The runtime's own view of CUDA's built-in variables, which is writable.
__thread warpgrade::Index3 warpgrade_thread_index asm("threadIdx");

namespace warpgrade {

Thread* current_thread;
Launch* current_launch;
BlockState current_block;
std::vector<Thread> threads;
Address stacks_low;
size_t stacks_size;

namespace {

// A spinning thread yields after so many atomics or volatile reads.
constexpr uint32_t spins_per_turn = 64;
// In another order of blocks, and in a cooperative launch, a block that spins for so many rounds
// waits for another block.
constexpr uint32_t most_spinning_rounds = 1000;
// Stacks start at different cache sets, or their tops would share one set.
constexpr size_t stack_colours = 32, colour_bytes = 128;

void (*thunk_of_launch)(void*);
void* context_of_launch;
void* scheduler_fiber;
bool abandoned;
std::vector<Address> free_stacks;  // last in, first out: the last one is in the cache
// Buffers of merged traces, reused by later warps.
std::vector<std::vector<TraceEntry>> free_traces;

void fiber_main();

void become(Thread& thread) {
    current_thread = &thread;
    warpgrade_thread_index = thread.index;
}

Address stack_top(Address low) {
    size_t number = (low - stacks_low) / stack_bytes;
    return low + stack_bytes - number % stack_colours * colour_bytes;
}

void take_trace(Thread& thread) {
    if (free_traces.empty()) return;
    thread.trace.swap(free_traces.back());
    free_traces.pop_back();
}

void give_trace_back(Thread& thread) {
    if (!thread.trace.capacity()) return;
    free_traces.emplace_back();
    free_traces.back().swap(thread.trace);
}

void start_on(Address stack_low, Thread& thread) {
    thread.stack_low = stack_low;
    take_trace(thread);
}

void start_on_new_stack(Thread& thread) {
    start_on(free_stacks.back(), thread);
    free_stacks.pop_back();
    thread.stack_pointer = prepare_fiber(stack_top(thread.stack_low), fiber_main);
}

// The next ready thread of the warp, from threads[from] on; null if there is none.
Thread* next_ready(uint32_t from, uint32_t end) {
    for (uint32_t i = from; i < end; ++i) {
        Thread& thread = threads[i];
        if (thread.state == ThreadState::ready && !thread.gave_turn) return &thread;
    }
    return nullptr;
}

Thread* next_after(const Thread& thread) {
    return next_ready(thread.linear + 1, warp_range(thread.warp).last);
}

// Suspends the running fiber for `next`, or for the scheduler if there is no next thread.
void leave_for(Thread* next, void** save) {
    if (!next) {
        current_thread = nullptr;
        warpgrade_switch(save, scheduler_fiber);
        return;
    }
    if (!next->stack_low) start_on_new_stack(*next);
    become(*next);
    warpgrade_switch(save, next->stack_pointer);
}

void run_thread() {
    try {
        thunk_of_launch(context_of_launch);
    } catch (...) {
        warpgrade_unsupported("C++ exceptions in device code");
    }
    const Thread& self = *current_thread;
    if (self.arrived) {
        report_finding(FindingKind::misused_barrier, self.arrived, &self, 0, nullptr,
                       "barrier_arrive() without barrier_wait()");
    }
}

void fiber_main() {
    for (;;) {
        run_thread();
        Thread& done = *current_thread;
        done.state = ThreadState::finished;
        Thread* next = next_after(done);
        if (next && !next->stack_low) {
            start_on(done.stack_low, *next);
            become(*next);
            continue;
        }
        free_stacks.push_back(done.stack_low);
        leave_for(next, &done.stack_pointer);  // does not return
    }
}

void reset_thread(Thread& thread) {
    thread.stack_low = 0;
    thread.state = ThreadState::ready;
    thread.warp_epoch = 0;
    thread.call_depth = 0;
    thread.path = 0;
    thread.active_mask = 0;
    thread.arrived = 0;
    thread.spins = 0;
    thread.gave_turn = false;
    thread.trace.clear();
    thread.copies.clear();
    thread.copy_groups = 0;
    thread.global_bytes = 0;
}

void run_warp(uint32_t warp) {
    WarpRange range = warp_range(warp);
    do {
        while (Thread* thread = next_ready(range.first, range.last)) {
            leave_for(thread, &scheduler_fiber);
            if (abandoned) return;
        }
    } while (resolve_warp_operations(warp) && !abandoned);
}

bool same_barrier(const Thread& a, const Thread& b) {
    bool alike = (a.barrier_kind == barrier_grid) == (b.barrier_kind == barrier_grid);
    return alike && a.barrier_place == b.barrier_place;
}

Standing look_around() {
    Standing standing{};
    for (Thread& thread : threads) {
        switch (thread.state) {
            case ThreadState::ready:
                standing.spinning = &thread;
                thread.gave_turn = false;
                break;
            case ThreadState::at_warp_operation:
                if (!standing.stuck) standing.stuck = &thread;
                break;
            case ThreadState::finished:
                if (!standing.gone) standing.gone = &thread;
                ++standing.finished;
                break;
            case ThreadState::at_barrier:
                if (!standing.first) standing.first = &thread;
                if (!standing.other && !same_barrier(thread, *standing.first)) {
                    standing.other = &thread;
                }
                ++standing.at_barrier;
                if (thread.barrier_kind == barrier_grid) ++standing.at_grid_barrier;
                break;
        }
    }
    return standing;
}

bool settled(uint32_t warp) {
    WarpRange range = warp_range(warp);
    for (uint32_t i = range.first; i < range.last; ++i) {
        ThreadState state = threads[i].state;
        if (state != ThreadState::at_barrier && state != ThreadState::finished) return false;
    }
    return true;
}

void merge_traces(uint32_t warp) {
    observe_warp_trace(warp);
    WarpRange range = warp_range(warp);
    for (uint32_t i = range.first; i < range.last; ++i) {
        Thread& thread = threads[i];
        if (thread.state == ThreadState::finished) give_trace_back(thread);
    }
}

// One round: every warp runs as far as it can. A warp's traces are merged while they are in the
// cache, as soon as all its threads have reached the barrier or the end.
bool run_warps() {
    for (uint32_t place = 0, warps = warps_of_block(); place < warps; ++place) {
        const uint32_t warp = warp_in_turn(place);
        run_warp(warp);
        if (abandoned) return false;
        if (settled(warp)) merge_traces(warp);
    }
    return true;
}

// Runs the block's threads to their end, or to the grid's barrier.
BlockEnd run_threads() {
    uint32_t spinning = 0;  // consecutive rounds without other progress
    const Index3 grid = current_launch->grid;
    const bool has_others = uint64_t{grid.x} * grid.y * grid.z > 1;
    const bool may_wait_for_others =
        blocks_are_reordered() || (current_launch->cooperative && has_others);
    while (run_warps()) {
        Standing standing = look_around();
        if (standing.spinning) {
            if (may_wait_for_others && ++spinning > most_spinning_rounds) give_up_waiting();
            continue;
        }
        spinning = 0;
        if (standing.stuck) {
            report_stuck_warp_operation(*standing.stuck);
            set_error(error_launch_failure, true);
            return BlockEnd::abandoned;
        }
        if (!standing.at_barrier) return BlockEnd::finished;
        check_barrier(standing);
        if (standing.at_grid_barrier == standing.at_barrier) return BlockEnd::at_grid_barrier;
        if (standing.at_grid_barrier) {  // others wait for threads at the grid's barrier
            set_error(error_launch_failure, true);
            return BlockEnd::abandoned;
        }
        pass_barrier(standing);
    }
    return BlockEnd::abandoned;
}

void number_threads(Index3 block) {
    for (uint32_t i = 0; i < threads.size(); ++i) {
        threads[i].linear = i;
        threads[i].lane = i % warp_lanes;
        threads[i].warp = i / warp_lanes;
        threads[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    }
}

// Bytes of a waiting thread's stack.
size_t used_stack(const Thread& thread) {
    if (thread.state == ThreadState::finished) return 0;
    return stack_top(thread.stack_low) - reinterpret_cast<Address>(thread.stack_pointer);
}

void free_all_stacks(size_t count) {
    free_stacks.clear();
    for (size_t i = count; i-- > 0;) free_stacks.push_back(stacks_low + i * stack_bytes);
}

}  // namespace

void prepare_threads(Index3 block) {
    size_t count = size_t{block.x} * block.y * block.z;
    if (!stacks_low) {
        constexpr size_t most_threads = 1024;
        stacks_low = map_stacks(most_threads, stack_bytes);
        stacks_size = most_threads * stack_bytes;
    }
    free_all_stacks(count);
    threads.resize(count);
    number_threads(block);
}

BlockEnd run_block(void (*thunk)(void*), void* context) {
    thunk_of_launch = thunk;
    context_of_launch = context;
    abandoned = false;
    current_block.barrier_epoch = 1;
    for (Thread& thread : threads) reset_thread(thread);
    return run_threads();
}

BlockEnd resume_block() {
    abandoned = false;
    for (Thread& thread : threads) {
        if (thread.state == ThreadState::at_barrier) thread.state = ThreadState::ready;
    }
    return run_threads();
}

WaitingThreads put_threads_aside() {
    WaitingThreads waiting;
    size_t bytes = 0;
    for (const Thread& thread : threads) bytes += used_stack(thread);
    waiting.stacks.reserve(bytes);
    for (Thread& thread : threads) {
        auto* low = static_cast<const char*>(thread.stack_pointer);
        waiting.stacks.insert(waiting.stacks.end(), low, low + used_stack(thread));
        give_trace_back(thread);  // empty: all traces of the block have been merged
    }
    const size_t count = threads.size();
    waiting.threads.swap(threads);
    threads.resize(count);
    number_threads(current_launch->block);
    free_all_stacks(count);
    return waiting;
}

void bring_threads_back(WaitingThreads& waiting) {
    threads.swap(waiting.threads);
    waiting.threads.clear();
    free_stacks.clear();  // no thread starts any more
    const char* from = waiting.stacks.data();
    for (Thread& thread : threads) {
        std::memcpy(thread.stack_pointer, from, used_stack(thread));
        from += used_stack(thread);
        if (thread.state != ThreadState::finished) take_trace(thread);
    }
    waiting.stacks.clear();
}

void wait_as(ThreadState state, Address pc) {
    Thread& self = *current_thread;
    self.state = state;
    self.waiting_at = pc;
    leave_for(next_after(self), &self.stack_pointer);
}

void count_spin() {
    Thread* self = current_thread;
    if (!self || ++self->spins < spins_per_turn) return;
    self->spins = 0;
    give_turn();
}

void give_turn() {
    Thread* self = current_thread;
    self->gave_turn = true;
    leave_for(next_after(*self), &self->stack_pointer);
}

void abandon_launch(int cuda_error) {
    set_error(cuda_error, true);
    if (!current_thread) abandon_entry(EntryEnd::abandoned);
    abandon_block();
}

void abandon_block() {
    abandoned = true;
    void* forgotten;
    leave_for(nullptr, &forgotten);
    __builtin_unreachable();
}

}  // namespace warpgrade
