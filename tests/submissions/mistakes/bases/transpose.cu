// Transpose with a grid of two dimensions, a thread for each element of a tile.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int TILE = 32;

#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// --- v1 ------------------------------------------------------------------------------------------

__global__ void transpose_v1_kernel(const float* input, float* output, int rows, int cols) {
    int row = blockIdx.x;
    int stretch = (cols + blockDim.x - 1) / blockDim.x;
    for (int k = 0; k < stretch; ++k) {
        int col = threadIdx.x * stretch + k;
        if (col < cols) {
            output[(size_t)col * rows + row] = input[(size_t)row * cols + col];
        }
    }
}

extern "C" void transpose_v1(const float* input, float* output, int rows, int cols) {
    transpose_v1_kernel<<<rows, 64>>>(input, output, rows, cols);
    CHECK(cudaPeekAtLastError());
}

// --- v2 ------------------------------------------------------------------------------------------

__global__ void transpose_v2_kernel(const float* input, float* output, int rows, int cols) {
    int row = blockIdx.x;
    int col = threadIdx.x;
    while (col < cols) {
        output[(size_t)col * rows + row] = input[(size_t)row * cols + col];
        col += blockDim.x;
    }
}

extern "C" void transpose_v2(const float* input, float* output, int rows, int cols) {
    transpose_v2_kernel<<<rows, 64>>>(input, output, rows, cols);
    CHECK(cudaPeekAtLastError());
}

// --- v3 ------------------------------------------------------------------------------------------

__global__ void transpose_v3_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[TILE][TILE];
    int col = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && col < cols) {
        tile[threadIdx.y][threadIdx.x] = input[(size_t)row * cols + col];
    }
    __syncthreads();

    int out_col = blockIdx.y * TILE + threadIdx.x;
    int out_row = blockIdx.x * TILE + threadIdx.y;
    if (out_row < cols && out_col < rows) {
        output[(size_t)out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
    }
}

extern "C" void transpose_v3(const float* input, float* output, int rows, int cols) {
    dim3 threads(TILE, TILE);
    dim3 blocks((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose_v3_kernel<<<blocks, threads>>>(input, output, rows, cols);
    CHECK(cudaPeekAtLastError());
}

// --- v4 ------------------------------------------------------------------------------------------

__global__ void transpose_v4_kernel(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[TILE * (TILE + 1)];
    constexpr int pitch = TILE + 1;
    int col = blockIdx.x * TILE + threadIdx.x;
    int row = blockIdx.y * TILE + threadIdx.y;
    if (row < rows && col < cols) {
        tile[threadIdx.y * pitch + threadIdx.x] = input[(size_t)row * cols + col];
    }
    __syncthreads();

    int out_col = blockIdx.y * TILE + threadIdx.x;
    int out_row = blockIdx.x * TILE + threadIdx.y;
    if (out_row < cols && out_col < rows) {
        output[(size_t)out_row * rows + out_col] = tile[threadIdx.x * pitch + threadIdx.y];
    }
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    dim3 threads(TILE, TILE);
    dim3 blocks((cols + TILE - 1) / TILE, (rows + TILE - 1) / TILE);
    transpose_v4_kernel<<<blocks, threads>>>(input, output, rows, cols);
    CHECK(cudaPeekAtLastError());
}
