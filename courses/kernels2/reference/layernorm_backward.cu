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

// BEGIN SOLUTION
//| // TODO: the sum over a block, in every thread of it.

// The sum over the block's threads, in each of them. All of them must call it.
__device__ float block_sum(float value) {
    __shared__ float warp_sums[WARPS];
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int warp_id = threadIdx.x / WARP_SIZE;
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    __syncthreads();  // a call before this one may still be reading warp_sums
    if (lane_id == 0) warp_sums[warp_id] = value;
    __syncthreads();
    value = 0.0f;
    for (int i = 0; i < WARPS; ++i) value += warp_sums[i];
    return value;
}
// END SOLUTION

__global__ void dx_kernel(const float* x, const float* weight, const float* dy, float* dx,
                          float* mean, float* rstd, int cols, float eps) {
    // BEGIN SOLUTION
    //| // TODO: move to this block's row. The mean, then the variance, then the means of g and of
    //| //   g * xhat.
    //| // TODO: write dx, and the row's mean and rstd for the second kernel.
    const size_t row_start = static_cast<size_t>(blockIdx.x) * cols;
    x += row_start;
    dy += row_start;
    dx += row_start;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) sum += x[i];
    const float mu = block_sum(sum) / cols;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) squares += (x[i] - mu) * (x[i] - mu);
    const float r = rsqrtf(block_sum(squares) / cols + eps);

    float sum_g = 0.0f;
    float sum_gx = 0.0f;
    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE) {
        const float g = dy[i] * weight[i];
        sum_g += g;
        sum_gx += g * (x[i] - mu) * r;
    }
    const float mean_g = block_sum(sum_g) / cols;
    const float mean_gx = block_sum(sum_gx) / cols;

    for (int i = threadIdx.x; i < cols; i += BLOCK_SIZE)
        dx[i] = r * (dy[i] * weight[i] - mean_g - (x[i] - mu) * r * mean_gx);
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = mu;
        rstd[blockIdx.x] = r;
    }
    // END SOLUTION
}

// --- along columns -------------------------------------------------------------------------------

__global__ void dweight_kernel(const float* x, const float* dy, const float* mean,
                               const float* rstd, float* dweight, float* dbias, int rows,
                               int cols) {
    // BEGIN SOLUTION
    //| // TODO: a block of 32 by WARPS threads for 32 columns: thread (c, w) adds rows w, w +
    //| //   WARPS, ... of column c, so that a warp reads 32 neighbours.
    //| // TODO: the warps' sums meet in shared memory; one warp adds them and writes.
    __shared__ float dw_sums[WARPS][WARP_SIZE];
    __shared__ float db_sums[WARPS][WARP_SIZE];
    const int col = blockIdx.x * WARP_SIZE + threadIdx.x;

    float dw = 0.0f;
    float db = 0.0f;
    if (col < cols) {
        for (int row = threadIdx.y; row < rows; row += WARPS) {
            const size_t i = static_cast<size_t>(row) * cols + col;
            dw += dy[i] * (x[i] - mean[row]) * rstd[row];
            db += dy[i];
        }
    }
    dw_sums[threadIdx.y][threadIdx.x] = dw;
    db_sums[threadIdx.y][threadIdx.x] = db;
    __syncthreads();

    if (threadIdx.y > 0 || col >= cols) return;
    for (int w = 1; w < WARPS; ++w) {
        dw += dw_sums[w][threadIdx.x];
        db += db_sums[w][threadIdx.x];
    }
    dweight[col] = dw;
    dbias[col] = db;
    // END SOLUTION
}

// Write the gradients of LayerNorm to dx, dweight and dbias. x, dy, dx: rows * cols floats in
// device memory, row after row; weight, dweight, dbias: cols floats; rows, cols >= 1; eps > 0.
extern "C" void layernorm_backward(const float* x, const float* weight, const float* dy, float* dx,
                                   float* dweight, float* dbias, int rows, int cols, float eps) {
    // BEGIN SOLUTION
    //| // TODO: memory for mean and rstd of each row, the two launches, and cudaFree.
    float* stats = nullptr;
    CHECK(cudaMalloc(&stats, 2 * static_cast<size_t>(rows) * sizeof(float)));
    dx_kernel<<<rows, BLOCK_SIZE>>>(x, weight, dy, dx, stats, stats + rows, cols, eps);
    const int blocks = (cols + WARP_SIZE - 1) / WARP_SIZE;
    dweight_kernel<<<blocks, dim3(WARP_SIZE, WARPS)>>>(x, dy, stats, stats + rows, dweight, dbias,
                                                       rows, cols);
    CHECK(cudaPeekAtLastError());
    CHECK(cudaFree(stats));
    // END SOLUTION
}
