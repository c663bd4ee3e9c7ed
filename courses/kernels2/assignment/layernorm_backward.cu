// LayerNorm, backward: dx, dweight and dbias from x, weight and dy.
//
// With xhat = (x - mean) * rstd and g = dy * weight:
//
//     dx      = rstd * (g - mean of g - xhat * mean of g * xhat)     means along a row
//     dweight = sum of dy * xhat, dbias = sum of dy                  sums along a column
//
// Along a row a block's threads add up, as in every row kernel. Along a column they must not: 32
// threads down a column would read 32 sectors of 32 bytes for 4 bytes each. So a warp stays on 32
// neighbouring columns, each thread going down one of them. The warps of a block share the rows.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_SIZE = 256;
constexpr int WARPS = BLOCK_SIZE / WARP_SIZE;

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// --- along rows ----------------------------------------------------------------------------------

// TODO: the sum over a block, in every thread of it.

__global__ void dx_kernel(const float* x, const float* weight, const float* dy, float* dx,
                          float* mean, float* rstd, int cols, float eps) {
    // TODO: move to this block's row. The mean, then the variance, then the means of g and of
    //   g * xhat.
    // TODO: write dx, and the row's mean and rstd for the second kernel.
}

// --- along columns -------------------------------------------------------------------------------

__global__ void dweight_kernel(const float* x, const float* dy, const float* mean,
                               const float* rstd, float* dweight, float* dbias, int rows,
                               int cols) {
    // TODO: a block of 32 by WARPS threads for 32 columns: thread (c, w) adds rows w, w +
    //   WARPS, ... of column c, so that a warp reads 32 neighbours.
    // TODO: the warps' sums meet in shared memory; one warp adds them and writes.
}

// Write the gradients of LayerNorm to dx, dweight and dbias. x, dy, dx: rows * cols floats in
// device memory, row after row; weight, dweight, dbias: cols floats; rows, cols >= 1; eps > 0.
extern "C" void layernorm_backward(const float* x, const float* weight, const float* dy, float* dx,
                                   float* dweight, float* dbias, int rows, int cols, float eps) {
    // TODO: memory for mean and rstd of each row, the two launches, and cudaFree.
}
