// The interface between nvcc's host code and a planner, in types that are independent of both the
// emulator's and NVIDIA's headers, since this folder has files with either (internal to it).
//
// Such host code names a kernel by the address of a function that launches it, and a device
// variable by a variable of its own, the shadow. It first registers both, with their names in the
// cubin. A shadow's address stands for the variable's.
#pragma once
#include <cstddef>

#include "../core.h"
#include "cubin_kernels.h"

namespace warpgrade::nvcc {

// A launch by host code.
struct Shape {
    Index3 grid, block;
    std::size_t dynamic_shared;
    void* stream;
    bool cooperative = false;
    Index3 cluster{0, 0, 0};
    bool early_start = false;  // programmatic stream serialization
};

// Launches the kernel of this address, with pointers to its arguments in `arguments`. Returns
// CUDA's error.
int launch(const void* function, const Shape& shape, void** arguments, Address pc);

// By the address that host code names it by; null: no kernel, or none of the cubin's.
const warpgrade_kernel* kernel_at(const void* function);

// As in errors.h, in CUDA's numbers.
int fail_with(int error);
int dynamic_shared_limit_of(const void* function);

}  // namespace warpgrade::nvcc

extern "C" int warpgrade_memory_type(const void* p);  // a cudaMemoryType
