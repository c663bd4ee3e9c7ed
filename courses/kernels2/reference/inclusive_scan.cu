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

// BEGIN SOLUTION
//| // TODO: the scan over a warp by __shfl_up_sync. A thread whose neighbour would be before the
//| //   warp's first adds nothing, and takes part in the shuffle nevertheless.
//| // TODO: the scan over a block: warps scan, the last thread of each puts the warp's sum into
//| //   shared memory, the first warp scans these, and every thread adds the sum of the warps
//| //   before its own. All in long long.
//| // TODO: the three kernels.

// The inclusive scan over the warp's 32 threads. All of them must call it.
__device__ long long warp_scan(long long value) {
    const int lane_id = threadIdx.x % WARP_SIZE;
    for (int offset = 1; offset < WARP_SIZE; offset *= 2) {
        const long long before = __shfl_up_sync(0xffffffff, value, offset);
        if (lane_id >= offset) value += before;
    }
    return value;
}

// The inclusive scan over the block's threads; total is the sum of all. All threads must call it.
__device__ long long block_scan(long long value, long long& total) {
    __shared__ long long warp_sums[WARPS];
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int warp_id = threadIdx.x / WARP_SIZE;

    value = warp_scan(value);
    __syncthreads();  // a call before this one may still be reading warp_sums
    if (lane_id == WARP_SIZE - 1) warp_sums[warp_id] = value;
    __syncthreads();
    if (warp_id == 0) {
        const long long scanned = warp_scan(lane_id < WARPS ? warp_sums[lane_id] : 0);
        if (lane_id < WARPS) warp_sums[lane_id] = scanned;
    }
    __syncthreads();
    total = warp_sums[WARPS - 1];
    return warp_id > 0 ? value + warp_sums[warp_id - 1] : value;
}

__global__ void block_sums_kernel(const int* x, long long* sums, int n) {
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK_SIZE + threadIdx.x;
    long long total;
    block_scan(i < n ? x[i] : 0, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// One block replaces the sums by their inclusive scan, BLOCK_SIZE of them at a time.
__global__ void scan_sums_kernel(long long* sums, int n_blocks) {
    long long carry = 0;
    for (int start = 0; start < n_blocks; start += BLOCK_SIZE) {
        const int i = start + threadIdx.x;
        long long total;
        const long long scanned = block_scan(i < n_blocks ? sums[i] : 0, total);
        if (i < n_blocks) sums[i] = carry + scanned;
        carry += total;
    }
}

__global__ void scan_blocks_kernel(const int* x, const long long* sums, long long* out, int n) {
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK_SIZE + threadIdx.x;
    long long total;
    const long long scanned = block_scan(i < n ? x[i] : 0, total);
    const long long before = blockIdx.x > 0 ? sums[blockIdx.x - 1] : 0;
    if (i < n) out[i] = before + scanned;
}
// END SOLUTION

// Write the inclusive scan of x to out. x: n ints, out: n 64-bit integers, in device memory.
// n >= 0.
extern "C" void inclusive_scan(const int* x, long long* out, int n) {
    // BEGIN SOLUTION
    //| // TODO: memory for the sums of blocks: cudaMalloc, and cudaFree at the end.
    //| // TODO: the three launches. n may be 0.
    if (n == 0) return;
    const int n_blocks = (n - 1) / BLOCK_SIZE + 1;
    long long* sums = nullptr;
    CHECK(cudaMalloc(&sums, n_blocks * sizeof(long long)));
    block_sums_kernel<<<n_blocks, BLOCK_SIZE>>>(x, sums, n);
    scan_sums_kernel<<<1, BLOCK_SIZE>>>(sums, n_blocks);
    scan_blocks_kernel<<<n_blocks, BLOCK_SIZE>>>(x, sums, out, n);
    CHECK(cudaPeekAtLastError());
    CHECK(cudaFree(sums));
    // END SOLUTION
}
