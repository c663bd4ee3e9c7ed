// GEMM by tiles in shared memory, with a grid of two dimensions.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int TILE = 32;

#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

__global__ void gemm_tiled_kernel(const float* a, const float* b, float* out, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int tx = threadIdx.x;
    int ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty;
    int col = blockIdx.x * TILE + tx;

    float sum = 0.0f;
    int steps = (K + TILE - 1) / TILE;
    for (int t = 0; t < steps; ++t) {
        if (row < M && t * TILE + tx < K) {
            As[ty][tx] = a[(size_t)row * K + t * TILE + tx];
        } else {
            As[ty][tx] = 0.0f;
        }
        if (t * TILE + ty < K && col < N) {
            Bs[ty][tx] = b[(size_t)(t * TILE + ty) * N + col];
        } else {
            Bs[ty][tx] = 0.0f;
        }
        __syncthreads();

        for (int k = 0; k < TILE; ++k) {
            sum += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }

    if (row < M && col < N) {
        out[(size_t)row * N + col] = sum;
    }
}

extern "C" void gemm_tiled(const float* a, const float* b, float* out, int M, int N, int K) {
    dim3 threads(TILE, TILE);
    dim3 blocks((N + TILE - 1) / TILE, (M + TILE - 1) / TILE);
    gemm_tiled_kernel<<<blocks, threads>>>(a, b, out, M, N, K);
    CHECK(cudaPeekAtLastError());
}
