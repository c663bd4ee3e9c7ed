#include "block_order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "observe.h"

namespace warpgrade {
namespace {

uint32_t order_seed;
bool order_backwards;
bool sampled;
constexpr uint64_t most_sampled = 5;
std::vector<uint32_t> order;  // the numbers of the launch's blocks; empty: as they are

constexpr uint64_t nobody = ~uint64_t{0};
uint64_t first_with_atomics = nobody;  // block of this launch
bool launch_is_noted;
SharedAtomics noted;

uint64_t block_count() {
    const Index3& grid = current_launch->grid;
    return uint64_t{grid.x} * grid.y * grid.z;
}

void draw_order(uint32_t count) {
    order.resize(count);
    std::iota(order.begin(), order.end(), 0u);
    std::mt19937 random(order_seed);
    for (uint32_t left = count; left > 1; --left) std::swap(order[left - 1], order[random() % left]);
    if (order_backwards) std::reverse(order.begin(), order.end());
}

}  // namespace

void set_block_order(uint32_t seed, bool backwards) {
    order_seed = seed;
    order_backwards = backwards;
}

bool blocks_are_reordered() { return order_seed != 0; }

void sample_blocks(bool some) { sampled = some; }

uint64_t begin_blocks() {
    first_with_atomics = nobody;
    launch_is_noted = false;
    order.clear();
    if (order_seed) draw_order(static_cast<uint32_t>(block_count()));
    return sampled ? std::min(block_count(), most_sampled) : block_count();
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
    if (launch_is_noted || first_with_atomics == current_block.linear || !is_device(p)) return;
    if (first_with_atomics == nobody) {
        first_with_atomics = current_block.linear;
        return;
    }
    launch_is_noted = true;
    if (!noted.pc) noted.pc = pc;
    noted.blocks = std::max(noted.blocks, block_count());
}

void forget_atomics() { noted = {}; }

SharedAtomics shared_atomics() { return noted; }

void give_up_waiting() {
    unsupported_at("blocks that wait for others, in another order than that of their numbers",
                   image().base);
}

}  // namespace warpgrade
