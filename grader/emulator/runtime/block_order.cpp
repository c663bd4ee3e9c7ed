#include "block_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "observe.h"
#include "scheduler.h"
#include "shared_memory.h"

namespace warpgrade {
namespace {

uint32_t order_seed;
bool order_backwards;
bool sampled;
constexpr uint64_t most_sampled = 5;
// The numbers of the launch's blocks, and of a block's warps; empty: as they are.
std::vector<uint32_t> order, order_of_warps;

constexpr uint64_t nobody = ~uint64_t{0};
uint64_t first_with_atomics = nobody;  // warp of this launch
bool launch_is_noted;
SharedAtomics noted;

uint64_t block_count() {
    const Index3& grid = current_launch->grid;
    return uint64_t{grid.x} * grid.y * grid.z;
}

std::vector<uint32_t> drawn_order(uint32_t count) {
    std::vector<uint32_t> drawn(count);
    std::iota(drawn.begin(), drawn.end(), 0u);
    std::mt19937 random(order_seed);
    for (uint32_t left = count; left > 1; --left) std::swap(drawn[left - 1], drawn[random() % left]);
    if (order_backwards) std::reverse(drawn.begin(), drawn.end());
    return drawn;
}

}  // namespace

void set_block_order(uint32_t seed, bool backwards) {
    order_seed = seed;
    order_backwards = backwards;
}

bool blocks_are_reordered() { return order_seed != 0; }

void sample_blocks(bool some) { sampled = some; }
bool blocks_are_sampled() { return sampled; }

uint64_t begin_blocks() {
    first_with_atomics = nobody;
    launch_is_noted = false;
    order.clear();
    order_of_warps.clear();
    if (order_seed) {
        order = drawn_order(static_cast<uint32_t>(block_count()));
        order_of_warps = drawn_order(warps_of_block());
    }
    return sampled ? std::min(block_count(), most_sampled) : block_count();
}

uint32_t warp_in_turn(uint32_t place) {
    return order_of_warps.empty() ? place : order_of_warps[place];
}

// A sample begins with the last block, whose indices are the largest.
BlockState block_in_turn(uint64_t place) {
    const Index3& grid = current_launch->grid;
    uint64_t number = order.empty() ? place : order[place];
    if (sampled) {
        const uint64_t last = block_count() - 1, most = std::min(last, most_sampled - 1);
        number = last - (most ? place * last / most : 0);
    }
    const auto index = [](uint64_t n) { return static_cast<unsigned>(n); };
    return {index(number),
            {index(number % grid.x), index(number / grid.x % grid.y),
             index(number / grid.x / grid.y)},
            0};
}

void note_atomic(const void* p, Address pc) {
    if (launch_is_noted) return;
    const uint64_t warp = uint64_t{current_block.linear} * warp_lanes + current_thread->warp;
    if (first_with_atomics == warp) return;
    const bool is_shared = reinterpret_cast<Address>(p) - shared_low < shared_bytes;
    if (!is_shared && !is_device(p)) return;
    if (first_with_atomics == nobody) {
        first_with_atomics = warp;
        return;
    }
    launch_is_noted = true;
    if (!noted.pc) noted.pc = pc;
    noted.blocks = std::max(noted.blocks, block_count());
}

void note_clock(Address pc) {
    if (!noted.clock && current_thread) noted.clock = pc;
}

void forget_atomics() { noted = {}; }

SharedAtomics shared_atomics() { return noted; }

void give_up_waiting() {
    unsupported_at(blocks_are_reordered()
                       ? "blocks that wait for others, in another order than that of their numbers"
                       : "blocks that wait for each other, other than by grid.sync()",
                   image().base);
}

}  // namespace warpgrade
