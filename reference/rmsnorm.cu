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
    // BEGIN SOLUTION
    //| // TODO: each thread sums the squares of elements threadIdx.x, threadIdx.x + BLOCK_SIZE, ...
    //| //   (and not a stretch of neighbours: why?)
    //| // TODO: __shared__ float partial[BLOCK_SIZE]; every thread puts its sum there.
    //| // TODO: half the threads add what the other half has, then half of those, until one sum is
    //| //   left. Where must __syncthreads() stand, and may it stand inside the if?
    //| // TODO: every thread reads the whole sum and scales its elements. The mean is over cols,
    //| //   and epsilon goes under the root (rsqrtf).
    __shared__ float partial[BLOCK_SIZE];

    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) sum += input[i] * input[i];
    partial[threadIdx.x] = sum;
    __syncthreads();

    for (int half = BLOCK_SIZE / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        // Outside the if: a barrier is for every thread of the block.
        __syncthreads();
    }

    const float rstd = rsqrtf(partial[0] / cols + epsilon);
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) output[i] = input[i] * rstd * weight[i];
    // END SOLUTION
}

// Write the normalised input to output. input, weight, output: cols floats each in device memory,
// cols >= 1. epsilon > 0 is added to the mean square.
extern "C" void rms_norm_vector(const float* input, const float* weight, float* output, int cols,
                                float epsilon) {
    // BEGIN SOLUTION
    //| // TODO: one block of BLOCK_SIZE threads, whatever cols is.
    rms_norm_vector_kernel<<<1, BLOCK_SIZE>>>(input, weight, output, cols, epsilon);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}

// --- a block for each row ------------------------------------------------------------------------

// BEGIN SOLUTION
//| // TODO (better than halving): the sum over a warp by __shfl_down_sync or __shfl_xor_sync, and
//| //   the sum over a block from its warps' sums. Write them as __device__ functions.

// The sum over the warp's 32 threads, in its thread 0. All of them must call it.
__device__ float warp_sum(float value) {
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

// The sum over the block's threads, in each of them. All of them must call it, and once only: a
// second call could overwrite warp_sums while a thread still reads them for the first.
__device__ float block_sum(float value) {
    __shared__ float warp_sums[WARPS];
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int warp_id = threadIdx.x / WARP_SIZE;

    value = warp_sum(value);
    if (lane_id == 0) warp_sums[warp_id] = value;
    __syncthreads();

    if (warp_id == 0) {
        value = warp_sum(lane_id < WARPS ? warp_sums[lane_id] : 0.0f);
        if (lane_id == 0) warp_sums[0] = value;
    }
    __syncthreads();
    return warp_sums[0];
}
// END SOLUTION

__global__ void rms_norm_matrix_kernel(const float* input, const float* weight, float* output,
                                       int cols, float epsilon) {
    // BEGIN SOLUTION
    //| // TODO: move input and output to this block's row. rows * cols can be beyond what an int
    //| //   holds, so count in size_t.
    //| // TODO: then as in rms_norm_vector_kernel.
    const size_t row_start = static_cast<size_t>(blockIdx.x) * cols;
    input += row_start;
    output += row_start;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) sum += input[i] * input[i];

    const float rstd = rsqrtf(block_sum(sum) / cols + epsilon);
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) output[i] = input[i] * rstd * weight[i];
    // END SOLUTION
}

// Write every row of input, normalised, to output. input, output: rows * cols floats each in device
// memory, row after row; weight: cols floats; rows, cols >= 1. epsilon > 0 is added to the mean.
extern "C" void rms_norm_matrix(const float* input, const float* weight, float* output, int rows,
                                int cols, float epsilon) {
    // BEGIN SOLUTION
    //| // TODO: a block for each row.
    rms_norm_matrix_kernel<<<rows, BLOCK_SIZE>>>(input, weight, output, cols, epsilon);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
