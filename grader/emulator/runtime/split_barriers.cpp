// Barriers in two steps, arriving and waiting: cuda::barrier, the block's barrier_arrive() and
// barrier_wait(), and PTX's named barriers (bar.sync and bar.arrive with a number and a count).
//
// Arriving releases what the thread has done, and waiting for the phase acquires it; threads may have
// arrived in the next phase before a thread sees this one's end. A phase also waits for the
// asynchronous copies that the barrier has taken over in it: their bytes come when a first thread has
// waited for it, as stores by that thread, so that no other sees them without waiting.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>

#include "../include/warpgrade/device_api.h"
#include "access.h"
#include "async_copies.h"
#include "errors.h"
#include "observe.h"
#include "scheduler.h"
#include "shared_memory.h"

namespace warpgrade {
namespace {

// What a cuda::barrier holds, in the program's memory.
struct State {
    uint32_t expected : 20, more_phases : 12;
    uint32_t missing : 20, phases : 12;  // completed, modulo 4096
};
static_assert(sizeof(State) == sizeof(uint64_t));

// A barrier waits for the threads of its block, which all go on meanwhile: where in so many turns no
// barrier's phase has ended, none will.
constexpr uint32_t most_turns = 4000;
uint64_t ended_phases;  // of all barriers

struct Copies {
    std::vector<AsyncCopy> of_phase, of_earlier;
};
std::unordered_map<Address, Copies> copies_of;  // by barrier
[[noreturn]] void misused(const char* how, Address pc) {
    report_finding(FindingKind::misused_barrier, pc, current_thread, 0, nullptr, "%s", how);
    abandon_launch(error_launch_failure);
}

constexpr unsigned named_barriers = 16;
State of_block[1 + named_barriers];  // the block's own barrier, and PTX's
uint32_t block_of_them, launch_of_them;

State* block_states() {
    const auto launch = static_cast<uint32_t>(current_launch->number);
    if (block_of_them != current_block.linear || launch_of_them != launch) {
        const auto count = static_cast<uint32_t>(threads.size());
        std::fill(std::begin(of_block), std::end(of_block), State{count, 0, count, 0});
        block_of_them = current_block.linear;
        launch_of_them = launch;
    }
    return of_block;
}

// The first thread that comes says for how many its barrier is.
State& named_state(unsigned number, uint32_t count, Address pc) {
    if (number >= named_barriers) misused("a block has barriers 0 to 15", pc);
    const bool is_whole = count % 32 == 0 || count == threads.size();  // also a block's last warp
    if (!count || !is_whole || count > threads.size()) {
        misused("a barrier is for whole warps, as many as the block has at most", pc);
    }
    State& state = block_states()[1 + number];
    if (state.missing == state.expected) state.missing = state.expected = count & 0xfffff;
    if (state.expected != count) misused("threads come to a barrier with different counts", pc);
    return state;
}

void order(const State& state, unsigned phase, bool acquires, bool releases) {
    const Address key = reinterpret_cast<Address>(&state) + phase % 2;
    races_atomic_order(*current_thread, key, releases, {true, acquires, releases});
}

unsigned arrive(State& state, uint32_t count, bool leaves, Address pc) {
    const unsigned phase = state.phases;
    if (count > state.missing) misused("more threads arrive than the barrier was made for", pc);
    order(state, phase, count == state.missing, true);
    if (leaves) --state.expected;
    state.missing -= count;
    if (state.missing) return phase;
    auto taken = copies_of.find(reinterpret_cast<Address>(&state));
    if (taken != copies_of.end()) {
        auto& [of_phase, of_earlier] = taken->second;
        of_earlier.insert(of_earlier.end(), of_phase.begin(), of_phase.end());
        of_phase.clear();
    }
    state.missing = state.expected;
    ++state.phases;
    ++ended_phases;
    return phase;
}

void end_copies(const State& state, unsigned phase) {
    auto taken = copies_of.find(reinterpret_cast<Address>(&state));
    if (taken == copies_of.end() || taken->second.of_earlier.empty()) return;
    const bool counted = counting;
    counting = false;  // they have counted as their own threads' stores
    for (const AsyncCopy& copy : taken->second.of_earlier) end_copy(copy);
    counting = counted;
    taken->second.of_earlier.clear();
    order(state, phase, false, true);
}

void wait(const State& state, unsigned phase, Address pc) {
    uint64_t seen = ended_phases;
    for (uint32_t turn = 0; state.phases == (phase & 0xfff); ++turn) {
        if (ended_phases != seen) {
            seen = ended_phases;
            turn = 0;
        }
        if (turn > most_turns) {
            report_finding(FindingKind::deadlock, pc, current_thread, 0, nullptr,
                           "%u more arrivals are missing at the barrier", state.missing);
            abandon_launch(error_launch_failure);
        }
        give_turn();
    }
    order(state, phase, true, false);
    end_copies(state, phase);
}

State* state_of(void* barrier) { return static_cast<State*>(barrier); }

constexpr int bytes = sizeof(State);

}  // namespace
}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

void warpgrade_barrier_init(void* barrier, unsigned expected) {
    if (!current_thread) return;
    const Address a = reinterpret_cast<Address>(barrier);
    observe_slowly(a, bytes, AccessKind::store, true, WARPGRADE_CALLER);
    copies_of.erase(a);
    *state_of(barrier) = {expected, 0, expected, 0};
}

unsigned warpgrade_barrier_arrive(void* barrier, unsigned count, bool leaves) {
    const Address pc = WARPGRADE_CALLER;
    observe_ordered_atomic(barrier, bytes, pc, warpgrade_loads | warpgrade_stores,
                           __ATOMIC_RELAXED, warpgrade_scope_block);
    return arrive(*state_of(barrier), count, leaves, pc);
}

void warpgrade_barrier_wait(void* barrier, unsigned phase) {
    const Address pc = WARPGRADE_CALLER;
    observe_ordered_atomic(barrier, bytes, pc, warpgrade_loads, __ATOMIC_RELAXED,
                           warpgrade_scope_block);
    wait(*state_of(barrier), phase, pc);
}

void warpgrade_barrier_takes_copies(void* barrier) {
    Thread* self = current_thread;
    if (!self || self->copies.empty()) return;
    std::vector<AsyncCopy>& taken = copies_of[reinterpret_cast<Address>(barrier)].of_phase;
    for (const AsyncCopy& copy : self->copies) {
        taken.push_back(copy);
        trace_access(*self, static_cast<uint32_t>(copy.pc - image_base),
                     static_cast<uint32_t>(copy.to - shared_low), copy.size, access::store,
                     access::shared);
    }
    self->copies.clear();
}

unsigned warpgrade_block_arrive() {
    const Address pc = WARPGRADE_CALLER;
    Thread* self = current_thread;
    if (!self) return 0;
    if (self->arrived) misused("barrier_arrive() again before barrier_wait()", pc);
    self->arrived = pc;
    return arrive(*block_states(), 1, false, pc);
}

void warpgrade_block_wait(unsigned phase) {
    const Address pc = WARPGRADE_CALLER;
    Thread* self = current_thread;
    if (!self) return;
    if (!self->arrived) misused("barrier_wait() without barrier_arrive()", pc);
    wait(*block_states(), phase, pc);
    self->arrived = 0;
}

void warpgrade_named_barrier(unsigned number, unsigned count, bool waits) {
    const Address pc = WARPGRADE_CALLER;
    if (!current_thread) return;
    State& state = named_state(number, count, pc);
    const unsigned phase = arrive(state, 1, false, pc);
    if (waits) wait(state, phase, pc);
}

}  // extern "C"
