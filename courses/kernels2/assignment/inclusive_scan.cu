// Inclusive scan: out[i] = x[0] + x[1] + ... + x[i].
//
// What a block needs of everything before it is one number. So there are three launches: the sums
// of the blocks, the scan of these sums by one block, and each block's own scan with what came
// before. Within a warp the scan is five steps of shuffles: at each, a thread adds what the thread
// 1, 2, 4, 8, 16 places before it has (Hillis and Steele, "Data Parallel Algorithms", 1986).

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

// TODO: the scan over a warp by __shfl_up_sync. A thread whose neighbour would be before the
//   warp's first adds nothing, and takes part in the shuffle nevertheless.
// TODO: the scan over a block: warps scan, the last thread of each puts the warp's sum into
//   shared memory, the first warp scans these, and every thread adds the sum of the warps
//   before its own. All in long long.
// TODO: the three kernels.

// Write the inclusive scan of x to out. x: n ints, out: n 64-bit integers, in device memory.
// n >= 0.
extern "C" void inclusive_scan(const int* x, long long* out, int n) {
    // TODO: memory for the sums of blocks: cudaMalloc, and cudaFree at the end.
    // TODO: the three launches. n may be 0.
}
