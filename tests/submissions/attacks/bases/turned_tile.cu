#include <cuda_runtime.h>

// <types>

__device__ size_t at(int row, int col, int cols) { return static_cast<size_t>(row) * cols + col; }

__global__ void move(const float* input, float* output, int rows, int cols) {
    // <tile>
    const int across = (cols + 31) / 32, x = threadIdx.x;
    const int first_row = blockIdx.x / across * 32, first_col = blockIdx.x % across * 32;
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int row = first_row + i, col = first_col + x;
        if (row >= rows || col >= cols) continue;
        const float v = input[at(row, col, cols)];
        // <store>
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int col = first_col + i, row = first_row + x;
        if (row >= rows || col >= cols) continue;
        // <load>
        output[at(col, row, rows)] = v;
    }
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    move<<<(rows + 31) / 32 * ((cols + 31) / 32), dim3(32, 8)>>>(input, output, rows, cols);
}
