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
    // TODO: __shared__ a tile of (TILE_H + MAX_K - 1) by (TILE_W + MAX_K - 1), and w.
    // TODO: the block's threads fill it together: there are more elements than threads. Beyond
    //   the image, on all four sides, an element is 0.
    // TODO: wait. Then each thread adds its K * K products. A thread that has no element of out
    //   helps to fill nevertheless.
}

// Write the convolution of x with w to out. x, out: H * W floats in device memory, row after row;
// w: K * K floats, K odd and at most MAX_K; H, W >= 1. x counts as 0 outside.
extern "C" void conv2d(const float* x, const float* w, float* out, int H, int W, int K) {
    // TODO: a block of TILE_W by TILE_H threads for each tile,
    //   numbered row by row along one axis. In a block, which of the two is x?
}
