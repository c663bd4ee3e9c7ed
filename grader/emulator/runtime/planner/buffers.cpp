#include "buffers.h"

#include "../device_memory.h"
#include "../symbols.h"

namespace warpgrade::plan {
namespace {

bool holds(const Buffer& buffer, Address a) { return a - buffer.low <= buffer.bytes; }

// The distance of an address from a buffer: 0 inside of it, 1 for the byte behind its end.
std::size_t distance(const Buffer& buffer, Address a) {
    if (a < buffer.low) return buffer.low - a;
    return a - buffer.low < buffer.bytes ? 0 : a - buffer.low - buffer.bytes + 1;
}

}  // namespace

std::size_t Buffers::add(Buffer buffer) {
    all_.push_back(std::move(buffer));
    return all_.size() - 1;
}

std::size_t Buffers::of_variable(Address a) {
    for (const Variable& each : device_variables()) {
        if (a - each.low >= each.bytes) continue;
        for (std::size_t i = 0; i < all_.size(); ++i) {
            if (all_[i].kind == Kind::symbol && all_[i].low == each.low) return i;
        }
        return add({Kind::symbol, -1, each.low, each.bytes, each.symbol, 0, false, 0, 0});
    }
    return none;
}

std::size_t Buffers::at(Address a) {
    std::size_t best = none;
    for (std::size_t i = 0; i < all_.size(); ++i) {
        const Buffer& each = all_[i];
        const bool near = in_arena(each.low) ? in_arena(a) : holds(each, a);
        if (!near) continue;
        const std::size_t far = distance(each, a);
        const std::size_t least = best == none ? none : distance(all_[best], a);
        // Memory may have been reused: then the later one counts.
        if (best == none || far < least || (far == least && !each.freed)) best = i;
    }
    if (best != none && distance(all_[best], a) == 0) return best;
    // A variable may begin where another one ends.
    const std::size_t variable = in_image(a) ? of_variable(a) : none;
    return variable == none ? best : variable;
}

}  // namespace warpgrade::plan
