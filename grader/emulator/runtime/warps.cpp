// Operations that the lanes of a warp perform together: shuffles, votes, matches, reductions,
// __syncwarp. A lane waits until all lanes in its mask (except those that have returned, as in
// CUDA) wait for the same operation with the same mask; then all get their results at once.
#include <algorithm>

#include "../include/warpgrade/device_api.h"
#include "errors.h"
#include "observe.h"
#include "scheduler.h"

namespace warpgrade {

namespace {

// The values that a lane may get from an absent one: as floats a NaN, a large and a small number. One
// of them shows in every sum, maximum and minimum.
constexpr uint64_t undefined_values[] = {0x7ff7'dead'7fc7'dead, 0x7fe7'dead'7f57'dead,
                                         0xffe7'dead'ff57'dead};
unsigned undefined_value = 0;  // counted from 1; 0: the first, and that it is read is a finding

struct Warp {
    Thread* lanes;
    uint32_t count;  // existing lanes
};

Warp warp_of(uint32_t number) {
    WarpRange range = warp_range(number);
    return {&threads[range.first], range.last - range.first};
}

bool same_operation(const WarpRequest& a, const WarpRequest& b) {
    return a.operation == b.operation && a.mask == b.mask;
}

bool waits_here(const Thread& thread) { return thread.state == ThreadState::at_warp_operation; }

// The lanes of the mask that have arrived; 0 while others may still arrive.
unsigned participants(const Warp& warp, const WarpRequest& request) {
    unsigned come = 0;
    for (uint32_t lane = 0; lane < warp.count; ++lane) {
        const Thread& other = warp.lanes[lane];
        if (!(request.mask >> lane & 1) || other.state == ThreadState::finished) continue;
        if (!waits_here(other) || !same_operation(other.request, request)) return 0;
        come |= 1u << lane;
    }
    return come;
}

// The mask of __activemask isn't known beforehand: it joins lanes that wait at the same call, if
// they came by the same branches.
unsigned converged(const Warp& warp, const Thread& asking) {
    unsigned come = 0;
    for (uint32_t lane = 0; lane < warp.count; ++lane) {
        const Thread& other = warp.lanes[lane];
        if (waits_here(other) && other.request.operation == warpgrade_activemask &&
            other.waiting_at == asking.waiting_at && other.path == asking.path) {
            come |= 1u << lane;
        }
    }
    return come;
}

// The source lane of `lane` in a shuffle: itself where the source is outside its segment.
uint32_t shuffle_source(uint32_t lane, const WarpRequest& request) {
    int width = request.width, argument = request.argument, own = static_cast<int>(lane);
    int low = own & ~(width - 1), high = low + width, source = own;
    switch (request.operation) {
        case warpgrade_shuffle: source = low + (argument & (width - 1)); break;
        case warpgrade_shuffle_up: source = own - (argument & 31); break;
        case warpgrade_shuffle_down: source = own + (argument & 31); break;
        case warpgrade_shuffle_xor: source = own ^ (argument & 31); break;
    }
    if (request.operation == warpgrade_shuffle_up) return source < low ? own : source;
    return source >= high ? own : source;
}

uint64_t shuffle(const Warp& warp, unsigned come, const uint64_t* given, const Thread& self) {
    uint32_t source = shuffle_source(self.lane, self.request);
    if (come >> source & 1) return given[source];
    if (undefined_value) return undefined_values[undefined_value - 1];
    bool exists = source < warp.count;
    const Thread* other = exists ? &warp.lanes[source] : nullptr;
    const char* why = !exists ? "which the block doesn't have"
                      : self.request.mask >> source & 1 ? "which has returned"
                      : self.request.mask == self.active_mask
                          ? "which __activemask() hasn't named: after a branch lanes need not meet"
                          : "which its mask doesn't name";
    report_finding(FindingKind::shuffle_absent_lane, self.waiting_at, &self, 0, other,
                   "lane %u reads from lane %u, %s", self.lane, source, why);
    return undefined_values[0];
}

uint32_t combine(int operation, bool is_signed, uint32_t a, uint32_t b) {
    auto less = [is_signed](uint32_t x, uint32_t y) {
        return is_signed ? static_cast<int32_t>(x) < static_cast<int32_t>(y) : x < y;
    };
    switch (operation) {
        case warpgrade_reduce_add: return a + b;
        case warpgrade_reduce_min: return less(a, b) ? a : b;
        case warpgrade_reduce_max: return less(a, b) ? b : a;
        case warpgrade_reduce_and: return a & b;
        case warpgrade_reduce_or: return a | b;
        default: return a ^ b;
    }
}

uint64_t reduce(unsigned come, const uint64_t* given, const WarpRequest& request) {
    uint32_t lane = static_cast<uint32_t>(__builtin_ctz(come));
    uint32_t result = static_cast<uint32_t>(given[lane]);
    for (unsigned rest = come & (come - 1); rest; rest &= rest - 1) {
        lane = static_cast<uint32_t>(__builtin_ctz(rest));
        result = combine(request.operation, request.argument != 0, result,
                         static_cast<uint32_t>(given[lane]));
    }
    return result;
}

unsigned lanes_with(unsigned come, const uint64_t* given, uint64_t value) {
    unsigned equal = 0;
    for (unsigned rest = come; rest; rest &= rest - 1) {
        int lane = __builtin_ctz(rest);
        if (given[lane] == value) equal |= 1u << lane;
    }
    return equal;
}

uint64_t result_for(const Warp& warp, unsigned come, const uint64_t* given, const Thread& self) {
    const WarpRequest& request = self.request;
    switch (request.operation) {
        case warpgrade_shuffle:
        case warpgrade_shuffle_up:
        case warpgrade_shuffle_down:
        case warpgrade_shuffle_xor: return shuffle(warp, come, given, self);
        case warpgrade_ballot: return come & ~lanes_with(come, given, 0);
        case warpgrade_match_any: return lanes_with(come, given, given[self.lane]);
        case warpgrade_match_all:
            return lanes_with(come, given, given[self.lane]) == come ? come : 0;
        case warpgrade_activemask: return come;
        case warpgrade_syncwarp: return 0;
        default: return reduce(come, given, request);
    }
}

void advance_epochs(const Warp& warp, unsigned come) {
    uint32_t latest = 0;
    for (unsigned rest = come; rest; rest &= rest - 1) {
        latest = std::max(latest, warp.lanes[__builtin_ctz(rest)].warp_epoch);
    }
    for (unsigned rest = come; rest; rest &= rest - 1) {
        warp.lanes[__builtin_ctz(rest)].warp_epoch = latest + 1;
    }
}

// Traces are merged at the block's barrier. A warp that waits by other means (a pipeline) might not
// come to one before they fill the memory, so long ones are merged where all its threads meet.
constexpr size_t long_trace = size_t{1} << 12;

void shorten_traces(const Warp& warp, uint32_t number, unsigned come) {
    if (warp.lanes[__builtin_ctz(come)].trace.size() < long_trace) return;
    for (uint32_t lane = 0; lane < warp.count; ++lane) {
        const bool is_here = come >> lane & 1;
        if (!is_here && warp.lanes[lane].state != ThreadState::finished) return;
    }
    observe_warp_trace(number);
}

void carry_out(const Warp& warp, uint32_t number, unsigned come) {
    uint64_t given[warp_lanes];
    for (uint32_t lane = 0; lane < warp.count; ++lane) given[lane] = warp.lanes[lane].request.value;
    const WarpRequest first = warp.lanes[__builtin_ctz(come)].request;
    const uint32_t path = warp.lanes[__builtin_ctz(come)].path;
    for (unsigned rest = come; rest; rest &= rest - 1) {
        Thread& thread = warp.lanes[__builtin_ctz(rest)];
        thread.request.value = result_for(warp, come, given, thread);
        thread.state = ThreadState::ready;
        if (first.operation == warpgrade_activemask) {
            thread.active_mask = come;
        } else {
            thread.path = path;
        }
    }
    if (first.operation == warpgrade_syncwarp) {
        advance_epochs(warp, come);
        observe_warp_sync(number, first.mask);
    }
    if (first.operation != warpgrade_activemask) shorten_traces(warp, number, come);
}

// A mask or a width that hardware can't execute ends the launch.
void check_request(const Thread& self, const WarpRequest& request, Address pc) {
    bool in_mask = request.mask >> self.lane & 1;
    int width = request.width;
    bool good_width = width > 0 && width <= 32 && (width & (width - 1)) == 0;
    if (request.operation == warpgrade_activemask || (in_mask && good_width)) return;
    if (!in_mask) {
        report_finding(FindingKind::bad_warp_mask, pc, &self, 0, nullptr,
                       "lane %u calls with mask 0x%08x, which doesn't name it", self.lane,
                       request.mask);
    } else {
        report_finding(FindingKind::bad_warp_mask, pc, &self, 0, nullptr,
                       "a width of %d: it must be 1, 2, 4, 8, 16 or 32", width);
    }
    abandon_launch(error_launch_failure);
}

uint64_t ask_warp(const WarpRequest& request, Address pc) {
    Thread* self = current_thread;
    if (!self) return request.value;
    check_request(*self, request, pc);
    self->request = request;
    if (counting) {
        uint32_t relative = static_cast<uint32_t>(pc - image().base);
        self->trace.push_back({relative, 0, 0, access::synchronise, access::no_space,
                               static_cast<uint16_t>(self->call_depth)});
    }
    wait_as(ThreadState::at_warp_operation, pc);
    return self->request.value;
}

// The lane that `stuck` waits for in vain: in its mask, alive, at another operation.
const Thread* missing_partner(const Warp& warp, const Thread& stuck) {
    for (uint32_t lane = 0; lane < warp.count; ++lane) {
        const Thread& other = warp.lanes[lane];
        if (!(stuck.request.mask >> lane & 1) || other.state == ThreadState::finished) continue;
        if (!waits_here(other) || !same_operation(other.request, stuck.request)) return &other;
    }
    return &stuck;
}

}  // namespace

void set_undefined_value(unsigned number) { undefined_value = number; }

bool resolve_warp_operations(uint32_t number) {
    Warp warp = warp_of(number);
    bool any = false;
    for (uint32_t lane = 0; lane < warp.count; ++lane) {
        const Thread& thread = warp.lanes[lane];
        if (!waits_here(thread) || thread.request.operation == warpgrade_activemask) continue;
        if (unsigned come = participants(warp, thread.request)) {
            carry_out(warp, number, come);
            any = true;
        }
    }
    if (any) return true;  // those lanes may yet reach an __activemask that others wait at
    for (uint32_t lane = 0; lane < warp.count; ++lane) {
        const Thread& thread = warp.lanes[lane];
        if (!waits_here(thread) || thread.request.operation != warpgrade_activemask) continue;
        carry_out(warp, number, converged(warp, thread));
        any = true;
    }
    return any;
}

void report_stuck_warp_operation(const Thread& stuck) {
    const Thread& other = *missing_partner(warp_of(stuck.warp), stuck);
    if (waits_here(other) && other.request.operation == stuck.request.operation) {
        report_finding(FindingKind::bad_warp_mask, stuck.waiting_at, &stuck, other.waiting_at,
                       &other, "lane %u calls with mask 0x%08x, lane %u with mask 0x%08x",
                       stuck.lane, stuck.request.mask, other.lane, other.request.mask);
        return;
    }
    report_finding(FindingKind::deadlock, stuck.waiting_at, &stuck, other.waiting_at, &other,
                   "lane %u waits with mask 0x%08x for lane %u, which waits elsewhere", stuck.lane,
                   stuck.request.mask, other.lane);
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

unsigned long long warpgrade_warp_operation(int operation, unsigned mask, unsigned long long value,
                                            int argument, int width) {
    return ask_warp({operation, mask, value, argument, width}, WARPGRADE_CALLER);
}

void __syncwarp(unsigned mask) {
    ask_warp({warpgrade_syncwarp, mask, 0, 0, warp_lanes}, WARPGRADE_CALLER);
}

}  // extern "C"
