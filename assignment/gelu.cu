// GELU, by its tanh approximation: the worked example, complete. Read it beside gelu.py.
//
//     gelu(x) = x / 2 * (1 + tanh(u)),   u = sqrt(2 / pi) * (x + 0.044715 * x^3)
//
// What every exercise has is here: a kernel that computes one element per thread and keeps within
// the tensor, a launcher that covers all elements, and a check for errors.
//
// (1 + tanh(u)) / 2 is sigmoid(2u), so gelu(x) = x / (1 + exp(-2u)): one exponential, and right for
// every x. Often tanh is written (exp(2u) - 1) / (exp(2u) + 1): from x = 10.1 on that is inf / inf,
// a nan, in float32.

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

// One thread computes one element.
__global__ void gelu_kernel(const float* input, float* output, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    // Blocks are whole, n is anything: threads of the last block may have no element.
    if (i < n) {
        const float x = input[i];
        const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
        // For very negative x expf overflows to infinity, and x / inf is the 0 we want.
        output[i] = x / (1.0f + expf(-2.0f * u));
    }
}

// Write gelu(input) to output. input, output: n floats each in device memory, n >= 1.
extern "C" void gelu(const float* input, float* output, int n) {
    const int blocks = ceil_div(n, BLOCK_SIZE);
    gelu_kernel<<<blocks, BLOCK_SIZE>>>(input, output, n);
    CHECK(cudaPeekAtLastError());
}
