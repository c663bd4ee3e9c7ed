// The functions that CUDA code in the emulator calls; the runtime (../../runtime/) defines them.
//
// A function without a position argument identifies its caller by its return address. So a wrapper
// around it must be always_inline: then the address is in the student's own function.
#pragma once
#include <cstddef>
#include <cstdint>

#define WARPGRADE_INLINE inline __attribute__((always_inline))

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// All four are uint3, though CUDA's last two are dim3: the compiler doesn't instrument reads of a
// constant of trivial type, but would those of a class with constructors.
extern __thread const uint3 threadIdx, blockIdx, blockDim, gridDim;

#include "api_types.h"

extern "C" {

// ---- Launches -----------------------------------------------------------------------------------

// Calls a kernel for one thread. `parameters` are its parameters' bytes as CUDA lays them out, in
// memory that is aligned to 16 bytes.
typedef void (*warpgrade_thunk)(const void* function, const char* parameters);

// Launches a kernel: `thunk(function, parameters)` for each thread of the grid. `function` is the
// kernel's address (as for cudaFuncSetAttribute), or null where only the thunk knows it. `kernel`
// is its name in the source. A launch that CUDA refuses sets the error and runs nothing.
// `cooperative`: all of the grid's blocks have to fit on the device at once.
void warpgrade_launch(const void* function, warpgrade_thunk thunk, const char* kernel, dim3 grid,
                      dim3 block, size_t dynamic_shared, cudaStream_t stream,
                      const char* parameters, size_t parameter_bytes, bool cooperative = false);

// Ends the entry because of an unsupported feature, which is no verdict on the student.
[[noreturn]] void warpgrade_unsupported(const char* name);

// The block's dynamic shared memory (what `extern __shared__` names).
extern __thread char warpgrade_dynamic_shared[];
// The empty assembly hides the array from g++, which would take an access to it for one aligned as a
// char: it is aligned as the type that the kernel declares it with.
__attribute__((always_inline)) inline char* warpgrade_dynamic_memory() {
    char* start = warpgrade_dynamic_shared;
    __asm__("" : "+r"(start));
    return start;
}

// ---- Barriers, warps, atomics -------------------------------------------------------------------

// A barrier is identified by its place in the source, since the compiler may have copied the call:
// by a number of its own (warp_functions.h), or a group's by its line.
void __syncthreads(int place = __builtin_LINE());
int __syncthreads_count(int predicate, int place = __builtin_LINE());
int __syncthreads_and(int predicate, int place = __builtin_LINE());
int __syncthreads_or(int predicate, int place = __builtin_LINE());
// Waits for all threads of a cooperative launch; tells whether the launch is one.
void warpgrade_grid_sync(int line);
bool warpgrade_grid_is_valid();
void __syncwarp(unsigned mask = 0xffffffffu);

enum warpgrade_operation {
    warpgrade_shuffle,       // value of lane `argument`
    warpgrade_shuffle_up,    // of the lane `argument` below
    warpgrade_shuffle_down,  // of the lane `argument` above
    warpgrade_shuffle_xor,
    warpgrade_ballot,      // bit per lane: its value isn't 0
    warpgrade_match_any,   // the lanes whose value equals this lane's
    warpgrade_match_all,   // the mask, where all values are equal; else 0
    warpgrade_activemask,  // mask ignored
    warpgrade_reduce_add,
    warpgrade_reduce_min,  // of 32-bit integers; signed where `argument` isn't 0
    warpgrade_reduce_max,
    warpgrade_reduce_and,
    warpgrade_reduce_or,
    warpgrade_reduce_xor,
    warpgrade_syncwarp,
};
// `width` (1, 2, 4, ... 32) splits the warp for shuffles.
unsigned long long warpgrade_warp_operation(int operation, unsigned mask, unsigned long long value,
                                            int argument, int width);

// Called before an atomic acts on `bytes` bytes at `p`.
void warpgrade_atomic(void* p, int bytes);
// The same for one of block scope (atomicAdd_block), which other blocks don't take part in.
void warpgrade_block_atomic(void* p, int bytes);
// The same for exchanges, which read only if their result is used.
void warpgrade_exchange(void* p, int bytes);
void warpgrade_block_exchange(void* p, int bytes);
// Called, and true, after an exchange at `p` whose result is used: the compiler drops the call of a
// function without effects otherwise. `is_zero`, of the result, keeps the call behind the exchange.
__attribute__((const, nothrow)) bool warpgrade_exchanged(const void* p, bool is_zero);

// Called before an atomic of C++'s kind: what it does, its order (__ATOMIC_RELAXED and so on), and
// its scope, numbered as cuda::thread_scope.
enum warpgrade_part { warpgrade_loads = 1, warpgrade_stores = 2 };
enum warpgrade_scope {
    warpgrade_scope_system,
    warpgrade_scope_device,
    warpgrade_scope_block,
    warpgrade_scope_thread,
};
void warpgrade_ordered_atomic(void* p, int bytes, int parts, int order, int scope);
// The same for one that stores only if `expected` is at `p`; `failure`: its order if it isn't.
void warpgrade_compare_and_swap(void* p, int bytes, unsigned long long expected, int order,
                                int failure, int scope);

// ---- Asynchronous copies ------------------------------------------------------------------------

// Starts a copy of 4, 8 or 16 bytes from global to shared memory, the last `zeros` of which are 0.
void warpgrade_copy_async(void* to, const void* from, size_t bytes, size_t zeros);
bool warpgrade_is_copied_async(const void* to, const void* from);
// Makes the thread's copies since the last call a group.
void warpgrade_commit_copies();
// Waits for all of the thread's groups but the `newest` ones.
void warpgrade_wait_for_copies(size_t newest);

// ---- Barriers in two steps ----------------------------------------------------------------------

// A cuda::barrier of 8 bytes, for threads of a block. Arriving gives the number of the phase, modulo
// 4096, that a thread waits for; one that `leaves` isn't expected in later phases.
void warpgrade_barrier_init(void* barrier, unsigned expected);
unsigned warpgrade_barrier_arrive(void* barrier, unsigned count, bool leaves);
void warpgrade_barrier_wait(void* barrier, unsigned phase);
// The phase also waits for the thread's asynchronous copies, whose bytes come at its end.
void warpgrade_barrier_takes_copies(void* barrier);
// PTX's barrier of a number, for `count` of the block's threads; `waits`: bar.sync, not bar.arrive.
void warpgrade_named_barrier(unsigned number, unsigned count, bool waits);
// The block's own barrier.
unsigned warpgrade_block_arrive();
void warpgrade_block_wait(unsigned phase);

// ---- Device input and output --------------------------------------------------------------------

// printf. In device code it returns the number of arguments behind the format, as CUDA's does.
int warpgrade_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
// A failed assert of device code; in host code it ends the process like any assert.
[[noreturn]] void warpgrade_assert_failed(const char* condition, const char* file, int line,
                                          const char* function);
#define __builtin_assume(condition)                             \
    (static_cast<bool>(condition)                               \
         ? static_cast<void>(0)                                 \
         : warpgrade_assert_failed("__builtin_assume(" #condition ")", __FILE__, __LINE__, __func__))
[[noreturn]] void __trap();
long long clock64();
void __nanosleep(unsigned nanoseconds);

// ---- The CUDA runtime API -----------------------------------------------------------------------

cudaError_t cudaFree(void* p);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream);
cudaError_t warpgrade_malloc(void** p, size_t bytes);
cudaError_t warpgrade_malloc_async(void** p, size_t bytes, cudaStream_t stream);
cudaError_t warpgrade_malloc_managed(void** p, size_t bytes);
cudaError_t warpgrade_malloc_host(void** p, size_t bytes);
cudaError_t warpgrade_malloc_pitch(void** p, size_t* pitch, size_t width, size_t height);

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* p, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemset2D(void* p, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemset2DAsync(void* p, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream = nullptr);
cudaError_t warpgrade_copy_symbol(void* symbol, size_t symbol_bytes, void* other, size_t bytes,
                                  size_t offset, cudaMemcpyKind kind, int to_symbol,
                                  const cudaStream_t* stream = nullptr);
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes);

cudaError_t cudaStreamCreate(cudaStream_t* stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end);

cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaThreadSynchronize();
cudaError_t cudaDeviceReset();

cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache config);
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t warpgrade_function_attribute(const void* function, cudaFuncAttribute attribute,
                                         int value);
cudaError_t warpgrade_function_attributes(cudaFuncAttributes* attributes, const void* function);
cudaError_t warpgrade_host_register(void* p, size_t bytes);
cudaError_t cudaHostGetDevicePointer(void** on_device, void* p, unsigned flags);
int warpgrade_memory_type(const void* p);  // a cudaMemoryType
cudaError_t cudaHostUnregister(void* p);
cudaError_t warpgrade_occupancy(int* blocks, const void* function, int block_size,
                                size_t dynamic_shared);

}  // extern "C"

