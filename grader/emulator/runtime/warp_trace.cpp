// Lanes of a warp ran one after another, each leaving a trace; the hardware runs them together.
// Merging the traces finds accesses that are one request. Of the lanes' next events, the one in the
// deepest call comes first. There an access comes before the entry of a basic block: lanes that
// entered a block together are together to its end, also where one of them has nothing to do in it
// and jumps back. Then comes the event at the lowest address, together with every lane at the same
// place. Code is laid out with the point where branches meet behind them, so diverged lanes
// reconverge there, as in hardware.
#include "access.h"
#include "counters.h"
#include "observe.h"
#include "races.h"
#include "records.h"

namespace warpgrade {
namespace {

struct Cursor {
    const TraceEntry *next, *end;
    std::uint64_t key;  // the lowest comes first
    std::uint8_t lane;

    void find_key() {
        const std::uint64_t enters = next->kind == access::block;
        key = std::uint64_t{0xFFFFu - next->depth} << 33 | enters << 32 | next->pc;
    }
};

int open_cursors(std::uint32_t warp, Cursor (&cursors)[warp_lanes]) {
    int count = 0;
    std::size_t first = std::size_t{warp} * warp_lanes;
    for (std::size_t i = first; i < first + warp_lanes && i < threads.size(); ++i) {
        const std::vector<TraceEntry>& trace = threads[i].trace;
        if (trace.empty()) continue;
        Cursor& cursor = cursors[count++];
        auto lane = static_cast<std::uint8_t>(i - first);
        cursor = {trace.data(), trace.data() + trace.size(), 0, lane};
        cursor.find_key();
    }
    return count;
}

std::uint64_t lowest_key(const Cursor* cursors, int count) {
    std::uint64_t lowest = cursors[0].key;
    for (int i = 1; i < count; ++i) {
        if (cursors[i].key < lowest) lowest = cursors[i].key;
    }
    return lowest;
}

// Lanes at one place may still differ: one pointer may be to shared memory, another to global.
bool joins(const WarpAccess& access, const TraceEntry& entry) {
    return access.kind == entry.kind && access.space == entry.space && access.bytes == entry.size;
}

void start(WarpAccess& access, std::uint32_t warp, const TraceEntry& entry) {
    access.warp = warp;
    access.pc = entry.pc;
    access.kind = entry.kind;
    access.space = entry.space;
    access.bytes = entry.size;
    access.lanes = 0;
}

void finish(const WarpAccess& access) {
    if (access.kind == access::block) return count_block_entry(access.lanes);
    if (access.space != access::no_space) return count_request(access);
    if (recording) record_warp_synchronisation(access);
}

// Takes the events at the place `key` of all lanes that are there.
void step(std::uint32_t warp, Cursor* cursors, int count, std::uint64_t key) {
    WarpAccess access;
    access.lanes = 0;
    for (int i = 0; i < count; ++i) {
        Cursor& cursor = cursors[i];
        if (cursor.key != key) continue;
        const TraceEntry& entry = *cursor.next++;
        if (access.lanes == 0 || !joins(access, entry)) {
            if (access.lanes) finish(access);
            start(access, warp, entry);
        }
        access.offset[access.lanes] = entry.offset;
        access.lane[access.lanes++] = cursor.lane;
        if (cursor.next == cursor.end) {
            cursor.key = ~std::uint64_t{0};
        } else {
            cursor.find_key();
        }
    }
    finish(access);
}

}  // namespace

void observe_warp_trace(std::uint32_t warp) {
    if (race_pending) settle_race();
    if (!counting) return;
    Cursor cursors[warp_lanes];
    int count = open_cursors(warp, cursors);
    for (std::uint64_t key; count && (key = lowest_key(cursors, count)) != ~std::uint64_t{0};) {
        step(warp, cursors, count, key);
    }
    std::size_t first = std::size_t{warp} * warp_lanes;
    for (std::size_t i = first; i < first + warp_lanes && i < threads.size(); ++i) {
        for (const TraceEntry& entry : threads[i].trace) {
            if (entry.space == access::global) threads[i].global_bytes += entry.size;
        }
        trace_room += threads[i].trace.size();
        threads[i].trace.clear();
    }
}

}  // namespace warpgrade
