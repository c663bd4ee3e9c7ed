// Transpose: output[col, row] = input[row, col].
//
// Nothing is computed: all there is to do well is to move. Memory comes in sectors of 32 bytes, and
// a warp's load costs as many sectors as its 32 threads touch. Along a row, neighbours share
// sectors; along a column, each float has one of its own, of which 28 bytes are carried for
// nothing. A transpose goes along rows on one side and along columns on the other, so one side
// loses. Until v3, which turns a small tile in shared memory, where there are no sectors.
//
//   v1  a block for each row, each thread a stretch of neighbours    both sides lose
//   v2  a block for each row, neighbouring threads, neighbours       loads are whole sectors
//   v3  32 x 32 tiles in shared memory                               stores are, too
//   v4  the same, the tile's rows one float further apart            no bank conflicts
//
// input: rows * cols floats in device memory, row after row; output: cols * rows; rows, cols >= 1.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int BLOCK_SIZE = 64;  // threads of a block that takes one row
constexpr int TILE = 32;        // rows and columns of a tile
constexpr int TILE_ROWS = 8;    // rows of it that a block takes at a time

// Says where a CUDA call failed, and why. A kernel launch returns nothing; it leaves its error to
// cudaPeekAtLastError(), which keeps it for whoever called us (cudaGetLastError() would clear it).
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// a / b rounded up, for a, b >= 1; (a + b - 1) / b would overflow for a near 2^31.
__host__ __device__ constexpr int ceil_div(int a, int b) { return (a - 1) / b + 1; }

// Where element (row, col) of a matrix lies. In size_t: rows * cols can be beyond an int.
__device__ size_t at(int row, int col, int cols) { return static_cast<size_t>(row) * cols + col; }

// --- v1 ------------------------------------------------------------------------------------------

__global__ void transpose_v1_kernel(const float* input, float* output, int rows, int cols) {
    // TODO: this block's row is blockIdx.x. Cut it into blockDim.x stretches of equal length,
    //   rounded up: which columns are this thread's, and where must it stop?
}

extern "C" void transpose_v1(const float* input, float* output, int rows, int cols) {
    // TODO: a block for each row.
}

// --- v2 ------------------------------------------------------------------------------------------

__global__ void transpose_v2_kernel(const float* input, float* output, int rows, int cols) {
    // TODO: as v1, but at each step the threads of the block read neighbouring elements: with
    //   which column does a thread begin, and how far is it to its next?
}

extern "C" void transpose_v2(const float* input, float* output, int rows, int cols) {
    // TODO: a block for each row.
}

// --- v3 ------------------------------------------------------------------------------------------

// Tiles are numbered along the grid's x axis alone, which may have 2^31 - 1 blocks: y and z end at
// 65535, and a tall matrix has more tiles above each other than that.

__global__ void transpose_v3_kernel(const float* input, float* output, int rows, int cols) {
    // TODO: which tile is this block's? With t tiles side by side, block b has tile row b / t
    //   and tile column b % t.
    // TODO: __shared__ float tile[TILE][TILE]; read it row by row: threadIdx.x along a row of
    //   input. The block has TILE_ROWS rows of threads: a thread reads TILE / TILE_ROWS floats.
    // TODO: wait for each other.
    // TODO: write the tile's columns as rows of output: threadIdx.x along a row of *output*.
    // TODO: both sides have edges of their own. No return before the barrier!
}

extern "C" void transpose_v3(const float* input, float* output, int rows, int cols) {
    // TODO: a block of TILE x TILE_ROWS threads for each tile.
}

// --- v4 ------------------------------------------------------------------------------------------

__global__ void transpose_v4_kernel(const float* input, float* output, int rows, int cols) {
    // TODO: v3, but for the bank conflicts. Shared memory has 32 banks, and float number k is
    //   in bank k % 32. In which banks does a column of tile[TILE][TILE] lie? And if its rows
    //   were longer?
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    // TODO: as v3.
}
