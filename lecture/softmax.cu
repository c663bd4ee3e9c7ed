// Softmax of each row, for the lecture: a block per row, three passes over it.
//
// The exercise on softmax is one of Triton; this stands beside it to show what the same takes in
// CUDA. The row is read three times, but only the first time from memory: a row of 16384 floats has
// 64 KiB, which L1 and L2 hold.

#include <cuda_runtime.h>

constexpr int BLOCK_SIZE = 512;  // threads of a block: 16 warps
constexpr int WARPS = BLOCK_SIZE / 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// One value of all threads' values; every thread of the block gets it.
template <typename Combine>
__device__ float of_block(float value, float neutral, Combine combine) {
    __shared__ float of_warps[WARPS];
    const int lane_id = threadIdx.x % 32;
    const int warp_id = threadIdx.x / 32;
    for (int step = 16; step > 0; step /= 2)
        value = combine(value, __shfl_xor_sync(ALL_LANES, value, step));
    if (lane_id == 0) of_warps[warp_id] = value;
    __syncthreads();
    value = lane_id < WARPS ? of_warps[lane_id] : neutral;
    for (int step = 16; step > 0; step /= 2)
        value = combine(value, __shfl_xor_sync(ALL_LANES, value, step));
    __syncthreads();  // before of_warps is written again
    return value;
}

__global__ void softmax_kernel(const float* input, float* output, int cols) {
    const float* row = input + static_cast<size_t>(blockIdx.x) * cols;
    float* out = output + static_cast<size_t>(blockIdx.x) * cols;
    float largest = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) largest = fmaxf(largest, row[i]);
    largest = of_block(largest, -INFINITY, Larger());
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) sum += expf(row[i] - largest);
    sum = of_block(sum, 0.0f, Sum());
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) out[i] = expf(row[i] - largest) / sum;
}

// Write the softmax of each row of input to output: rows * cols floats each, in device memory.
extern "C" void softmax(const float* input, float* output, int rows, int cols) {
    softmax_kernel<<<rows, BLOCK_SIZE>>>(input, output, cols);
}
