// Copies the first column of a matrix in host memory to device memory.
//
// The column's elements lie cols floats apart. A copy between host and device costs some
// microseconds before the first byte moves: as long as some 100 KB of data take. So few copies and
// few bytes are both wanted, and here they don't contradict each other.

#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// Write h_A[i * cols], the first element of row i, to d_A[i], for every i < rows. h_A: rows * cols
// floats in host memory, row after row; d_A: rows floats in device memory; rows, cols >= 1.
extern "C" void copy_first_column(const float* h_A, float* d_A, int rows, int cols) {
    // TODO: d_A can't be written here: it is an address of the device's. cudaMemcpy can:
    //   CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
    // TODO: a copy for each element is right, and slow. How few copies can do it, and without
    //   moving the whole matrix? (cudaMemcpy takes bytes that lie side by side. You may put
    //   them there first; or look at cudaMemcpy2D.)
}
