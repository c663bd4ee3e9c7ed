// The calls with structures. This file alone is compiled with NVIDIA's headers, the same as the
// submission's host code, since their layouts are NVIDIA's.
#include <cuda_runtime_api.h>

#include "../device_memory.h"
#include "../device_properties.h"
#include "../kernel_facts.h"
#include "../observe.h"
#include "registry.h"

namespace warpgrade {
namespace {

#define WARPGRADE_CALLER reinterpret_cast<Address>(__builtin_return_address(0))

cudaError_t fail(int error) { return static_cast<cudaError_t>(nvcc::fail_with(error)); }

Index3 index(const dim3& each) { return {each.x, each.y, each.z}; }

// The effect of an attribute on a launch; hints have none.
void add_attribute(nvcc::Shape& shape, const cudaLaunchAttribute& attribute, Address pc) {
    const cudaLaunchAttributeValue& value = attribute.val;
    switch (attribute.id) {
        case cudaLaunchAttributeCooperative: shape.cooperative = value.cooperative != 0; break;
        case cudaLaunchAttributeClusterDimension:
            shape.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
            break;
        case cudaLaunchAttributeProgrammaticStreamSerialization:
            shape.early_start = value.programmaticStreamSerializationAllowed != 0;
            break;
        case cudaLaunchAttributeProgrammaticEvent:
        case cudaLaunchAttributeLaunchCompletionEvent:
            unsupported_at("events that a kernel triggers", pc);
        default: break;
    }
}

}  // namespace
}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

// Under whichever name the headers give it (cudaGetDeviceProperties_v2 of CUDA 12).
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (!properties) return fail(cudaErrorInvalidValue);
    if (device != 0) return fail(cudaErrorInvalidDevice);
    *properties = {};
    fill_properties(*properties);
    properties->canMapHostMemory = 1;
    properties->streamPrioritiesSupported = 1;
    properties->globalL1CacheSupported = properties->localL1CacheSupported = 1;
    properties->concurrentManagedAccess = properties->computePreemptionSupported = 1;
    properties->hostRegisterSupported = properties->memoryPoolsSupported = 1;
    properties->clusterLaunch = device::capability >= 90;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
    const KernelFacts* facts = facts_of(function);
    const warpgrade_kernel* kernel = nvcc::kernel_at(function);
    if (!attributes) return fail(cudaErrorInvalidValue);
    if (!facts || !kernel) return fail(cudaErrorInvalidDeviceFunction);
    *attributes = {};
    attributes->sharedSizeBytes = facts->static_shared;
    attributes->constSizeBytes = kernel->constant_bytes;
    attributes->localSizeBytes = facts->local_bytes;
    attributes->maxThreadsPerBlock = static_cast<int>(most_threads(*facts));
    attributes->numRegs = static_cast<int>(facts->registers);
    attributes->ptxVersion = attributes->binaryVersion =
        static_cast<int>(device::capability);
    attributes->maxDynamicSharedSizeBytes = nvcc::dynamic_shared_limit_of(function);
    attributes->preferredShmemCarveout = -1;
    return cudaSuccess;
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
    const Address pc = WARPGRADE_CALLER;
    if (!config || (config->numAttrs && !config->attrs)) return fail(cudaErrorInvalidValue);
    nvcc::Shape shape{index(config->gridDim), index(config->blockDim), config->dynamicSmemBytes,
                      config->stream};
    for (unsigned i = 0; i < config->numAttrs; ++i) add_attribute(shape, config->attrs[i], pc);
    return static_cast<cudaError_t>(nvcc::launch(function, shape, arguments, pc));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
    if (!attributes) return fail(cudaErrorInvalidValue);
    const int type = warpgrade_memory_type(p);
    const bool device = type == cudaMemoryTypeDevice || type == cudaMemoryTypeManaged;
    *attributes = {};
    attributes->type = static_cast<cudaMemoryType>(type);
    attributes->device = device ? 0 : -2;
    if (device) attributes->devicePointer = const_cast<void*>(p);
    if (type != cudaMemoryTypeDevice) attributes->hostPointer = const_cast<void*>(p);
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned) { return fail(cudaSuccess); }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
    return cudaEventRecord(event, stream);
}

}  // extern "C"
