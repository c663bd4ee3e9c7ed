// The CUDA calls for streams, events, devices and limits. Nothing runs while a plan is made, so a
// stream is always done, and no time passes between two events.
#include <algorithm>
#include <cstring>
#include <vector>

#include "../include/warpgrade/device_api.h"
#include "device_properties.h"
#include "device_work.h"
#include "errors.h"
#include "observe.h"

// The target of a handle. A destroyed one is reused as late as possible, so that a use of its
// handle is detected.
struct CUstream_st {
    bool alive, waits_for_default;
    int priority;  // it changes no result
};
struct CUevent_st {
    bool alive, recorded, timed;
};

namespace warpgrade {

namespace {

constexpr size_t most_handles = 4096;
CUstream_st streams[most_handles];
CUevent_st events[most_handles];
size_t stream_count, event_count;
cudaStream_t per_thread;  // once it is used

bool is_event(cudaEvent_t event) {
    return event >= events && event < events + event_count && event->alive;
}

// Calls that are invalid in device code, or after the context was lost.
#define WARPGRADE_HOST_CALL()                         \
    do {                                              \
        refuse_in_device_code(WARPGRADE_CALLER);      \
        if (sticky_error()) return fail(cudaSuccess); \
    } while (false)

// A free place in the table, or null.
template <class T>
T* new_handle(T (&table)[most_handles], size_t& count) {
    if (count < most_handles) return &table[count++];
    for (T& each : table) {
        if (!each.alive) return &each;
    }
    return nullptr;
}

cudaError_t new_stream(cudaStream_t* stream, unsigned flags) {
    if (!stream) return fail(cudaErrorInvalidValue);
    *stream = new_handle(streams, stream_count);
    if (!*stream) return fail(cudaErrorMemoryAllocation);
    **stream = {true, !(flags & cudaStreamNonBlocking), 0};
    return cudaSuccess;
}

unsigned number_of(cudaEvent_t event) { return static_cast<unsigned>(event - events); }

cudaError_t new_event(cudaEvent_t* event, unsigned flags) {
    if (!event) return fail(cudaErrorInvalidValue);
    *event = new_handle(events, event_count);
    if (!*event) return fail(cudaErrorMemoryAllocation);
    **event = {true, false, !(flags & cudaEventDisableTiming)};
    return cudaSuccess;
}

struct Attribute {
    cudaDeviceAttr attribute;
    int value;
};
constexpr Attribute attributes[] = {  // the same of every device
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 0x7fffffff},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024},
    {cudaDevAttrTotalConstantMemory, 64 * 1024},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrCooperativeLaunch, 1},
};

// An attribute that devices differ in, -1 for another one.
int attribute_of_device(cudaDeviceAttr attribute) {
    switch (attribute) {
        case cudaDevAttrClockRate: return static_cast<int>(device::clock_khz);
        case cudaDevAttrMultiProcessorCount: return static_cast<int>(device::multiprocessors);
        case cudaDevAttrMemoryClockRate: return static_cast<int>(device::memory_clock_khz);
        case cudaDevAttrGlobalMemoryBusWidth: return static_cast<int>(device::bus_bits);
        case cudaDevAttrL2CacheSize: return static_cast<int>(device::l2_bytes);
        case cudaDevAttrMaxThreadsPerMultiProcessor:
            return static_cast<int>(device::most_threads_per_multiprocessor);
        case cudaDevAttrComputeCapabilityMajor: return static_cast<int>(device::capability / 10);
        case cudaDevAttrComputeCapabilityMinor: return static_cast<int>(device::capability % 10);
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            return static_cast<int>(device::shared_per_multiprocessor);
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            return static_cast<int>(device::shared_per_block_optin);
        case cudaDevAttrMaxBlocksPerMultiprocessor:
            return static_cast<int>(device::most_blocks_per_multiprocessor);
        case cudaDevAttrReservedSharedMemoryPerBlock:
            return static_cast<int>(device::shared_reserved_per_block);
        default: return -1;
    }
}

cudaDeviceProp device_properties() {
    cudaDeviceProp p{};
    fill_properties(p);
    p.clockRate = static_cast<int>(device::clock_khz);
    p.memoryClockRate = static_cast<int>(device::memory_clock_khz);
    return p;
}

size_t limits[] = {1024, 1024 * 1024, 8 * 1024 * 1024};  // stack, printf, heap

// Of the device's one memory pool, by cudaMemPoolAttr. They decide when memory is kept or reused,
// and change no result. The first three are of 4 bytes, the fourth of 8.
uint64_t pool_attributes[] = {0, 1, 1, 1, 0};

size_t bytes_of(cudaMemPoolAttr attribute) {
    if (attribute < 1 || attribute > cudaMemPoolAttrReleaseThreshold) return 0;
    return attribute == cudaMemPoolAttrReleaseThreshold ? sizeof(uint64_t) : sizeof(int);
}
bool is_pool(cudaMemPool_t pool) { return static_cast<void*>(pool) == pool_attributes; }

}  // namespace

bool is_stream(cudaStream_t stream) {
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return true;
    return stream >= streams && stream < streams + stream_count && stream->alive;
}

constexpr int highest_priority = -5;  // the lowest is 0

