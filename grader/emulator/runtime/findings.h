// The findings of this call of the entry, each kind once per place (internal to the observation
// half; report_finding is in observe.h).
#pragma once
#include <cstdint>

#include "observe.h"

namespace warpgrade {

constexpr std::size_t most_findings = 16;

// A thread of the running launch, or host code.
struct Who {
    bool on_device;
    Index3 block, thread;
};

struct Finding {
    FindingKind kind;
    std::uint64_t pc, other_pc;  // relative to the load base; 0: none
    std::uint64_t count;
    Who who, other;
    bool has_other;
    char text[500];
};

const char* name_of(FindingKind kind);
const Finding& finding(std::size_t index);  // index < finding_count()
void forget_findings();

// The entry was left by abandon_from_host: its state is unreliable.
bool entry_was_abandoned();

// Whether it was found there before, or there is no room for it: no text is needed.
bool is_found(FindingKind kind, Address pc);
// The same; counts it.
bool found_before(FindingKind kind, Address pc);
// The same for a race, whose accesses may come in either order.
bool race_found_before(Address pc, Address other_pc);
void add_finding(FindingKind kind, Address pc, const Who& who, Address other_pc, const Who* other,
                 const char* text);

inline Who host_code() { return {false, {}, {}}; }
inline Who running(const Thread* thread) {
    return thread ? Who{true, current_block.index, thread->index} : host_code();
}

}  // namespace warpgrade
