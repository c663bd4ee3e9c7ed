// GEMM: out = a @ b, with a of M rows and K columns, b of K rows and N columns.
//
// Each element of out is a sum of K products: a row of a along a column of b. A thread for each
// element could take both from global memory. But its neighbours along a row of out need the same
// row of a, its neighbours down a column the same column of b, and each would fetch them anew: a
// N times, b M times in all.
//
// So a block computes a tile of out, TILE x TILE elements, and goes along K a tile at a time:
//
//                         b   . . [Bs] . .
//                             . . [  ] . .      1. together its threads bring one tile of a and one
//                             . .  .   . .         of b into shared memory, As and Bs
//      a  . . . . . .    out  . .  .   . .      2. barrier: all of it is there
//         [As][  ] .          . . [  ] . .      3. each thread adds TILE products to its sum; what
//         . . . . . .         . .  .   . .         it reads, TILE threads read
//                                               4. barrier: all of it has been read
//
// What is fetched once is used TILE times: a comes N / TILE times from global memory, b M / TILE
// times, each rounded up.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int TILE = 32;  // rows and columns of a tile; TILE * TILE threads are a block, 1024 at most

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

__global__ void gemm_tiled_kernel(const float* a, const float* b, float* out, int M, int N, int K) {
    // BEGIN SOLUTION
    //| // TODO: which tile of out is this block's? With t tiles side by side, block p has tile row
    //| //   p / t and tile column p % t. And which element of it is this thread's? threadIdx.x
    //| //   along a row of out: then the threads of a warp write neighbours.
    //| // TODO: __shared__ float As[TILE][TILE], Bs[TILE][TILE]; the sum, 0, in a register.
    //| // TODO: for each step of TILE along K: every thread brings one element of a and one of b,
    //| //   threadIdx.x along a row of either. What must stand in a tile where it reaches beyond
    //| //   K, M or N? Nothing is there to be loaded, but the sum below will read it.
    //| // TODO: a barrier; TILE products, along a row of As and down a column of Bs; and a second
    //| //   barrier. What would go wrong without the one, and without the other?
    //| // TODO: store the sum, where this thread's element exists. No return before a barrier!
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    const int tiles_across = ceil_div(N, TILE);
    const int row = blockIdx.x / tiles_across * TILE + threadIdx.y;
    const int col = blockIdx.x % tiles_across * TILE + threadIdx.x;

    float sum = 0.0f;
    for (int first = 0; first < K; first += TILE) {
        const int a_col = first + threadIdx.x;
        const int b_row = first + threadIdx.y;
        // Beyond an edge there are zeros, which add nothing.
        As[threadIdx.y][threadIdx.x] = row < M && a_col < K ? a[at(row, a_col, K)] : 0.0f;
        Bs[threadIdx.y][threadIdx.x] = b_row < K && col < N ? b[at(b_row, col, N)] : 0.0f;
        __syncthreads();

        // A warp is a row of the tile: all of it reads one element of As, which is one read, and 32
        // neighbours of Bs, each from a bank of its own.
        for (int i = 0; i < TILE; ++i) sum += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();  // before the next round overwrites what others may still read
    }
    if (row < M && col < N) out[at(row, col, N)] = sum;
    // END SOLUTION
}

// Write a @ b to out. a: M * K floats in device memory, row after row; b: K * N; out: M * N; M, N,
// K >= 1.
extern "C" void gemm_tiled(const float* a, const float* b, float* out, int M, int N, int K) {
    // BEGIN SOLUTION
    //| // TODO: a block of TILE x TILE threads for each tile of out, the ragged ones at the edges
    //| //   included. Number them along the grid's x axis alone, which may have 2^31 - 1 blocks; y
    //| //   and z end at 65535.
    const int tiles = ceil_div(M, TILE) * ceil_div(N, TILE);
    gemm_tiled_kernel<<<tiles, dim3(TILE, TILE)>>>(a, b, out, M, N, K);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
