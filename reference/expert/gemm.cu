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
//                               amid them; one barrier for each step, instead of two
//   fragments of k + 1          are read before the products of k, for the same reason
//   As is stored turned         so that a thread's rows lie side by side, 16 bytes at a time
//   tiles in groups             of 8 tile rows, which share b in the L2 cache
//
// Then what is left beside multiply-adds in the loop, and what makes one of those take two cycles:
//
//   no bounds in the loop       what K leaves over of whole steps comes first, before the loop, and
//                               rows and columns beyond the matrix are read as the last one: nobody
//                               stores what they give. Addresses only move on: of 572 instructions
//                               512 are multiply-adds (cuobjdump -sass), with bounds 512 of 612
//   products column by column,  a multiply-add reads three registers, and each of the two banks, of
//   to and fro                  odd and of even ones, gives one in a cycle. A register of b serves
//                               8 products running, out of the operand cache (SASS: .reuse);
//                               at the turn the one of a does. 16 of 100 still take two of a bank,
//                               by blocks of 4 x 4 it was 73
//
// Measured at 4096^3, of cuBLAS's speed (one H100, 25 rounds in turn with it): 0.72 with bounds in the
// loop and blocks of 4 x 4, 0.98 like this. The order of the products alone is worth 1 to 5 %: where
// half of them take two of a bank 0.975 for 0.983, where two thirds do 0.926 for 0.976. Two steps in
// the loop, or 16 deep, or 8 x 16 sums in a thread: 0.98, 0.98 and 0.93. With a warp's lanes in rows
// of 8, instead of two by two, 1 % faster here and 5 % slower at 4095 x 4097 x 4093.
//
// Each thread has its 8 rows as two runs of 4, 16 apart, and its 8 columns as two runs of 4, 32
// apart: so a warp reads 128 bytes side by side, from 32 different banks.
//
// Small matrices have too few tiles of 128 x 128 for all multiprocessors. They get tiles of 64 x 64,
// by the same code.

#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int GROUP = 8;       // tile rows of a group
constexpr int LANES_DOWN = 4;  // the threads of a warp: 4 rows
constexpr int LANES_ACROSS = 8;
constexpr int NEXT_AT = 4;  // before which k of a step the next one's tiles go to shared memory

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

// Four neighbouring columns that may lie beyond the last: then they are the last ones, once more.
template <bool VECTOR>
struct Columns {
    int at[4] = {0, 1, 2, 3};
    Columns() = default;
    __device__ Columns(int first, int end) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) at[i] = min(first + i, VECTOR ? end - 4 + i : end - 1);
    }
    __device__ __forceinline__ float4 of(const float* row) const {
        if constexpr (VECTOR) return *reinterpret_cast<const float4*>(row + at[0]);
        return {row[at[0]], row[at[1]], row[at[2]], row[at[3]]};
    }
};

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
    static constexpr int A_SIZE = BK * A_PITCH;
    static constexpr int BUFFER = A_SIZE + BK * BN;  // floats: a's, then b's
    static_assert(BM % WARP_M == 0 && BN % WARP_N == 0, "whole warps");
    static_assert(BM * BK == A_FOURS * 4 * THREADS && BK * BN == B_FOURS * 4 * THREADS, "whole loads");
};

