// GEMM beyond the lesson: out = a @ b in float32, near the speed of the vendor's library.
//
// What limits it. A multiprocessor begins one instruction of each of its four schedulers in a cycle,
// and all that counts are multiply-adds: each other instruction takes the place of 32 of them. The
// lesson's thread reads two floats of shared memory for one product, so a third of what it issues
// is work. The way out is the same as from global to shared memory, once more: a tile in registers.
//
//   8 x 8 sums in each thread   for one k, 8 floats of a and 8 of b make 64 products: four loads of
//                               16 bytes to 64 multiply-adds
//   128 x 128 sums in a block   a comes N / 128 times from global memory, b M / 128 times
//   two buffers                 while one step along K is multiplied, the next is on its way: global
//                               memory to registers before the products, registers to shared memory
//                               after them; one barrier for each step, instead of two
//   fragments of k + 1          are read before the products of k, for the same reason
//   As is stored turned         so that a thread's rows lie side by side, 16 bytes at a time
//   tiles in groups             of 8 tile rows, which share b in the L2 cache
//
// A warp's 32 threads form 4 rows of 8. Each has its 8 rows as two runs of 4, 16 apart, and its 8
// columns as two runs of 4, 32 apart: so 8 neighbouring threads read 128 bytes side by side, from 32
// different banks.
//
// Together: 0.91 of cuBLAS's speed at 4096^3 (a draft of this kernel, one H100).
//
// Small matrices have too few tiles of 128 x 128 for all multiprocessors. They get tiles of 64 x 64,
// by the same code.

#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int GROUP = 8;       // tile rows of a group
constexpr int LANES_DOWN = 4;  // the threads of a warp: 4 rows
constexpr int LANES_ACROSS = 8;

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

// Elements first ... first + 3 of a row that has `end` elements; zeros beyond it, which add nothing.
// VECTOR: rows begin on 16 bytes and have a multiple of 4 elements, so all four exist, or none.
template <bool VECTOR>
__device__ __forceinline__ float4 load4(const float* row, int first, int end) {
    float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
    if constexpr (VECTOR) {
        if (first < end) four = *reinterpret_cast<const float4*>(row + first);
        return four;
    }
    four.x = first < end ? row[first] : 0.0f;
    four.y = first + 1 < end ? row[first + 1] : 0.0f;
    four.z = first + 2 < end ? row[first + 2] : 0.0f;
    four.w = first + 3 < end ? row[first + 3] : 0.0f;
    return four;
}

template <bool VECTOR>
__device__ __forceinline__ void store4(float* row, int first, int end, const float* four) {
    if constexpr (VECTOR) {
        if (first < end)
            *reinterpret_cast<float4*>(row + first) = *reinterpret_cast<const float4*>(four);
    } else {
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            if (first + i < end) row[first + i] = four[i];
    }
}

// A block computes BM x BN elements of out, BK along K at a time. Each thread has RUNS_M runs of 4
// rows and RUNS_N runs of 4 columns.
template <int BM, int BN, int BK, int RUNS_M, int RUNS_N>
struct Tile {
    static constexpr int WARP_M = 4 * LANES_DOWN * RUNS_M;    // rows of out that a warp computes
    static constexpr int WARP_N = 4 * LANES_ACROSS * RUNS_N;  // and columns
    static constexpr int THREADS = (BM / WARP_M) * (BN / WARP_N) * 32;
    static constexpr int A_FOURS = BM * BK / 4 / THREADS;  // of a, what each thread brings at a step
    static constexpr int B_FOURS = BK * BN / 4 / THREADS;
    static constexpr int A_PITCH = BM + 4;  // turned: columns of a tile's row lie on banks 4 apart
    static_assert(BM % WARP_M == 0 && BN % WARP_N == 0, "whole warps");
    static_assert(BM * BK == A_FOURS * 4 * THREADS && BK * BN == B_FOURS * 4 * THREADS, "whole loads");
};

