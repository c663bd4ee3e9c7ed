// SiLU: output[i] = input[i] * sigmoid(input[i]).
//
// One thread for each element: the plainest kernel there is, and nearly the best one here. An
// element costs a handful of operations and moves 8 bytes (one float read, one written), so memory
// sets the time. Threads with neighbouring indices touch neighbouring elements: the 32 threads of a
// warp then ask for 128 bytes in a row, which is four sectors of 32 bytes with nothing wasted.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int BLOCK_SIZE = 256;  // threads of a block: a multiple of 32, at most 1024

// Says where a CUDA call failed, and why. A kernel launch returns nothing; it leaves its error to
// cudaPeekAtLastError(), which keeps it for whoever called us (cudaGetLastError() would clear it).
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// a / b rounded up, for a, b >= 1; (a + b - 1) / b would overflow for a near 2^31.
constexpr int ceil_div(int a, int b) { return (a - 1) / b + 1; }

// One thread computes one element; the last block may have fewer left.
__global__ void silu_kernel(const float* input, float* output, int n) {
    // BEGIN SOLUTION
    //| // TODO: which element is this thread's? blockIdx.x counts blocks, blockDim.x is how many
    //| //   threads each has, threadIdx.x counts within one.
    //| // TODO: blocks are whole, n is anything: the last block has threads without an element.
    //| // TODO: compute silu. Try x = -100 and x = 100 on paper: does anything become inf / inf?
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float x = input[i];
        // For very negative x expf overflows to infinity, and x / inf is the 0 we want. The form
        // x * exp(x) / (1 + exp(x)) overflows where x is large: inf / inf is nan.
        output[i] = x / (1.0f + expf(-x));
    }
    // END SOLUTION
}

// Write silu(input) to output. input, output: n floats each in device memory, n >= 1.
extern "C" void silu(const float* input, float* output, int n) {
    // BEGIN SOLUTION
    //| // TODO: launch enough blocks to cover n elements: which way must the division round?
    //| //   silu_kernel<<<number of blocks, BLOCK_SIZE>>>(input, output, n);
    //| // TODO: CHECK what cudaPeekAtLastError() says.
    const int blocks = ceil_div(n, BLOCK_SIZE);
    silu_kernel<<<blocks, BLOCK_SIZE>>>(input, output, n);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
