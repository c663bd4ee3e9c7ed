// The properties of the device that host code plans for (internal to the execution half).
#pragma once
#include <cstring>

#include "core.h"
#include "device_limits.h"

namespace warpgrade {

// Of zeros; `Properties` is a cudaDeviceProp, the emulator's or NVIDIA's.
template <class Properties>
void fill_properties(Properties& p) {
    std::strcpy(p.name, device::name);
    p.totalGlobalMem = device::memory_bytes;
    p.sharedMemPerBlock = device::shared_per_block;
    p.sharedMemPerBlockOptin = device::shared_per_block_optin;
    p.sharedMemPerMultiprocessor = device::shared_per_multiprocessor;
    p.reservedSharedMemPerBlock = device::shared_reserved_per_block;
    p.regsPerBlock = p.regsPerMultiprocessor = device::registers_per_multiprocessor;
    p.warpSize = warp_lanes;
    p.memPitch = 0x7fffffff;
    p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = 0x7fffffff;
    p.maxGridSize[1] = p.maxGridSize[2] = 65535;
    p.memoryBusWidth = static_cast<int>(device::bus_bits);
    p.totalConstMem = 64 * 1024;
    p.major = static_cast<int>(device::capability / 10);
    p.minor = static_cast<int>(device::capability % 10);
    p.textureAlignment = 512;
    p.texturePitchAlignment = 32;
    p.multiProcessorCount = static_cast<int>(device::multiprocessors);
    p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
    p.managedMemory = p.cooperativeLaunch = 1;
    p.asyncEngineCount = 3;
    p.l2CacheSize = static_cast<int>(device::l2_bytes);
    p.maxThreadsPerMultiProcessor = device::most_threads_per_multiprocessor;
    p.maxBlocksPerMultiProcessor = device::most_blocks_per_multiprocessor;
}

}  // namespace warpgrade
