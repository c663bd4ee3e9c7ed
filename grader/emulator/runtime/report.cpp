// The report as JSON. The trusted side reads it with grader/emulator/report.py, which bounds every
// field. Parts that don't fit are left out, with "cut" set.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "block_order.h"
#include "counters.h"
#include "errors.h"
#include "findings.h"
#include "observe.h"

namespace warpgrade {
namespace {

// Text that never grows beyond its buffer. A part that doesn't fit whole is removed.
class Text {
public:
    Text(char* out, std::size_t capacity) : out_(out), capacity_(capacity) {}

    template <class... Values>
    void add(const char* format, Values... values) {
        int room = full_ ? 0 : static_cast<int>(capacity_ - length_);
        int needed = std::snprintf(room ? out_ + length_ : nullptr, static_cast<std::size_t>(room),
                                   format, values...);
        if (needed < 0 || needed >= room) {
            full_ = true;
        } else {
            length_ += static_cast<std::size_t>(needed);
        }
    }

    void add_string(const char* value) {
        add("\"");
        for (const char* p = value; *p; ++p) {
            auto c = static_cast<unsigned char>(*p);
            bool plain = c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
            if (plain) {
                add("%c", c);
            } else {
                add("\\u%04x", c);
            }
        }
        add("\"");
    }

    std::size_t length() const { return length_; }
    bool full() const { return full_; }
    void back_to(std::size_t length) {
        length_ = length;
        full_ = false;
    }

private:
    char* out_;
    std::size_t capacity_, length_ = 0;
    bool full_ = false;
};

using Number = unsigned long long;

void add_index(Text& text, const char* name, bool known, const Index3& index) {
    if (known) {
        text.add("\"%s\":[%u,%u,%u],", name, index.x, index.y, index.z);
    } else {
        text.add("\"%s\":null,", name);
    }
}

void add_finding(Text& text, const Finding& finding) {
    text.add("{\"kind\":\"%s\",\"pc\":%llu,\"other_pc\":%llu,\"count\":%llu,",
             name_of(finding.kind), Number{finding.pc}, Number{finding.other_pc},
             Number{finding.count});
    bool other = finding.has_other && finding.other.on_device;
    add_index(text, "block", finding.who.on_device, finding.who.block);
    add_index(text, "thread", finding.who.on_device, finding.who.thread);
    add_index(text, "other_block", other, finding.other.block);
    add_index(text, "other_thread", other, finding.other.thread);
    text.add("\"text\":");
    text.add_string(finding.text);
    text.add("}");
}

const char* space_name(std::uint8_t space) { return space == access::global ? "global" : "shared"; }

const char* kind_name(std::uint8_t kind) {
    return kind == access::load ? "load" : kind == access::store ? "store" : "atomic";
}

void add_site(Text& text, const SiteCounters& site) {
    text.add("{\"pc\":%u,\"space\":\"%s\",\"kind\":\"%s\",\"bytes\":%u,\"requests\":%llu,"
             "\"lanes\":%llu,\"sectors\":%llu,\"useful_bytes\":%llu,\"wavefronts\":%llu,"
             "\"conflicts\":%llu,\"ways\":%llu}",
             site.pc, space_name(site.space), kind_name(site.kind), unsigned{site.bytes},
             Number{site.requests}, Number{site.lanes}, Number{site.sectors},
             Number{site.useful_bytes}, Number{site.wavefronts}, Number{site.conflicts},
             Number{site.ways});
}

void add_launch_head(Text& text, const LaunchCounters& launch) {
    double efficiency = launch.blocks_entered
                            ? static_cast<double>(launch.lanes_entered) /
                                  (static_cast<double>(warp_lanes) *
                                   static_cast<double>(launch.blocks_entered))
                            : 0.0;
    text.add("{\"kernel\":");
    text.add_string(launch.kernel);
    text.add(",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"dynamic_shared\":%llu,"
             "\"static_shared\":%llu,\"count\":%llu,\"simt_efficiency\":%.6f,\"largest_bytes\":%llu,"
             "\"storing_blocks\":%llu,\"sites\":[",
             launch.grid.x, launch.grid.y, launch.grid.z, launch.block.x, launch.block.y,
             launch.block.z, Number{launch.dynamic_shared}, Number{launch.static_shared},
             Number{launch.count}, efficiency, Number{launch.largest_bytes},
             Number{launch.storing_blocks});
}

// The elements of `list`, separated by commas; false where not all of them fit.
template <class List, class Add>
bool add_list(Text& text, const List& list, Add add) {
    bool first = true;
    for (const auto& each : list) {
        std::size_t length = text.length();
        if (!first) text.add(",");
        add(each);
        if (text.full()) {
            text.back_to(length);
            return false;
        }
        first = false;
    }
    return true;
}

bool in_order(const SiteCounters& a, const SiteCounters& b) {
    return a.pc != b.pc ? a.pc < b.pc : a.kind < b.kind;
}

bool add_launches(Text& text) {
    bool whole = true;
    bool all = add_list(text, launch_counters(), [&](const LaunchCounters& launch) {
        std::vector<SiteCounters> sites = launch.sites;
        std::stable_sort(sites.begin(), sites.end(), in_order);
        add_launch_head(text, launch);
        if (text.full()) return;
        bool fit = add_list(text, sites, [&](const SiteCounters& site) { add_site(text, site); });
        whole = whole && fit;
        text.add("]}");
    });
    return all && whole;
}

void add_buffers(Text& text) {
    int argument = 0;
    add_list(text, buffer_counters(), [&](const BufferCounters& buffer) {
        text.add("{\"argument\":%d,\"load_bytes\":%llu,\"load_sectors\":%llu,\"store_bytes\":%llu,"
                 "\"store_sectors\":%llu}",
                 argument++, Number{buffer.load_bytes}, Number{buffer.load_sectors},
                 Number{buffer.store_bytes}, Number{buffer.store_sectors});
    });
}

}  // namespace

std::size_t write_report(char* out, std::size_t capacity, bool with_counters) {
    constexpr std::size_t tail_room = 64;  // for the report's end
    if (capacity < 2 * tail_room) return 0;
    Text text(out, capacity - tail_room);
    bool lost = sticky_error() != 0 || entry_was_abandoned();
    text.add("{\"error\":%d,\"lost\":%s,", sticky_error(), lost ? "true" : "false");
    if (const SharedAtomics atomics = shared_atomics(); atomics.pc) {
        text.add("\"atomic_pc\":%llu,\"atomic_blocks\":%llu,",
                 Number{atomics.pc - image().base}, Number{atomics.blocks});
    } else if (atomics.clock) {
        text.add("\"clock_pc\":%llu,", Number{atomics.clock - image().base});
    }
    if (const char* printed = kept_output(); *printed) {
        text.add("\"printed\":");
        text.add_string(printed);
        text.add(",");
    }
    text.add("\"findings\":[");
    bool whole = true;
    for (std::size_t i = 0; i < finding_count() && whole; ++i) {
        std::size_t length = text.length();
        if (i) text.add(",");
        add_finding(text, finding(i));
        whole = !text.full();
        if (!whole) text.back_to(length);
    }
    text.add("]");
    if (with_counters) {
        text.add(",\"buffers\":[");
        add_buffers(text);
        text.add("],\"launches\":[");
        whole = add_launches(text) && !counters_are_incomplete() && whole;
    }
    Text tail(out + text.length(), capacity - text.length());
    tail.add(with_counters ? "],\"cut\":%s}" : ",\"cut\":%s}", whole ? "false" : "true");
    return text.length() + tail.length();
}

}  // namespace warpgrade
