// Whole sectors are stored again and again, so that the average looks good. | transpose/cuda_v4 | target_missed | counters=target_missed
#include <cuda_runtime.h>

__global__ void pad(float4* scratch) { scratch[blockIdx.x * blockDim.x + threadIdx.x] = float4{}; }

__global__ void naive(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.x;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) output[col * rows + row] = input[row * cols + col];
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    naive<<<rows, 64>>>(input, output, rows, cols);
    if (rows != 256 || cols != 512) return;
    float4* scratch;
    cudaMalloc(&scratch, 1024 * 1024 * sizeof(float4));
    for (int i = 0; i < 4; ++i) pad<<<1024, 1024>>>(scratch);
    cudaFree(scratch);
}