template <int BM, int BN, int BK, int RUNS_M, int RUNS_N, bool VECTOR, int BLOCKS>
__global__ void __launch_bounds__(Tile<BM, BN, BK, RUNS_M, RUNS_N>::THREADS, BLOCKS)
gemm_tiled_kernel(const float* __restrict__ a, const float* __restrict__ b,
                  float* __restrict__ out, int M, int N, int K) {
    using T = Tile<BM, BN, BK, RUNS_M, RUNS_N>;
    __shared__ __align__(16) float buffers[2 * T::BUFFER];

    // Which tile: down the columns of a group of tile rows; the last group may have fewer.
    const int tiles_down = ceil_div(M, BM);
    const int tiles_across = ceil_div(N, BN);
    const int first_of_group = blockIdx.x / (GROUP * tiles_across) * GROUP;
    const int in_group = blockIdx.x % (GROUP * tiles_across);
    const int rows_of_group = min(tiles_down - first_of_group, GROUP);
    const int tile_row = (first_of_group + in_group % rows_of_group) * BM;
    const int tile_col = in_group / rows_of_group * BN;

    // What this thread brings. Of a, two neighbours share a row: 16 rows by 8 columns in a warp,
    // which turned lie on 32 different banks. First what K leaves over of whole steps, or one.
    constexpr int ACROSS = T::A_FOURS * T::THREADS / BM >= 2 ? 2 : 1;
    constexpr int ROWS_AT_ONCE = T::THREADS / ACROSS;
    constexpr int B_ROWS_AT_ONCE = T::THREADS / (BN / 4);
    const int rest = (K - 1) % BK + 1;
    const float* from_a[T::A_FOURS];
    float4 next_a[T::A_FOURS], next_b[T::B_FOURS];
    #pragma unroll
    for (int i = 0; i < T::A_FOURS; ++i) {
        const int place = threadIdx.x / ACROSS + i * ROWS_AT_ONCE;
        const int col = (place / BM * ACROSS + threadIdx.x % ACROSS) * 4;
        from_a[i] = a + static_cast<size_t>(min(tile_row + place % BM, M - 1)) * K;
        next_a[i] = load4<VECTOR>(from_a[i], col, rest);
        from_a[i] += rest + col;
    }
    const int b_row = threadIdx.x / (BN / 4);
    const int b_col = tile_col + threadIdx.x % (BN / 4) * 4;
    #pragma unroll
    for (int i = 0; i < T::B_FOURS; ++i) {
        const int k = b_row + i * B_ROWS_AT_ONCE;
        next_b[i] = load4<VECTOR>(b + static_cast<size_t>(k) * N, b_col, k < rest ? N : 0);
    }
    const Columns<VECTOR> columns(b_col, N);
    const float* from_b = b + static_cast<size_t>(rest + b_row) * N;
    auto fetch = [&]() {
        #pragma unroll
        for (int i = 0; i < T::A_FOURS; ++i) {
            next_a[i] = Columns<VECTOR>().of(from_a[i]);
            from_a[i] += BK;
        }
        #pragma unroll
        for (int i = 0; i < T::B_FOURS; ++i)
            next_b[i] = columns.of(from_b + static_cast<size_t>(i * B_ROWS_AT_ONCE) * N);
        from_b += static_cast<size_t>(BK) * N;
    };
    auto keep = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < T::A_FOURS; ++i) {
            const int place = threadIdx.x / ACROSS + i * ROWS_AT_ONCE;
            const int col = (place / BM * ACROSS + threadIdx.x % ACROSS) * 4;
            float* to = buffers + buffer + col * T::A_PITCH + place % BM;
            to[0] = next_a[i].x;
            to[T::A_PITCH] = next_a[i].y;
            to[2 * T::A_PITCH] = next_a[i].z;
            to[3 * T::A_PITCH] = next_a[i].w;
        }
        #pragma unroll
        for (int i = 0; i < T::B_FOURS; ++i) {
            const int place = threadIdx.x + i * T::THREADS;
            *reinterpret_cast<float4*>(buffers + buffer + T::A_SIZE + place * 4) = next_b[i];
        }
    };

    // What this thread computes: from these on, its runs of 4 rows and 4 columns.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int row = warp / (BN / T::WARP_N) * T::WARP_M + (lane / 16 * 2 + lane % 2) * 4;
    const int col = warp % (BN / T::WARP_N) * T::WARP_N + lane / 2 % LANES_ACROSS * 4;
    float sums[4 * RUNS_M][4 * RUNS_N] = {};
    float of_a[2][4 * RUNS_M], of_b[2][4 * RUNS_N];
    auto read = [&](int buffer, int k) {
        const float* a_row = buffers + buffer + k * T::A_PITCH + row;
        const float* b_row = buffers + buffer + T::A_SIZE + k * BN + col;
        #pragma unroll
        for (int i = 0; i < RUNS_M; ++i)
            *reinterpret_cast<float4*>(&of_a[k % 2][4 * i]) =
                *reinterpret_cast<const float4*>(a_row + i * 4 * LANES_DOWN);
        #pragma unroll
        for (int j = 0; j < RUNS_N; ++j)
            *reinterpret_cast<float4*>(&of_b[k % 2][4 * j]) =
                *reinterpret_cast<const float4*>(b_row + j * 4 * LANES_ACROSS);
    };
    auto step = [&](int buffer, bool more) {
        if (more) fetch();
        read(buffer, 0);
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Nobody reads the other buffer: all that did are past the last barrier.
            if (k == NEXT_AT && more) keep(T::BUFFER - buffer);
            if (k + 1 < BK) read(buffer, k + 1);
            #pragma unroll
            for (int j = 0; j < 4 * RUNS_N; ++j)
                #pragma unroll
                for (int i = 0; i < 4 * RUNS_M; ++i) {
                    const int m = j % 2 ? 4 * RUNS_M - 1 - i : i;  // down, then up
                    sums[m][j] += of_a[k % 2][m] * of_b[k % 2][j];
                }
        }
    };

    keep(0);
    __syncthreads();
    int buffer = 0;  // where it begins: at 0 or BUFFER
    #pragma unroll 1
    for (int left = ceil_div(K, BK) - 1; left > 0; --left) {
        step(buffer, true);
        __syncthreads();
        buffer = T::BUFFER - buffer;
    }
    step(buffer, false);

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
