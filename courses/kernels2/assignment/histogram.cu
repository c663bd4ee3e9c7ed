// Histogram: counts[b] is how often b stands in x.
//
// Any thread may meet any number, so counters are shared, and each addition is an atomic. Two ways:
//
//   histogram_global   an atomic in global memory for each element
//   histogram_shared   a block counts in shared memory, then adds its counters to the global ones
//
// Method: privatisation, as in the CUDA C++ Best Practices Guide, "Shared Memory".

#include <cstdio>
#include <cuda_runtime.h>

constexpr int BLOCK_SIZE = 256;
constexpr int PER_THREAD = 8;  // elements, a whole block apart

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

static int ceil_div(int n, int size) { return n / size + (n % size != 0); }

// --- an atomic for each element ------------------------------------------------------------------

__global__ void histogram_global_kernel(const int* x, int* counts, int n) {
    // TODO: one element for each thread; those beyond n count nothing.
    // TODO: atomicAdd to the counter that the element names.
}

// Write to counts how often each number stands in x. x: n ints from 0 to bins - 1, counts: bins
// ints, in device memory; n >= 0, bins >= 1. What counts has before the call means nothing.
extern "C" void histogram_global(const int* x, int* counts, int n, int bins) {
    // TODO: all counters must be 0 before the first thread adds: cudaMemsetAsync, in bytes.
    // TODO: launch enough blocks, if any.
}

// --- counters of a block -------------------------------------------------------------------------

__global__ void histogram_shared_kernel(const int* x, int* counts, int n, int bins) {
    // TODO: extern __shared__ int block_counts[]: its bytes are the launch's third number.
    // TODO: set it to 0 together: there can be more counters than threads.
    // TODO: PER_THREAD elements for each thread, neighbours to neighbouring threads; count
    //   them in shared memory. Where must __syncthreads() stand?
    // TODO: add the block's counters to counts. Those that are 0 needn't be.
}

// As histogram_global; the counters of a block are in shared memory, so bins <= 4096.
extern "C" void histogram_shared(const int* x, int* counts, int n, int bins) {
    // TODO: as before, with shared memory for bins counters.
}
