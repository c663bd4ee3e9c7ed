// Limits of the device (internal to the execution half).
#pragma once
#include <cstddef>

namespace warpgrade {

// Limits of the device that is emulated, an H100 (compute capability 9.0).
namespace device {
constexpr unsigned multiprocessors = 132;
constexpr unsigned most_threads_per_block = 1024, most_block_z = 64, most_grid_yz = 65535;
constexpr unsigned most_grid_x = 0x7fffffff;
constexpr size_t most_parameter_bytes = 32764;
constexpr unsigned most_threads_per_multiprocessor = 2048, most_blocks_per_multiprocessor = 32;
constexpr size_t shared_per_block = 48 * 1024;         // without cudaFuncSetAttribute
constexpr size_t shared_per_block_optin = 227 * 1024;  // with it
constexpr size_t shared_per_multiprocessor = 228 * 1024, shared_reserved_per_block = 1024;
// Units of allocation: bytes of shared memory; registers of a warp; warps.
constexpr size_t shared_unit = 128, register_unit = 256, warp_unit = 4;
constexpr size_t registers_per_multiprocessor = 65536;
constexpr size_t memory_bytes = size_t{1} << 30;  // the emulator's, not an H100's
}  // namespace device

}  // namespace warpgrade
