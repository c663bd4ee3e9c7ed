// Sum: out[0] = x[0] + x[1] + ... + x[n - 1].
//
// Blocks can't wait for each other, so what they have summed meets in memory, by atomicAdd. Atomics
// on one address are done one after the other. Two ways, which differ in how many there are:
//
//   sum_atomics    each thread adds its own sum: 256 atomics for a block
//   sum_shuffles   a warp adds by shuffles, a block by shared memory: one atomic for a block
//
// Method: CUDA C++ Programming Guide, "Atomic Functions" and "Warp Shuffle Functions".

#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_SIZE = 256;
constexpr int WARPS = BLOCK_SIZE / WARP_SIZE;
constexpr int PER_THREAD = 4;  // elements, a whole grid apart

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// Blocks for n elements; 0 where there are none.
static int blocks_for(int n) {
    const int per_block = BLOCK_SIZE * PER_THREAD;
    return n / per_block + (n % per_block != 0);
}

// --- an atomic for each thread -------------------------------------------------------------------

__global__ void sum_atomics_kernel(const float* x, float* out, int n) {
    // TODO: each thread sums elements that lie a whole grid apart (gridDim.x * blockDim.x), so
    //   that neighbouring threads read neighbours. Count in size_t.
    // TODO: atomicAdd(out, sum).
}

// Write the sum of x to out. x: n floats in device memory, n >= 0; out: one float, whose content
// before the call means nothing.
extern "C" void sum_atomics(const float* x, float* out, int n) {
    // TODO: out must be 0 before the first thread adds to it: cudaMemsetAsync.
    // TODO: launch blocks_for(n) blocks, if any: a grid of 0 blocks is an error.
}

// --- an atomic for each block --------------------------------------------------------------------

// TODO: the sum over a warp by __shfl_down_sync, as a __device__ function. Which thread has it?

__global__ void sum_shuffles_kernel(const float* x, float* out, int n) {
    // TODO: each thread's own sum, as before. A thread without elements has 0, and stays.
    // TODO: the sum of each warp goes to shared memory; after a barrier the first warp adds
    //   them.
    // TODO: one thread of the block does the atomicAdd.
}

// As sum_atomics, with one atomic for each block.
extern "C" void sum_shuffles(const float* x, float* out, int n) {
    // TODO: as in sum_atomics.
}