// 0 for the legacy default stream. The one of a thread is a stream like others.
unsigned number_of(cudaStream_t stream) {
    if (stream == cudaStreamPerThread) {
        if (!per_thread) new_stream(&per_thread, cudaStreamDefault);
        stream = per_thread;
    }
    return stream < streams ? 0 : static_cast<unsigned>(stream - streams) + 1;
}

bool waits_for_default(unsigned stream) {
    return stream && streams[stream - 1].waits_for_default;
}

void forget_streams_and_events() {
    stream_count = event_count = 0;
    per_thread = nullptr;
}

}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    WARPGRADE_HOST_CALL();
    return new_stream(stream, flags);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    const cudaError_t error = cudaStreamCreateWithFlags(stream, flags);
    if (error == cudaSuccess) (*stream)->priority = std::clamp(priority, highest_priority, 0);
    return error;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    const unsigned number = number_of(stream);
    *priority = number ? streams[number - 1].priority : 0;
    return fail(cudaSuccess);
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    const unsigned number = number_of(stream);
    *flags = number && !waits_for_default(number) ? cudaStreamNonBlocking : cudaStreamDefault;
    return fail(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = highest_priority;
    return fail(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    WARPGRADE_HOST_CALL();
    if (stream < streams || !is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    stream->alive = false;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    WARPGRADE_HOST_CALL();
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    work::awaited_stream(number_of(stream), WARPGRADE_CALLER);
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    WARPGRADE_HOST_CALL();
    if (!is_stream(stream) || !is_event(event)) return fail(cudaErrorInvalidResourceHandle);
    if (event->recorded) work::waited(number_of(event), number_of(stream), WARPGRADE_CALLER);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    WARPGRADE_HOST_CALL();
    return new_event(event, flags);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    WARPGRADE_HOST_CALL();
    if (!is_event(event)) return fail(cudaErrorInvalidResourceHandle);
    event->alive = false;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    WARPGRADE_HOST_CALL();
    if (!is_event(event) || !is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    event->recorded = true;
    work::recorded(number_of(event), number_of(stream), WARPGRADE_CALLER);
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    WARPGRADE_HOST_CALL();
    if (!is_event(event)) return fail(cudaErrorInvalidResourceHandle);
    if (event->recorded) work::awaited_event(number_of(event), WARPGRADE_CALLER);
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    WARPGRADE_HOST_CALL();
    if (!milliseconds) return fail(cudaErrorInvalidValue);
    for (cudaEvent_t event : {start, end}) {
        if (!is_event(event) || !event->recorded || !event->timed) {
            return fail(cudaErrorInvalidResourceHandle);
        }
    }
    *milliseconds = 0;
    work::asked_for_time();
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
    WARPGRADE_HOST_CALL();
    work::synchronised(WARPGRADE_CALLER);
    return cudaSuccess;
}
cudaError_t cudaThreadSynchronize() { return cudaDeviceSynchronize(); }
cudaError_t cudaDeviceReset() { unsupported_at("cudaDeviceReset", WARPGRADE_CALLER); }

cudaError_t cudaGetDeviceCount(int* count) {
    if (!count) return fail(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    if (!device) return fail(cudaErrorInvalidValue);
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    return fail(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
// Weak: cudaDeviceProp differs in NVIDIA's headers (nvcc/structures.cpp).
__attribute__((weak)) cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (!properties) return fail(cudaErrorInvalidValue);
    if (device != 0) return fail(cudaErrorInvalidDevice);
    *properties = device_properties();
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (!value) return fail(cudaErrorInvalidValue);
    if (device != 0) return fail(cudaErrorInvalidDevice);
    *value = attribute_of_device(attribute);
    if (*value >= 0) return cudaSuccess;
    for (const Attribute& known : attributes) {
        if (known.attribute == attribute) {
            *value = known.value;
            return cudaSuccess;
        }
    }
    unsupported_at("cudaDeviceGetAttribute of this attribute", WARPGRADE_CALLER);
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return fail(cudaSuccess); }
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
    if (limit > cudaLimitMallocHeapSize) return fail(cudaErrorInvalidValue);
    limits[limit] = value;
    return fail(cudaSuccess);
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
    if (!value || limit > cudaLimitMallocHeapSize) return fail(cudaErrorInvalidValue);
    *value = limits[limit];
    return fail(cudaSuccess);
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    if (!pool) return fail(cudaErrorInvalidValue);
    if (device != 0) return fail(cudaErrorInvalidDevice);
    *pool = reinterpret_cast<cudaMemPool_t>(pool_attributes);
    return fail(cudaSuccess);
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
    return cudaDeviceGetDefaultMemPool(pool, device);
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    if (!is_pool(pool) || !value || !bytes_of(attribute)) return fail(cudaErrorInvalidValue);
    std::memcpy(&pool_attributes[attribute], value, bytes_of(attribute));
    return fail(cudaSuccess);
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    if (!is_pool(pool) || !value || !bytes_of(attribute)) return fail(cudaErrorInvalidValue);
    std::memcpy(value, &pool_attributes[attribute], bytes_of(attribute));
    return fail(cudaSuccess);
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t) {
    return fail(is_pool(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    if (!version) return fail(cudaErrorInvalidValue);
    *version = 13000;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
    WARPGRADE_HOST_CALL();
    if (!free_bytes || !total_bytes) return fail(cudaErrorInvalidValue);
    *total_bytes = device::memory_bytes;
    *free_bytes = device::memory_bytes / 2;
    return cudaSuccess;
}

}  // extern "C"
