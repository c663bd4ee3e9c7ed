// Facts about kernels that nvcc has compiled, from their cubin (internal to the execution half).
// There are none for kernels from the emulator's compiler.
#pragma once
#include <algorithm>
#include <cstddef>

#include "core.h"
#include "device_limits.h"

namespace warpgrade {

struct KernelFacts {
    unsigned registers;     // of a thread
    unsigned most_threads;  // of a block, by __launch_bounds__; 0: it has none
    std::size_t static_shared, local_bytes;
};

// By the address that host code names the kernel by; null: unknown.
const KernelFacts* facts_of(const void* function);

inline std::size_t warps_by_registers(const KernelFacts& facts) {
    const std::size_t wanted = std::max(1u, facts.registers) * warp_lanes;
    const std::size_t unit = device::register_unit;
    const std::size_t warps = device::registers_per_multiprocessor / ((wanted + unit - 1) / unit * unit);
    return warps / device::warp_unit * device::warp_unit;
}

// The most threads that a block of the kernel may have.
inline std::size_t most_threads(const KernelFacts& facts) {
    const std::size_t room = std::min<std::size_t>(warps_by_registers(facts) * warp_lanes,
                                                   device::most_threads_per_block);
    return facts.most_threads ? std::min<std::size_t>(facts.most_threads, room) : room;
}

}  // namespace warpgrade
