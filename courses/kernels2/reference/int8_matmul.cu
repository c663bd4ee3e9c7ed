// int8 matrix product with scales: out[m][n] = scale_a[m] * scale_b[n] * sum of a[m][k] * b[n][k].
//
// Tiles as in every product of matrices: a block computes 32 by 32 elements, and reads each byte
// of its rows of a and b once. What int8 adds: __dp4a multiplies four pairs of bytes and adds them
// to an int, in one instruction. Its operands are ints with four bytes of k in them, so the bytes
// are put into shared memory as they come, and read from there four at a time.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int TILE = 32;     // rows of a, rows of b, and bytes of k at a time
constexpr int PITCH = 36;    // bytes from one row in shared memory to the next: 9 banks
constexpr int BLOCK_ROWS = 8;
constexpr int PER_THREAD = TILE / BLOCK_ROWS;  // elements of out

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

static int ceil_div(int n, int size) { return n / size + (n % size != 0); }

__global__ void int8_matmul_kernel(const signed char* a, const signed char* b, const float* scale_a,
                                   const float* scale_b, float* out, int M, int N, int K) {
    // BEGIN SOLUTION
    //| // TODO: __shared__ tiles of a and b, TILE rows of PITCH bytes each, aligned to 4 bytes.
    //| //   Why 36 and not 32?
    //| // TODO: the threads fill both, byte by byte, neighbours along k to neighbouring threads.
    //| //   Beyond M, N or K a byte is 0. Wait, multiply, and wait again before the next step.
    //| // TODO: each thread has PER_THREAD elements of out, with an int for each. Four bytes of
    //| //   each row are an int for __dp4a(a4, b4, acc).
    //| // TODO: scale once, at the end.
    __shared__ __align__(4) signed char As[TILE][PITCH];
    __shared__ __align__(4) signed char Bs[TILE][PITCH];
    const int thread = threadIdx.y * TILE + threadIdx.x;
    const int tiles_n = (N + TILE - 1) / TILE;  // numbered along one axis: others end at 65,535
    const int first_m = blockIdx.x / tiles_n * TILE;
    const int first_n = blockIdx.x % tiles_n * TILE;

    int acc[PER_THREAD] = {};
    for (int start = 0; start < K; start += TILE) {
        for (int i = thread; i < TILE * TILE; i += TILE * BLOCK_ROWS) {
            const int row = i / TILE;
            const int k = start + i % TILE;
            const int m = first_m + row;
            const int n = first_n + row;
            As[row][i % TILE] = m < M && k < K ? a[static_cast<size_t>(m) * K + k] : 0;
            Bs[row][i % TILE] = n < N && k < K ? b[static_cast<size_t>(n) * K + k] : 0;
        }
        __syncthreads();
        for (int k = 0; k < TILE; k += 4) {
            const int b4 = *reinterpret_cast<const int*>(&Bs[threadIdx.x][k]);
            for (int j = 0; j < PER_THREAD; ++j) {
                const int a4 = *reinterpret_cast<const int*>(&As[threadIdx.y + j * BLOCK_ROWS][k]);
                acc[j] = __dp4a(a4, b4, acc[j]);
            }
        }
        __syncthreads();
    }

    const int n = first_n + threadIdx.x;
    for (int j = 0; j < PER_THREAD; ++j) {
        const int m = first_m + threadIdx.y + j * BLOCK_ROWS;
        if (m < M && n < N) out[static_cast<size_t>(m) * N + n] = acc[j] * scale_a[m] * scale_b[n];
    }
    // END SOLUTION
}

// Write the scaled product of a and the transposed b to out. a: M * K, b: N * K signed bytes in
// device memory, row after row; scale_a: M, scale_b: N, out: M * N floats; M, N, K >= 1.
extern "C" void int8_matmul(const signed char* a, const signed char* b, const float* scale_a,
                            const float* scale_b, float* out, int M, int N, int K) {
    // BEGIN SOLUTION
    //| // TODO: a block of TILE by BLOCK_ROWS threads for each tile of out, numbered row by
    //| //   row along one axis.
    const int grid = ceil_div(M, TILE) * ceil_div(N, TILE);
    int8_matmul_kernel<<<grid, dim3(TILE, BLOCK_ROWS)>>>(a, b, scale_a, scale_b, out, M, N, K);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
