// 2-D convolution: out[i, j] = sum over r, s of w[r, s] * x[i + r - K / 2, j + s - K / 2].
//
// Each element of x is needed for K * K elements of out. A block that computes a tile of out needs
// the same tile of x, and a halo of K / 2 elements around it. Its threads bring both into shared
// memory once, together, and then read each element from there K * K times.
//
// A warp has a row of 32 neighbours: its loads are whole sectors, and in shared memory its threads
// read 32 different banks. Method: Kirk and Hwu, "Programming Massively Parallel Processors",
// chapter "Convolution".

#include <cstdio>
#include <cuda_runtime.h>

constexpr int TILE_W = 32;  // elements of out, and threads
constexpr int TILE_H = 16;
constexpr int MAX_K = 7;

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

static int ceil_div(int n, int size) { return n / size + (n % size != 0); }

__global__ void conv2d_kernel(const float* x, const float* w, float* out, int H, int W, int K) {
    // BEGIN SOLUTION
    //| // TODO: __shared__ a tile of (TILE_H + MAX_K - 1) by (TILE_W + MAX_K - 1), and w.
    //| // TODO: the block's threads fill it together: there are more elements than threads. Beyond
    //| //   the image, on all four sides, an element is 0.
    //| // TODO: wait. Then each thread adds its K * K products. A thread that has no element of out
    //| //   helps to fill nevertheless.
    __shared__ float tile[TILE_H + MAX_K - 1][TILE_W + MAX_K - 1];
    __shared__ float ws[MAX_K * MAX_K];
    const int thread = threadIdx.y * TILE_W + threadIdx.x;
    // Tiles are numbered along one axis: the grid's others end at 65,535.
    const int tiles_w = (W + TILE_W - 1) / TILE_W;
    const int tile_row = blockIdx.x / tiles_w * TILE_H;
    const int tile_col = blockIdx.x % tiles_w * TILE_W;
    const int first_row = tile_row - K / 2;  // of the tile with its halo, in x
    const int first_col = tile_col - K / 2;
    const int height = TILE_H + K - 1;
    const int width = TILE_W + K - 1;

    for (int i = thread; i < K * K; i += TILE_W * TILE_H) ws[i] = w[i];
    for (int i = thread; i < height * width; i += TILE_W * TILE_H) {
        const int row = first_row + i / width;
        const int col = first_col + i % width;
        const bool inside = row >= 0 && row < H && col >= 0 && col < W;
        tile[i / width][i % width] = inside ? x[static_cast<size_t>(row) * W + col] : 0.0f;
    }
    __syncthreads();

    const int row = tile_row + threadIdx.y;
    const int col = tile_col + threadIdx.x;
    if (row >= H || col >= W) return;
    float acc = 0.0f;
    for (int r = 0; r < K; ++r)
        for (int s = 0; s < K; ++s)
            acc += ws[r * K + s] * tile[threadIdx.y + r][threadIdx.x + s];
    out[static_cast<size_t>(row) * W + col] = acc;
    // END SOLUTION
}

// Write the convolution of x with w to out. x, out: H * W floats in device memory, row after row;
// w: K * K floats, K odd and at most MAX_K; H, W >= 1. x counts as 0 outside.
extern "C" void conv2d(const float* x, const float* w, float* out, int H, int W, int K) {
    // BEGIN SOLUTION
    //| // TODO: a block of TILE_W by TILE_H threads for each tile,
    //| //   numbered row by row along one axis. In a block, which of the two is x?
    const int grid = ceil_div(H, TILE_H) * ceil_div(W, TILE_W);
    conv2d_kernel<<<grid, dim3(TILE_W, TILE_H)>>>(x, w, out, H, W, K);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
