// What nvcc's host code asks of a planner, in types that are neither the emulator's headers' nor
// NVIDIA's: both kinds of files of this folder talk of them (internal to it).
//
// Such host code names a kernel by the address of a function that launches it, and a variable of the
// device by a variable of its own, the shadow. Before anything else it registers both, with the
// names that they have in the cubin. A shadow's address stands for the variable's.
#pragma once
#include <cstddef>

#include "../core.h"
#include "cubin_kernels.h"

namespace warpgrade::nvcc {

// A launch as host code asks for it.
struct Shape {
    Index3 grid, block;
    std::size_t dynamic_shared;
    void* stream;
    bool cooperative = false;
    Index3 cluster{0, 0, 0};
    bool early_start = false;  // programmatic stream serialization
};

// Launches the kernel of this address on arguments that lie where `arguments` says. Returns CUDA's
// error.
int launch(const void* function, const Shape& shape, void** arguments, Address pc);

// By the address that host code names it by; null: it is no kernel, or none of the cubin's.
const warpgrade_kernel* kernel_at(const void* function);

// As errors.h has it, in CUDA's numbers.
int fail_with(int error);
int dynamic_shared_limit_of(const void* function);

}  // namespace warpgrade::nvcc