// ---- What CUDA overloads or templates in C++ ----------------------------------------------------

template <class T>
WARPGRADE_INLINE cudaError_t cudaMalloc(T** p, size_t bytes) {
    return warpgrade_malloc(reinterpret_cast<void**>(p), bytes);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMallocManaged(T** p, size_t bytes,
                                               unsigned = cudaMemAttachGlobal) {
    return warpgrade_malloc_managed(reinterpret_cast<void**>(p), bytes);
}
// Hints: they change no result and no counter.
template <class... Arguments>
WARPGRADE_INLINE cudaError_t cudaMemPrefetchAsync(Arguments&&...) {
    return cudaSuccess;
}
template <class... Arguments>
WARPGRADE_INLINE cudaError_t cudaMemAdvise(Arguments&&...) {
    return cudaSuccess;
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMallocAsync(T** p, size_t bytes, cudaStream_t stream) {
    return warpgrade_malloc_async(reinterpret_cast<void**>(p), bytes, stream);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMallocHost(T** p, size_t bytes, unsigned = 0) {
    return warpgrade_malloc_host(reinterpret_cast<void**>(p), bytes);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaHostAlloc(T** p, size_t bytes, unsigned flags) {
    // Both sides access mapped memory, and the program sees to the order: as managed memory.
    if (flags & cudaHostAllocMapped) return cudaMallocManaged(p, bytes);
    return warpgrade_malloc_host(reinterpret_cast<void**>(p), bytes);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaHostGetDevicePointer(T** on_device, void* p, unsigned flags) {
    return cudaHostGetDevicePointer(reinterpret_cast<void**>(on_device), p, flags);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMallocPitch(T** p, size_t* pitch, size_t width, size_t height) {
    return warpgrade_malloc_pitch(reinterpret_cast<void**>(p), pitch, width, height);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, size_t bytes,
                                                size_t offset = 0,
                                                cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
    return warpgrade_copy_symbol((void*)&symbol, sizeof(T), (void*)from, bytes, offset, kind, 1);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, size_t bytes,
                                                  size_t offset = 0,
                                                  cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
    return warpgrade_copy_symbol((void*)&symbol, sizeof(T), to, bytes, offset, kind, 0);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from,
                                                     size_t bytes, size_t offset,
                                                     cudaMemcpyKind kind,
                                                     cudaStream_t stream = nullptr) {
    return warpgrade_copy_symbol((void*)&symbol, sizeof(T), (void*)from, bytes, offset, kind, 1,
                                 &stream);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, size_t bytes,
                                                       size_t offset, cudaMemcpyKind kind,
                                                       cudaStream_t = nullptr) {
    return warpgrade_copy_symbol((void*)&symbol, sizeof(T), to, bytes, offset, kind, 0);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
    *address = (void*)&symbol;
    return cudaSuccess;
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaGetSymbolSize(size_t* bytes, const T&) {
    *bytes = sizeof(T);
    return cudaSuccess;
}
template <class F>
WARPGRADE_INLINE cudaError_t cudaFuncSetAttribute(F* function, cudaFuncAttribute attribute,
                                                  int value) {
    return warpgrade_function_attribute((const void*)function, attribute, value);
}
template <class F>
WARPGRADE_INLINE cudaError_t cudaFuncSetCacheConfig(F*, cudaFuncCache) {
    return cudaSuccess;  // a hint: it changes no result and no counter
}
template <class F>
WARPGRADE_INLINE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F* function,
                                                                           int block_size,
                                                                           size_t dynamic_shared) {
    return warpgrade_occupancy(blocks, (const void*)function, block_size, dynamic_shared);
}
template <class F>
WARPGRADE_INLINE cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, F* function, int block_size, size_t dynamic_shared, unsigned) {
    return warpgrade_occupancy(blocks, (const void*)function, block_size, dynamic_shared);
}
template <class F>
WARPGRADE_INLINE cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F* function) {
    return warpgrade_function_attributes(attributes, (const void*)function);
}
template <class T>
WARPGRADE_INLINE cudaError_t cudaHostRegister(T* p, size_t bytes, unsigned) {
    return warpgrade_host_register((void*)p, bytes);
}
WARPGRADE_INLINE cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                      const void* p) {
    if (!attributes) return cudaErrorInvalidValue;
    const auto type = static_cast<cudaMemoryType>(warpgrade_memory_type(p));
    const bool device = type == cudaMemoryTypeDevice || type == cudaMemoryTypeManaged;
    *attributes = {type, device ? 0 : -2, device ? const_cast<void*>(p) : nullptr,
                   type == cudaMemoryTypeDevice ? nullptr : const_cast<void*>(p)};
    return cudaSuccess;
}
template <class F>
WARPGRADE_INLINE cudaError_t cudaOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size,
                                                                F* function, size_t = 0,
                                                                int limit = 0) {
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, function);
    const int most = attributes.maxThreadsPerBlock;
    *block_size = limit > 0 && limit < most ? limit : most;
    *min_grid = 132 * (2048 / *block_size);
    return cudaSuccess;
}

// ---- What the emulator lacks --------------------------------------------------------------------

// Each of these compiles, and ends the entry when it is called.
#define WARPGRADE_LACKS(name)                              \
    template <class... Arguments>                          \
    WARPGRADE_INLINE cudaError_t name(Arguments&&...) {    \
        warpgrade_unsupported(#name);                      \
    }
WARPGRADE_LACKS(cudaMallocArray)
WARPGRADE_LACKS(cudaMalloc3D)
WARPGRADE_LACKS(cudaMalloc3DArray)
WARPGRADE_LACKS(cudaMemcpy3D)
WARPGRADE_LACKS(cudaMemcpy3DAsync)
WARPGRADE_LACKS(cudaMemcpyPeer)
WARPGRADE_LACKS(cudaMemcpyPeerAsync)
WARPGRADE_LACKS(cudaLaunchHostFunc)
WARPGRADE_LACKS(cudaStreamAddCallback)
WARPGRADE_LACKS(cudaStreamBeginCapture)
WARPGRADE_LACKS(cudaStreamEndCapture)
WARPGRADE_LACKS(cudaGraphCreate)
WARPGRADE_LACKS(cudaGraphInstantiate)
WARPGRADE_LACKS(cudaGraphLaunch)
WARPGRADE_LACKS(cudaGraphDestroy)
WARPGRADE_LACKS(cudaGraphExecDestroy)
WARPGRADE_LACKS(cudaCreateTextureObject)
WARPGRADE_LACKS(cudaDestroyTextureObject)
WARPGRADE_LACKS(cudaCreateSurfaceObject)
WARPGRADE_LACKS(cudaDestroySurfaceObject)
WARPGRADE_LACKS(cudaDeviceEnablePeerAccess)
WARPGRADE_LACKS(cudaIpcGetMemHandle)
WARPGRADE_LACKS(cudaIpcOpenMemHandle)
#undef WARPGRADE_LACKS
