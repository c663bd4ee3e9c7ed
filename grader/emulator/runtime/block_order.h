// The order in which a grid's blocks run, and whether atomics may tell it to them (internal to the
// execution half).
//
// A GPU runs blocks in any order. By the order of their numbers a kernel may come by a right result
// that hangs on it: what the block before left by an atomic, or the last exchange that wins.
#pragma once
#include "core.h"

namespace warpgrade {

// From the next launch on blocks run in an order drawn by `seed`, or in its reverse; 0: by number.
void set_block_order(uint32_t seed, bool backwards);
bool blocks_are_reordered();

// The blocks of current_launch are about to run.
void begin_blocks();
// The block whose turn comes after `place` others.
BlockState block_in_turn(uint32_t place);

// A running thread makes an atomic access.
void note_atomic(const void* p, Address pc);
void forget_atomics();
// Where several blocks of a launch made atomics in global memory: one of them, and how many blocks
// the largest such launch had. 0: nowhere.
struct SharedAtomics {
    Address pc;
    uint64_t blocks;
};
SharedAtomics shared_atomics();

// Blocks run in another order and one spins round after round, for what only another block can bring
// about: ends the entry, since blocks run to their end here.
[[noreturn]] void give_up_waiting();

}  // namespace warpgrade
