// Runs the blocks of a launch (internal to the execution half).
#pragma once
#include "core.h"

namespace warpgrade {

// Runs the grid's blocks in the order of block_order.h, each to its end or to the grid's barrier;
// when all have reached it, each is resumed. `enter` sets blockIdx. False: the launch was
// abandoned.
bool run_grid(const Launch& launch, void (*thunk)(void*), void* context, void (*enter)(Index3));

}  // namespace warpgrade
