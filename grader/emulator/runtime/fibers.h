// A fiber is a stack and the point at which its code resumes. Independent of CUDA.
#pragma once
#include "core.h"

namespace warpgrade {

// Suspends the running fiber, saving its point in *save, and resumes `to`. Only callee-saved
// registers are saved, so a switch costs a few nanoseconds. The floating-point control words are
// shared by all fibers: kernels don't change them.
extern "C" void warpgrade_switch(void** save, void* to);

// The point at which `main` starts on the stack that ends at `top`. `main` must not return.
void* prepare_fiber(Address top, void (*main)());

// Memory for `count` stacks of `bytes` each, every one with an inaccessible guard at its low end.
// Ends the process if there is none.
Address map_stacks(size_t count, size_t bytes);

}  // namespace warpgrade
