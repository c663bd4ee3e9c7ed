// A fiber is a stack and the place on it where its code goes on. Nothing here knows of CUDA.
#pragma once
#include "core.h"

namespace warpgrade {

// Leaves the running fiber, storing where it goes on in *save, and goes on at `to`. Only registers
// that a function must keep are stored, so a switch costs a few nanoseconds. The floating-point
// control words are shared by all fibers: nothing in a kernel changes them.
extern "C" void warpgrade_switch(void** save, void* to);

// Where to switch to for `main` to start on the stack that ends at `top`. `main` must not return.
void* prepare_fiber(Address top, void (*main)());

// Memory for `count` stacks of `bytes` each, every one with an inaccessible guard at its low end.
// Ends the process if there is none.
Address map_stacks(size_t count, size_t bytes);

}  // namespace warpgrade
