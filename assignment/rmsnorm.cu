// RMSNorm: output[i] = input[i] / sqrt(mean of all input[j]^2 + epsilon) * weight[i].
//
// Every element of the result depends on every element of the row: threads have to combine what
// they found. Within a block they can, through shared memory and __syncthreads(). Two ways:
//
//   rms_norm_vector   one row, one block: partial sums in shared memory, halved until one is left
//   rms_norm_matrix   a block for each row: a warp sums by shuffles, without memory or barriers, so
//                     that a block needs two barriers, not one for each halving

#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_SIZE = 256;  // a power of two, for the halving
constexpr int WARPS = BLOCK_SIZE / WARP_SIZE;

// Says where a CUDA call failed, and why. A kernel launch returns nothing; it leaves its error to
// cudaPeekAtLastError(), which keeps it for whoever called us (cudaGetLastError() would clear it).
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// --- one row, one block --------------------------------------------------------------------------

__global__ void rms_norm_vector_kernel(const float* input, const float* weight, float* output,
                                       int cols, float epsilon) {
    // TODO: each thread sums the squares of elements threadIdx.x, threadIdx.x + BLOCK_SIZE, ...
    //   (and not a stretch of neighbours: why?)
    // TODO: __shared__ float partial[BLOCK_SIZE]; every thread puts its sum there.
    // TODO: half the threads add what the other half has, then half of those, until one sum is
    //   left. Where must __syncthreads() stand, and may it stand inside the if?
    // TODO: every thread reads the whole sum and scales its elements. The mean is over cols,
    //   and epsilon goes under the root (rsqrtf).
}

// Write the normalised input to output. input, weight, output: cols floats each in device memory,
// cols >= 1. epsilon > 0 is added to the mean square.
extern "C" void rms_norm_vector(const float* input, const float* weight, float* output, int cols,
                                float epsilon) {
    // TODO: one block of BLOCK_SIZE threads, whatever cols is.
}

// --- a block for each row ------------------------------------------------------------------------

// TODO (better than halving): the sum over a warp by __shfl_down_sync or __shfl_xor_sync, and
//   the sum over a block from its warps' sums. Write them as __device__ functions.

__global__ void rms_norm_matrix_kernel(const float* input, const float* weight, float* output,
                                       int cols, float epsilon) {
    // TODO: move input and output to this block's row. rows * cols can be beyond what an int
    //   holds, so count in size_t.
    // TODO: then as in rms_norm_vector_kernel.
}

// Write every row of input, normalised, to output. input, output: rows * cols floats each in device
// memory, row after row; weight: cols floats; rows, cols >= 1. epsilon > 0 is added to the mean.
extern "C" void rms_norm_matrix(const float* input, const float* weight, float* output, int rows,
                                int cols, float epsilon) {
    // TODO: a block for each row.
}
