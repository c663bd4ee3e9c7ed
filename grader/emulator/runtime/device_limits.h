// Limits of the device (internal to the execution half).
#pragma once
#include <cstddef>

namespace warpgrade {

namespace device {

// What host code may ask about the device: set by the native host (worker/native/host.cpp).
extern char name[256];
extern unsigned capability, multiprocessors, clock_khz, memory_clock_khz, bus_bits;
extern unsigned most_threads_per_multiprocessor, most_blocks_per_multiprocessor;
extern size_t l2_bytes, shared_per_multiprocessor, shared_reserved_per_block;
extern size_t shared_per_block_optin;  // with cudaFuncSetAttribute

// The same of every device.
constexpr unsigned most_threads_per_block = 1024, most_block_z = 64, most_grid_yz = 65535;
constexpr unsigned most_grid_x = 0x7fffffff;
constexpr size_t most_parameter_bytes = 32764;
constexpr size_t shared_per_block = 48 * 1024;  // without cudaFuncSetAttribute
// Units of allocation: bytes of shared memory; registers of a warp; warps.
constexpr size_t shared_unit = 128, register_unit = 256, warp_unit = 4;
constexpr size_t registers_per_multiprocessor = 65536;
constexpr size_t memory_bytes = size_t{1} << 30;  // the emulator's, not a GPU's
}  // namespace device

}  // namespace warpgrade
