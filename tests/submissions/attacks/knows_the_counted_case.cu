// It has whole sectors for the one case whose accesses are counted, and for no other. | transpose/cuda_v4 | target_missed | counters=target_missed
#include <cuda_runtime.h>

__global__ void tiled(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[32][33];
    const int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = input[row * cols + col];
    __syncthreads();
    const int out_row = blockIdx.x * 32 + threadIdx.y, out_col = blockIdx.y * 32 + threadIdx.x;
    if (out_row < cols && out_col < rows) output[out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
}

__global__ void naive(const float* input, float* output, int rows, int cols) {
    const int row = blockIdx.x;
    for (int col = threadIdx.x; col < cols; col += blockDim.x) output[col * rows + row] = input[row * cols + col];
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    if (rows == 256 && cols == 512) {
        tiled<<<dim3(cols / 32, rows / 32), dim3(32, 32)>>>(input, output, rows, cols);
    } else {
        naive<<<rows, 64>>>(input, output, rows, cols);
    }
}
