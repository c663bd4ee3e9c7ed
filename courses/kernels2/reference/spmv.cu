// Sparse matrix times vector, in CSR: out[i] is the sum of value[j] * x[column[j]], for j from
// offsets[i] to offsets[i + 1] - 1. Two ways:
//
//   spmv_scalar   a thread for each row: neighbouring threads read places that lie a row apart
//   spmv_warp     a warp for each row: neighbouring threads read neighbours, and add up by shuffles
//
// Method: Bell and Garland, "Implementing Sparse Matrix-Vector Multiplication on
// Throughput-Oriented Processors" (2009).

#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_SIZE = 128;
constexpr int WARPS = BLOCK_SIZE / WARP_SIZE;

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

static int ceil_div(int n, int size) { return n / size + (n % size != 0); }

// --- a thread for each row -----------------------------------------------------------------------

__global__ void spmv_scalar_kernel(const int* offsets, const int* column, const float* value,
                                   const float* x, float* out, int rows) {
    // BEGIN SOLUTION
    //| // TODO: which row is this thread's, and where does it begin and end?
    //| // TODO: the sum; an empty row is 0, and has to be written.
    const int row = blockIdx.x * BLOCK_SIZE + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int j = offsets[row]; j < offsets[row + 1]; ++j) sum += value[j] * x[column[j]];
    out[row] = sum;
    // END SOLUTION
}

// Write the product of a matrix in CSR with x to out. offsets: rows + 1 ints from 0 to nnz, never
// falling; column: nnz ints; value: nnz floats; x: cols floats, out: rows floats, in device memory;
// rows >= 1, nnz >= 0.
extern "C" void spmv_scalar(const int* offsets, const int* column, const float* value,
                            const float* x, float* out, int rows) {
    // BEGIN SOLUTION
    //| // TODO: enough blocks for all rows.
    spmv_scalar_kernel<<<ceil_div(rows, BLOCK_SIZE), BLOCK_SIZE>>>(offsets, column, value, x, out,
                                                                   rows);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}

// --- a warp for each row -------------------------------------------------------------------------

__global__ void spmv_warp_kernel(const int* offsets, const int* column, const float* value,
                                 const float* x, float* out, int rows) {
    // BEGIN SOLUTION
    //| // TODO: which row is this warp's? All of its threads have the same, so all leave together.
    //| // TODO: each thread takes every 32nd element, then the warp adds up by shuffles.
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int row = blockIdx.x * WARPS + threadIdx.x / WARP_SIZE;
    if (row >= rows) return;
    const int end = offsets[row + 1];
    float sum = 0.0f;
    for (int j = offsets[row] + lane_id; j < end; j += WARP_SIZE) sum += value[j] * x[column[j]];
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    if (lane_id == 0) out[row] = sum;
    // END SOLUTION
}

// As spmv_scalar, with a warp for each row.
extern "C" void spmv_warp(const int* offsets, const int* column, const float* value, const float* x,
                          float* out, int rows) {
    // BEGIN SOLUTION
    //| // TODO: a block has WARPS rows.
    spmv_warp_kernel<<<ceil_div(rows, WARPS), BLOCK_SIZE>>>(offsets, column, value, x, out, rows);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
