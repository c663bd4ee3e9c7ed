// Limits of the device (internal to the execution half).
#pragma once
#include <cstddef>

namespace warpgrade {

namespace device {

// What host code may ask about the device: an H100's, unless the host was started with --gpu
// (worker/native/host.cpp, grader/gpu/seen.py).
inline char name[256] = "NVIDIA H100 80GB HBM3";
inline unsigned capability = 90;
inline unsigned multiprocessors = 132;
inline size_t l2_bytes = size_t{50} << 20;
inline unsigned clock_khz = 1980000, memory_clock_khz = 2619000, bus_bits = 5120;
inline unsigned most_threads_per_multiprocessor = 2048, most_blocks_per_multiprocessor = 32;
inline size_t shared_per_multiprocessor = 228 * 1024, shared_reserved_per_block = 1024;
inline size_t shared_per_block_optin = 227 * 1024;  // with cudaFuncSetAttribute

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
