// Whole sectors are stored again and again, so that the average looks good. | transpose/cuda_v4 | target_missed | counters=target_missed
#include <cuda_runtime.h>

__global__ void pad(float* scratch, int times) {
    for (int i = 0; i < times; ++i) scratch[i * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x] = 0;
}

__global__ void naive(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.x;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) output[col * rows + row] = input[row * cols + col];
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    float* scratch;
    cudaMalloc(&scratch, 128 * 512 * 1024 * sizeof(float));
    for (int i = 0; i < 4; ++i) pad<<<512, 1024>>>(scratch, 32);
    naive<<<rows, 64>>>(input, output, rows, cols);
    cudaFree(scratch);
}
