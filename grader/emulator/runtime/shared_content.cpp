// Shared memory of blocks that take turns: all of them use the same addresses.
#include <cstring>

#include "ordering.h"
#include "races.h"
#include "shared_memory.h"
#include "symbols.h"

namespace warpgrade {
namespace {

// Calls step(low, bytes) for all of a block's shared memory in the running launch.
template <class Step>
void each_range(Step step) {
    for (const Variable& each : shared_variables()) step(each.low, each.bytes);
    for (const Variable& each : shared_guards()) step(each.low, each.bytes);
    Address dynamic = reinterpret_cast<Address>(warpgrade_dynamic_shared);
    if (current_launch->dynamic_shared) step(dynamic, current_launch->dynamic_shared);
}

// The cells that contain some of the bytes. Two ranges may share one.
template <class Step>
void each_cell(Address low, std::size_t bytes, Step step) {
    std::size_t first = (low - shared_low) / 4, last = (low + bytes - 1 - shared_low) / 4;
    for (std::size_t i = first; i <= last; ++i) step(shared_cells[i]);
}

std::uint8_t stored_bytes(const RaceCell& cell) {
    std::uint8_t bits = 0;
    for (unsigned byte = 0; byte < 4; ++byte) bits |= stored_in_block(cell, byte, 1) << byte;
    return bits;
}

void take_bytes_as_stored(RaceCell& cell, std::uint8_t bits) {
    constexpr std::uint8_t all = 15;
    if (bits == all) return take_as_stored(cell, 0, 4);
    if (bits) split_cell(cell);
    for (unsigned byte = 0; byte < 4; ++byte) {
        if (bits >> byte & 1) take_as_stored(cell, byte, 1);
    }
}

}  // namespace

SharedContent keep_shared() {
    SharedContent content;
    each_range([&](Address low, std::size_t bytes) {
        auto* from = reinterpret_cast<const char*>(low);
        content.bytes.insert(content.bytes.end(), from, from + bytes);
        each_cell(low, bytes, [&](RaceCell& cell) { content.stored.push_back(stored_bytes(cell)); });
    });
    return content;
}

void bring_shared_back(const SharedContent& content) {
    const char* from = content.bytes.data();
    const std::uint8_t* stored = content.stored.data();
    each_range([&](Address low, std::size_t bytes) {
        std::memcpy(reinterpret_cast<char*>(low), from, bytes);
        from += bytes;
        each_cell(low, bytes, [&](RaceCell& cell) { take_bytes_as_stored(cell, *stored++); });
    });
}

}  // namespace warpgrade