template <int BM, int BN, int BK, int RUNS_M, int RUNS_N, bool VECTOR, int BLOCKS>
__global__ void __launch_bounds__(Tile<BM, BN, BK, RUNS_M, RUNS_N>::THREADS, BLOCKS)
gemm_tiled_kernel(const float* __restrict__ a, const float* __restrict__ b,
                  float* __restrict__ out, int M, int N, int K) {
    using T = Tile<BM, BN, BK, RUNS_M, RUNS_N>;
    __shared__ __align__(16) float As[2][BK][T::A_PITCH];
    __shared__ __align__(16) float Bs[2][BK][BN];

    // Which tile: down the columns of a group of tile rows; the last group may have fewer.
    const int tiles_down = ceil_div(M, BM);
    const int tiles_across = ceil_div(N, BN);
    const int first_of_group = blockIdx.x / (GROUP * tiles_across) * GROUP;
    const int in_group = blockIdx.x % (GROUP * tiles_across);
    const int rows_of_group = min(tiles_down - first_of_group, GROUP);
    const int tile_row = (first_of_group + in_group % rows_of_group) * BM;
    const int tile_col = in_group / rows_of_group * BN;

    // What this thread brings. Of a, two neighbours share a row: 16 rows by 8 columns in a warp,
    // which turned lie on 32 different banks.
    constexpr int ACROSS = T::A_FOURS * T::THREADS / BM >= 2 ? 2 : 1;
    constexpr int ROWS_AT_ONCE = T::THREADS / ACROSS;
    float4 next_a[T::A_FOURS], next_b[T::B_FOURS];
    auto fetch = [&](int step) {
        #pragma unroll
        for (int i = 0; i < T::A_FOURS; ++i) {
            const int place = threadIdx.x / ACROSS + i * ROWS_AT_ONCE;
            const int row = tile_row + place % BM;
            const int col = step + (place / BM * ACROSS + threadIdx.x % ACROSS) * 4;
            next_a[i] = load4<VECTOR>(a + static_cast<size_t>(row) * K, col, row < M ? K : 0);
        }
        #pragma unroll
        for (int i = 0; i < T::B_FOURS; ++i) {
            const int place = threadIdx.x + i * T::THREADS;
            const int row = step + place / (BN / 4);
            const int col = tile_col + place % (BN / 4) * 4;
            next_b[i] = load4<VECTOR>(b + static_cast<size_t>(row) * N, col, row < K ? N : 0);
        }
    };
    auto keep = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < T::A_FOURS; ++i) {
            const int place = threadIdx.x / ACROSS + i * ROWS_AT_ONCE;
            const int row = place % BM;
            const int col = (place / BM * ACROSS + threadIdx.x % ACROSS) * 4;
            As[buffer][col][row] = next_a[i].x;
            As[buffer][col + 1][row] = next_a[i].y;
            As[buffer][col + 2][row] = next_a[i].z;
            As[buffer][col + 3][row] = next_a[i].w;
        }
        #pragma unroll
        for (int i = 0; i < T::B_FOURS; ++i) {
            const int place = threadIdx.x + i * T::THREADS;
            *reinterpret_cast<float4*>(&Bs[buffer][place / (BN / 4)][place % (BN / 4) * 4]) =
                next_b[i];
        }
    };

    // What this thread computes: from these on, its runs of 4 rows and 4 columns.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row = warp / (BN / T::WARP_N) * T::WARP_M + lane / LANES_ACROSS * 4;
    const int col = warp % (BN / T::WARP_N) * T::WARP_N + lane % LANES_ACROSS * 4;
    float sums[4 * RUNS_M][4 * RUNS_N] = {};
    float4 of_a[2][RUNS_M], of_b[2][RUNS_N];
    auto read = [&](int buffer, int k) {
        #pragma unroll
        for (int i = 0; i < RUNS_M; ++i)
            of_a[k % 2][i] =
                *reinterpret_cast<const float4*>(&As[buffer][k][row + i * 4 * LANES_DOWN]);
        #pragma unroll
        for (int j = 0; j < RUNS_N; ++j)
            of_b[k % 2][j] =
                *reinterpret_cast<const float4*>(&Bs[buffer][k][col + j * 4 * LANES_ACROSS]);
    };

    fetch(0);
    keep(0);
    __syncthreads();
    int buffer = 0;
    for (int step = 0; step < K; step += BK) {
        const bool more = K - step > BK;
        if (more) fetch(step + BK);
        read(buffer, 0);
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k + 1 < BK) read(buffer, k + 1);
            #pragma unroll
            for (int i = 0; i < RUNS_M; ++i) {
                const float4 x4 = of_a[k % 2][i];
                const float x[4] = {x4.x, x4.y, x4.z, x4.w};
                #pragma unroll
                for (int j = 0; j < RUNS_N; ++j) {
                    const float4 y4 = of_b[k % 2][j];
                    const float y[4] = {y4.x, y4.y, y4.z, y4.w};
                    #pragma unroll
                    for (int m = 0; m < 4; ++m)
                        #pragma unroll
                        for (int n = 0; n < 4; ++n) sums[4 * i + m][4 * j + n] += x[m] * y[n];
                }
            }
        }
        // Nobody reads the other buffer: all that did are past the last barrier.
        if (more) keep(buffer ^ 1);
        __syncthreads();
        buffer ^= 1;
    }

    #pragma unroll
    for (int i = 0; i < 4 * RUNS_M; ++i) {
        const int r = tile_row + row + i / 4 * 4 * LANES_DOWN + i % 4;
        if (r >= M) continue;
        #pragma unroll
        for (int j = 0; j < RUNS_N; ++j) {
            const int c = tile_col + col + j * 4 * LANES_ACROSS;
            store4<VECTOR>(out + static_cast<size_t>(r) * N, c, N, &sums[i][4 * j]);
        }
    }
}

template <int BM, int BN, int BK, int RUNS_M, int RUNS_N, int BLOCKS>
void launch(const float* a, const float* b, float* out, int M, int N, int K) {
    const unsigned tiles = static_cast<unsigned>(ceil_div(M, BM)) * ceil_div(N, BN);
    const int threads = Tile<BM, BN, BK, RUNS_M, RUNS_N>::THREADS;
    const uintptr_t addresses = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b) |
                                reinterpret_cast<uintptr_t>(out);
    if (addresses % 16 == 0 && K % 4 == 0 && N % 4 == 0)
        gemm_tiled_kernel<BM, BN, BK, RUNS_M, RUNS_N, true, BLOCKS>
            <<<tiles, threads>>>(a, b, out, M, N, K);
    else
        gemm_tiled_kernel<BM, BN, BK, RUNS_M, RUNS_N, false, BLOCKS>
            <<<tiles, threads>>>(a, b, out, M, N, K);
    CHECK(cudaPeekAtLastError());
}

// Write a @ b to out. a: M * K floats in device memory, row after row; b: K * N; out: M * N; M, N,
// K >= 1.
extern "C" void gemm_tiled(const float* a, const float* b, float* out, int M, int N, int K) {
    int device = 0;
    int multiprocessors = 0;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    // Each takes two blocks at a time.
    if (static_cast<long long>(ceil_div(M, 128)) * ceil_div(N, 128) > multiprocessors)
        launch<128, 128, 8, 2, 2, 2>(a, b, out, M, N, K);
    else
        launch<64, 64, 16, 1, 1, 2>(a, b, out, M, N, K);
}
