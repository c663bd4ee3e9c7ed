#include "findings.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace warpgrade {
namespace {

Finding found[most_findings];
std::size_t found_count;

std::uint64_t relative(Address pc) { return pc ? pc - image().base : 0; }

}  // namespace

const char* name_of(FindingKind kind) {
    switch (kind) {
#define NAME(kind) \
    case FindingKind::kind: return #kind
        NAME(out_of_bounds_write);
        NAME(out_of_bounds_read);
        NAME(use_after_free_write);
        NAME(use_after_free_read);
        NAME(write_to_input);
        NAME(uninitialised_read);
        NAME(race);
        NAME(divergent_barrier);
        NAME(missing_barrier);
        NAME(grid_barrier);
        NAME(deadlock);
        NAME(shuffle_absent_lane);
        NAME(bad_warp_mask);
        NAME(misaligned);
        NAME(host_pointer_on_device);
        NAME(device_pointer_on_host);
        NAME(wrong_copy_direction);
        NAME(copy_reads_outside);
        NAME(copy_writes_outside);
        NAME(launch_error);
        NAME(bad_free);
        NAME(leak);
        NAME(stray_host_store);
        NAME(device_assert);
        NAME(index_out_of_range_read);
        NAME(index_out_of_range_write);
        NAME(far_read);
        NAME(far_write);
        NAME(changed_while_copied);
        NAME(undefined_arithmetic);
        NAME(read_only_read);
        NAME(misused_barrier);
#undef NAME
    }
    return "";
}

std::size_t finding_count() { return found_count; }
const Finding& finding(std::size_t index) { return found[index]; }
void forget_findings() { found_count = 0; }
bool race_was_found() {
    return std::any_of(found, found + found_count,
                       [](const Finding& each) { return each.kind == FindingKind::race; });
}

namespace {

Finding* found_at(FindingKind kind, Address pc) {
    const std::uint64_t place = relative(pc);
    Finding* const end = found + found_count;
    Finding* const each = std::find_if(
        found, end, [=](const Finding& one) { return one.kind == kind && one.pc == place; });
    return each == end ? nullptr : each;
}

}  // namespace

bool is_found(FindingKind kind, Address pc) {
    return found_at(kind, pc) || found_count == most_findings;  // no room: dropped
}

bool found_before(FindingKind kind, Address pc) {
    if (Finding* const each = found_at(kind, pc)) ++each->count;
    return is_found(kind, pc);
}

bool race_found_before(Address pc, Address other_pc) {
    for (std::size_t i = 0; i < found_count; ++i) {
        if (found[i].kind == FindingKind::race && found[i].pc == relative(other_pc) &&
            found[i].other_pc == relative(pc)) {
            ++found[i].count;
            return true;
        }
    }
    return found_before(FindingKind::race, pc);
}

void add_finding(FindingKind kind, Address pc, const Who& who, Address other_pc, const Who* other,
                 const char* text) {
    if (found_before(kind, pc)) return;
    Finding& next = found[found_count++];
    next.kind = kind;
    next.pc = relative(pc);
    next.other_pc = relative(other_pc);
    next.count = 1;
    next.who = who;
    next.has_other = other != nullptr;
    if (other) next.other = *other;
    std::snprintf(next.text, sizeof next.text, "%s", text);
}

void report_finding(FindingKind kind, Address pc, const Thread* t, Address other_pc,
                    const Thread* other, const char* format, ...) {
    char text[sizeof Finding::text];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    Who second = running(other);
    add_finding(kind, pc, running(t), other_pc, other ? &second : nullptr, text);
}

}  // namespace warpgrade
