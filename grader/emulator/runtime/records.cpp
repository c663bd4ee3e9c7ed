#include "records.h"

#include <cstdio>
#include <vector>

#include "device_memory.h"
#include "observe.h"
#include "shared_memory.h"
#include "symbols.h"

namespace warpgrade {

bool recording;

namespace {

constexpr std::size_t most_events = 20'000;
constexpr std::size_t most_bytes = std::size_t{3} << 20;
constexpr int warp_synchronisation = 3, barrier = 4;  // kinds beside access::load to atomic

std::string launches;  // without the last one's end
std::size_t events, events_of_launch;
bool cut;

template <class... Values>
std::string printed(const char* format, Values... values) {
    char text[200];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

// Letters that end a JSON string or begin something in it are left out.
std::string plain(const char* text) {
    std::string kept;
    for (; *text; ++text) {
        if (*text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\') kept += *text;
    }
    return kept;
}

// Whether there is room for one more event; it is counted then.
bool may_record() {
    cut = cut || events == most_events || launches.size() > most_bytes;
    if (cut) return false;
    ++events;
    if (events_of_launch++) launches += ',';
    return true;
}

void add_head(int kind, int space, std::uint32_t warp, std::uint32_t pc, unsigned bytes) {
    launches += printed("[%d,%d,%u,%u,%u,%u", kind, space, current_block.linear, warp, pc, bytes);
}

// The lanes' offsets in fives: the first, how many, the step between them, and how often that
// repeats (once) at which distance. -1: lanes that take no part.
void add_offsets(const WarpAccess& access) {
    unsigned lane = 0;
    const char* comma = "";
    for (int i = 0; i < access.lanes;) {
        if (const unsigned idle = access.lane[i] - lane) {
            launches += printed("%s-1,%u,0,1,0", comma, idle);
            comma = ",";
        }
        int end = i + 1;
        long long step = 0;
        for (; end < access.lanes && access.lane[end] == access.lane[end - 1] + 1; ++end) {
            long long next = (long long){access.offset[end]} - access.offset[end - 1];
            if (end == i + 1) step = next;
            if (next != step) break;
        }
        launches += printed("%s%u,%d,%lld,1,0", comma, access.offset[i], end - i, step);
        comma = ",";
        lane = access.lane[end - 1] + 1u;
        i = end;
    }
}

void add_place(std::string& text, const char* space, int argument, std::uint32_t offset,
               std::size_t bytes, const char* name) {
    if (text.back() != '[') text += ',';
    text += printed("{\"space\":\"%s\",\"argument\":%d,\"start\":%u,\"bytes\":%zu,\"name\":\"",
                    space, argument, offset, bytes);
    text += plain(name) + "\"}";
}

std::string written_places() {
    std::string text = "[";
    for (const std::vector<Place>* list : {&arguments, &allocations, &device_variable_places()}) {
        for (const Place& each : *list) {
            add_place(text, "global", each.argument, each.offset, each.bytes, each.name);
        }
    }
    for (const Variable& each : shared_variables()) {
        char name[120];
        add_place(text, "shared", -1, static_cast<std::uint32_t>(each.low - shared_low),
                  each.bytes, plain_name(name, each.symbol));
    }
    return text + "]";
}

}  // namespace

void forget_records() {
    launches.clear();
    events = events_of_launch = 0;
    cut = recording = false;
}

void records_launch_begin() {
    if (!recording) return;
    const Launch& launch = *current_launch;
    if (!launches.empty()) launches += "]},";
    launches += "{\"kernel\":\"" + plain(launch.kernel) + '"';
    launches += printed(",\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"events\":[", launch.grid.x,
                        launch.grid.y, launch.grid.z, launch.block.x, launch.block.y,
                        launch.block.z);
    events_of_launch = 0;
}

void record_request(const WarpAccess& access, const SiteCounters& before,
                    const SiteCounters& after) {
    if (!may_record()) return;
    bool is_global = access.space == access::global;
    std::uint64_t moved = is_global ? after.sectors - before.sectors
                                    : after.wavefronts - before.wavefronts;
    std::uint64_t of_them = is_global ? after.useful_bytes - before.useful_bytes
                                      : after.conflicts - before.conflicts;
    add_head(access.kind, access.space, access.warp, access.pc, access.bytes);
    launches += printed(",1,%llu,%llu,[", static_cast<unsigned long long>(moved),
                        static_cast<unsigned long long>(of_them));
    add_offsets(access);
    launches += "]]";
}

void record_warp_synchronisation(const WarpAccess& access) {
    if (!may_record()) return;
    add_head(warp_synchronisation, 0, access.warp, access.pc, 0);
    launches += ",1,0,0,[]]";
}

void record_barrier() {
    std::uint32_t last = ~0u;
    for (const Thread& thread : threads) {
        if (thread.state != ThreadState::at_barrier || thread.warp == last) continue;
        if (!may_record()) return;
        last = thread.warp;
        add_head(barrier, 0, thread.warp,
                 static_cast<std::uint32_t>(thread.waiting_at - image().base), 0);
        launches += ",1,0,0,[]]";
    }
}

std::string written_records() {
    std::string text = "{\"cut\":" + std::string(cut ? "true" : "false");
    text += ",\"places\":" + written_places() + ",\"launches\":[";
    return text + launches + (launches.empty() ? "]}" : "]}]}");
}

}  // namespace warpgrade
