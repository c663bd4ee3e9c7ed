// It stores scattered elements by atomics, which count as no store, after a store for show. | transpose/cuda_v4 | target_missed | counters=target_missed
#include <cuda_runtime.h>

__global__ void touch(const float* input, float* output, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] = input[i];
}

__global__ void scatter(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.x;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) atomicExch(&output[col * rows + row], input[row * cols + col]);
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    touch<<<(rows * cols + 255) / 256, 256>>>(input, output, rows * cols);
    scatter<<<rows, 64>>>(input, output, rows, cols);
}
