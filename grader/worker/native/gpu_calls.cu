#include "gpu_calls.h"

#include <cuda_runtime.h>

#include <algorithm>

namespace warpgrade::host {
namespace {

bool counting = false;
CallRecord record;

bool on_device(const void* pointer) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) return false;
    return attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
}

// The direction a copy with cudaMemcpyDefault takes, which the driver finds by the pointers.
cudaMemcpyKind direction(const void* to, const void* from, cudaMemcpyKind kind) {
    if (kind != cudaMemcpyDefault) return kind;
    if (on_device(to)) return on_device(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    return on_device(from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

cudaError_t count_copy(cudaError_t error, cudaMemcpyKind kind, std::size_t bytes) {
    if (counting && error == cudaErrorInvalidValue) record.copy_refused = true;
    if (!counting || error != cudaSuccess || kind == cudaMemcpyHostToHost) return error;
    Copies& copies = record.copies;
    ++copies.count;
    copies.bytes += bytes;
    copies.host_to_device += kind == cudaMemcpyHostToDevice;
    copies.device_to_host += kind == cudaMemcpyDeviceToHost;
    copies.device_to_device += kind == cudaMemcpyDeviceToDevice;
    return error;
}

cudaError_t note_allocation(cudaError_t error, void** memory, std::size_t bytes) {
    if (counting && error == cudaSuccess) record.unfreed.push_back({*memory, bytes});
    return error;
}

cudaError_t note_free(cudaError_t error, void* memory) {
    auto& unfreed = record.unfreed;
    const auto same = [memory](const Allocation& each) { return each.memory == memory; };
    if (counting && error == cudaSuccess) {
        unfreed.erase(std::remove_if(unfreed.begin(), unfreed.end(), same), unfreed.end());
    }
    return error;
}

}  // namespace

void begin_calls() {
    record = {};
    counting = true;
}

CallRecord end_calls() {
    counting = false;
    return std::move(record);
}

}  // namespace warpgrade::host

using namespace warpgrade::host;
using Stream = cudaStream_t;
using MemoryKind = cudaMemcpyKind;
using Size = std::size_t;

extern "C" {

cudaError_t __real_cudaMalloc(void**, Size);
cudaError_t __wrap_cudaMalloc(void** memory, Size bytes) {
    return note_allocation(__real_cudaMalloc(memory, bytes), memory, bytes);
}

cudaError_t __real_cudaMallocAsync(void**, Size, Stream);
cudaError_t __wrap_cudaMallocAsync(void** memory, Size bytes, Stream stream) {
    return note_allocation(__real_cudaMallocAsync(memory, bytes, stream), memory, bytes);
}

cudaError_t __real_cudaMallocManaged(void**, Size, unsigned);
cudaError_t __wrap_cudaMallocManaged(void** memory, Size bytes, unsigned flags) {
    return note_allocation(__real_cudaMallocManaged(memory, bytes, flags), memory, bytes);
}

cudaError_t __real_cudaMallocPitch(void**, Size*, Size, Size);
cudaError_t __wrap_cudaMallocPitch(void** memory, Size* pitch, Size width, Size height) {
    const cudaError_t error = __real_cudaMallocPitch(memory, pitch, width, height);
    return note_allocation(error, memory, error == cudaSuccess ? *pitch * height : 0);
}

cudaError_t __real_cudaFree(void*);
cudaError_t __wrap_cudaFree(void* memory) { return note_free(__real_cudaFree(memory), memory); }

cudaError_t __real_cudaFreeAsync(void*, Stream);
cudaError_t __wrap_cudaFreeAsync(void* memory, Stream stream) {
    return note_free(__real_cudaFreeAsync(memory, stream), memory);
}

cudaError_t __real_cudaMemcpy(void*, const void*, Size, MemoryKind);
cudaError_t __wrap_cudaMemcpy(void* to, const void* from, Size bytes, MemoryKind kind) {
    const cudaError_t error = __real_cudaMemcpy(to, from, bytes, kind);
    return count_copy(error, counting ? direction(to, from, kind) : kind, bytes);
}

cudaError_t __real_cudaMemcpyAsync(void*, const void*, Size, MemoryKind, Stream);
cudaError_t __wrap_cudaMemcpyAsync(void* to, const void* from, Size bytes, MemoryKind kind,
                                   Stream stream) {
    const cudaError_t error = __real_cudaMemcpyAsync(to, from, bytes, kind, stream);
    return count_copy(error, direction(to, from, kind), bytes);
}

cudaError_t __real_cudaMemcpy2D(void*, Size, const void*, Size, Size, Size, MemoryKind);
cudaError_t __wrap_cudaMemcpy2D(void* to, Size to_pitch, const void* from, Size from_pitch,
                                Size width, Size height, MemoryKind kind) {
    const cudaError_t error =
        __real_cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
    return count_copy(error, direction(to, from, kind), width * height);
}

cudaError_t __real_cudaMemcpy2DAsync(void*, Size, const void*, Size, Size, Size, MemoryKind,
                                     Stream);
cudaError_t __wrap_cudaMemcpy2DAsync(void* to, Size to_pitch, const void* from, Size from_pitch,
                                     Size width, Size height, MemoryKind kind, Stream stream) {
    const cudaError_t error =
        __real_cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, stream);
    return count_copy(error, direction(to, from, kind), width * height);
}

// A symbol is device memory, whose address here means nothing to the driver's look-up.
MemoryKind to_symbol(const void* from, MemoryKind kind) {
    if (kind != cudaMemcpyDefault) return kind;
    return on_device(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
}

MemoryKind from_symbol(const void* to, MemoryKind kind) {
    if (kind != cudaMemcpyDefault) return kind;
    return on_device(to) ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
}

cudaError_t __real_cudaMemcpyToSymbol(const void*, const void*, Size, Size, MemoryKind);
cudaError_t __wrap_cudaMemcpyToSymbol(const void* symbol, const void* from, Size bytes,
                                      Size offset, MemoryKind kind) {
    const cudaError_t error = __real_cudaMemcpyToSymbol(symbol, from, bytes, offset, kind);
    return count_copy(error, to_symbol(from, kind), bytes);
}

cudaError_t __real_cudaMemcpyToSymbolAsync(const void*, const void*, Size, Size, MemoryKind,
                                           Stream);
cudaError_t __wrap_cudaMemcpyToSymbolAsync(const void* symbol, const void* from, Size bytes,
                                           Size offset, MemoryKind kind, Stream stream) {
    const cudaError_t error =
        __real_cudaMemcpyToSymbolAsync(symbol, from, bytes, offset, kind, stream);
    return count_copy(error, to_symbol(from, kind), bytes);
}

cudaError_t __real_cudaMemcpyFromSymbol(void*, const void*, Size, Size, MemoryKind);
cudaError_t __wrap_cudaMemcpyFromSymbol(void* to, const void* symbol, Size bytes, Size offset,
                                        MemoryKind kind) {
    const cudaError_t error = __real_cudaMemcpyFromSymbol(to, symbol, bytes, offset, kind);
    return count_copy(error, from_symbol(to, kind), bytes);
}

cudaError_t __real_cudaMemcpyFromSymbolAsync(void*, const void*, Size, Size, MemoryKind, Stream);
cudaError_t __wrap_cudaMemcpyFromSymbolAsync(void* to, const void* symbol, Size bytes, Size offset,
                                             MemoryKind kind, Stream stream) {
    const cudaError_t error =
        __real_cudaMemcpyFromSymbolAsync(to, symbol, bytes, offset, kind, stream);
    return count_copy(error, from_symbol(to, kind), bytes);
}

}  // extern "C"
