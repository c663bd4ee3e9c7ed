// The calls that allocate memory, with an explicit caller (internal to the execution half).
#pragma once
#include <cstddef>

#include "../include/warpgrade/api_types.h"
#include "core.h"

namespace warpgrade::api {

cudaError_t malloc_device(void** p, std::size_t bytes, Address pc);
cudaError_t malloc_async(void** p, std::size_t bytes, cudaStream_t stream, Address pc);
cudaError_t malloc_managed(void** p, std::size_t bytes, Address pc);
cudaError_t malloc_pitch(void** p, std::size_t* pitch, std::size_t width, std::size_t height,
                         Address pc);

// Page-locked host memory, which kernels may access by the host's own address.
struct Pinned {
    Address low = 0;
    std::size_t bytes = 0;
};
// That which contains an address; none: no bytes.
Pinned pinned_around(Address a);
void forget_pinned();

// Between a __device__ or __constant__ variable and other memory.
struct SymbolCopy {
    void* symbol;
    std::size_t symbol_bytes;
    void* other;
    std::size_t bytes, offset;
    cudaMemcpyKind kind;
    bool to_symbol;
    const cudaStream_t* stream = nullptr;  // of an asynchronous one
};
cudaError_t copy_symbol(const SymbolCopy& copy, Address pc);

}  // namespace warpgrade::api
