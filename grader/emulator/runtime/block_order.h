// The order in which a grid's blocks and a block's warps run, and whether atomics may depend on it
// (internal to the execution half).
//
// A GPU runs blocks in any order, and the warps of a block too. In order of their numbers, a kernel
// may be right by chance, for example if it uses an atomic's result of the block before, or if the
// last exchange wins.
#pragma once
#include "core.h"

namespace warpgrade {

// From the next launch on, blocks and warps run in an order drawn by `seed`, or in its reverse; 0: by
// number.
void set_block_order(uint32_t seed, bool backwards);
bool blocks_are_reordered();
// From the next launch on, only some blocks run: the last one, the first one, and some in between.
void sample_blocks(bool sampled);
bool blocks_are_sampled();

// The blocks of current_launch will run next; returns how many.
uint64_t begin_blocks();
// The block that runs after `place` others.
BlockState block_in_turn(uint64_t place);
// The warp that runs after `place` others of its block.
uint32_t warp_in_turn(uint32_t place);

// A running thread makes an atomic access.
void note_atomic(const void* p, Address pc);
// A running thread reads the clock.
void note_clock(Address pc);
void forget_atomics();
// That pass at each reading of the clock if blocks run in another order: more than a GPU's.
constexpr uint64_t time_in_other_orders = 1'000'000;  // nanoseconds
// An atomic or volatile access of a launch of which several warps made some, and the number of blocks
// of the largest such launch; 0 for none. `clock`: the first reading of the clock.
struct SharedAtomics {
    Address pc, clock;
    uint64_t blocks;
};
SharedAtomics shared_atomics();

// A block spins for something that only another block can do. Ends the entry, since blocks run to
// their end here.
[[noreturn]] void give_up_waiting();

}  // namespace warpgrade
