// Embedding: out[i] = table[index[i]].
//
// A thread for each element of out: neighbouring threads copy neighbours of a row, and those of a
// row load the same index, which is one sector for all of them.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int BLOCK_SIZE = 256;

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

__global__ void embedding_kernel(const float* table, const long long* index, float* out, int n,
                                 int D) {
    // BEGIN SOLUTION
    //| // TODO: which element of out is this thread's? n * D can be beyond an int.
    //| // TODO: its row's index, and the element of that row of the table.
    const size_t i = static_cast<size_t>(blockIdx.x) * BLOCK_SIZE + threadIdx.x;
    if (i >= static_cast<size_t>(n) * D) return;
    const long long row = index[i / D];
    out[i] = table[row * D + i % D];
    // END SOLUTION
}

// Write the rows of table that index names to out. table: V * D floats in device memory, row after
// row; index: n 64-bit integers from 0 to V - 1; out: n * D floats; n >= 0, D >= 1.
extern "C" void embedding(const float* table, const long long* index, float* out, int n, int D) {
    // BEGIN SOLUTION
    //| // TODO: a thread for each element of out; n may be 0.
    const size_t elements = static_cast<size_t>(n) * D;
    if (elements == 0) return;
    embedding_kernel<<<(elements - 1) / BLOCK_SIZE + 1, BLOCK_SIZE>>>(table, index, out, n, D);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
