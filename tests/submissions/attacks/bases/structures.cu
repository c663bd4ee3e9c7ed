#include <cuda_runtime.h>

// <four>

__device__ size_t at(int row, int col, int cols) { return static_cast<size_t>(row) * cols + col; }

__global__ void move(const float* input, float* output, int rows, int cols) {
    const int across = (cols + 63) / 64;
    const int row = (blockIdx.x / across * 2 + threadIdx.x % 2) * 4;
    const int col = (blockIdx.x % across * 16 + threadIdx.x / 2) * 4;
    if (rows % 4 || cols % 4) {
        for (int i = row; i < min(row + 4, rows); ++i)
            for (int k = col; k < min(col + 4, cols); ++k)
                output[at(k, i, rows)] = input[at(i, k, cols)];
    } else if (row < rows && col < cols) {
        Four in[4], out[4];
        for (int i = 0; i < 4; ++i) in[i] = *(const Four*)(input + at(row + i, col, cols));
        for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 4; ++k) out[k].v[i] = in[i].v[k];
        for (int k = 0; k < 4; ++k) *(Four*)(output + at(col + k, row, rows)) = out[k];
    }
}

extern "C" void transpose_v3(const float* input, float* output, int rows, int cols) {
    move<<<(rows + 7) / 8 * ((cols + 63) / 64), 32>>>(input, output, rows, cols);
}
