// Memory for nvcc's host code: the functions behind the overloads in NVIDIA's headers.
#include "../memory_api.h"

#include "../../include/warpgrade/device_api.h"
#include "../errors.h"
#include "../symbols.h"

namespace warpgrade {
namespace {

const Variable* variable_at(const void* shadow) {
    for (const Variable& each : device_variables()) {
        if (each.low == reinterpret_cast<Address>(shadow)) return &each;
    }
    return nullptr;
}

cudaError_t copy_symbol(const void* symbol, const void* other, size_t bytes, size_t offset,
                        cudaMemcpyKind kind, bool to_symbol, Address pc,
                        const cudaStream_t* stream = nullptr) {
    const Variable* variable = variable_at(symbol);
    if (!variable) return fail(cudaErrorInvalidSymbol);
    return api::copy_symbol({const_cast<void*>(symbol), variable->bytes, const_cast<void*>(other),
                             bytes, offset, kind, to_symbol, stream},
                            pc);
}

}  // namespace
}  // namespace warpgrade

using namespace warpgrade;

extern "C" {

cudaError_t cudaMalloc(void** p, size_t bytes) {
    return api::malloc_device(p, bytes, WARPGRADE_CALLER);
}
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t stream) {
    return api::malloc_async(p, bytes, stream, WARPGRADE_CALLER);
}
cudaError_t cudaMallocManaged(void** p, size_t bytes, unsigned) {
    return api::malloc_managed(p, bytes, WARPGRADE_CALLER);
}
cudaError_t cudaMallocPitch(void** p, size_t* pitch, size_t width, size_t height) {
    return api::malloc_pitch(p, pitch, width, height, WARPGRADE_CALLER);
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return warpgrade_malloc_host(p, bytes); }
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned flags) {
    if (flags & cudaHostAllocMapped) return api::malloc_managed(p, bytes, WARPGRADE_CALLER);
    return warpgrade_malloc_host(p, bytes);
}
cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
    return warpgrade_host_register(p, bytes);
}

// Hints: they change no result. Their further parameters differ between versions of CUDA, and are
// ignored.
cudaError_t cudaMemAdvise(const void*, size_t) { return fail(cudaSuccess); }
cudaError_t cudaMemPrefetchAsync(const void*, size_t) { return fail(cudaSuccess); }

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                               cudaMemcpyKind kind) {
    return copy_symbol(symbol, from, bytes, offset, kind, true, WARPGRADE_CALLER);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                 cudaMemcpyKind kind) {
    return copy_symbol(symbol, to, bytes, offset, kind, false, WARPGRADE_CALLER);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return copy_symbol(symbol, from, bytes, offset, kind, true, WARPGRADE_CALLER, &stream);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
    if (!is_stream(stream)) return fail(cudaErrorInvalidResourceHandle);
    return copy_symbol(symbol, to, bytes, offset, kind, false, WARPGRADE_CALLER);
}
cudaError_t cudaGetSymbolAddress(void** p, const void* symbol) {
    if (!p) return fail(cudaErrorInvalidValue);
    if (!variable_at(symbol)) return fail(cudaErrorInvalidSymbol);
    *p = const_cast<void*>(symbol);
    return cudaSuccess;
}
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    const Variable* variable = variable_at(symbol);
    if (!bytes) return fail(cudaErrorInvalidValue);
    if (!variable) return fail(cudaErrorInvalidSymbol);
    *bytes = variable->bytes;
    return cudaSuccess;
}

}  // extern "C"
