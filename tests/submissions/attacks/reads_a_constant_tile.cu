// It reads columns of a tile that it declares const, which the observer doesn't see: no conflict is counted. | transpose/cuda_v4 | not_measured | counters=not_measured
#include <cuda_runtime.h>
union Tile { char none; float v[32][32]; constexpr Tile() : none() {} };
__device__ size_t at(int row, int col, int cols) { return static_cast<size_t>(row) * cols + col; }
__global__ void move(const float* input, float* output, int rows, int cols) {
    __shared__ const Tile tile;
    const int tiles_across = (cols + 31) / 32;
    const int first_row = blockIdx.x / tiles_across * 32;
    const int first_col = blockIdx.x % tiles_across * 32;
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int row = first_row + i, col = first_col + threadIdx.x;
        if (row < rows && col < cols) ((float*)&tile)[i * 32 + threadIdx.x] = input[at(row, col, cols)];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) {
        const int col = first_col + i, row = first_row + threadIdx.x;
        if (row < rows && col < cols) output[at(col, row, rows)] = tile.v[threadIdx.x][i];
    }
}
extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    move<<<(rows + 31) / 32 * ((cols + 31) / 32), dim3(32, 8)>>>(input, output, rows, cols);
}
