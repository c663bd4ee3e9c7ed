// SiLU with a bounded number of blocks: each thread takes every so-manyth element.

#include <cstdio>
#include <cuda_runtime.h>

#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__global__ void silu_kernel(const float* input, float* output, int n) {
    int stride = blockDim.x * gridDim.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (i < n) {
        output[i] = input[i] * sigmoid(input[i]);
        i += stride;
    }
}

extern "C" void silu(const float* input, float* output, int n) {
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    if (blocks > 32) blocks = 32;
    silu_kernel<<<blocks, threads>>>(input, output, n);
    CHECK(cudaPeekAtLastError());
}
