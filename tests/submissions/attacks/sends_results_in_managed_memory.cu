// It has kernels fill managed memory, computes there on the host, and gives that back. | silu/cuda | wrong_values | comparison=wrong_values
#include <cuda_runtime.h>

#include <cmath>

__global__ void take(const float* from, float* to, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}

extern "C" void silu(const float* x, float* out, int n) {
    float* shared = nullptr;
    cudaMallocManaged(&shared, n * sizeof(float));
    take<<<(n + 255) / 256, 256>>>(x, shared, n);
    cudaDeviceSynchronize();
    for (int i = 0; i < n; ++i) shared[i] = shared[i] / (1.0f + std::exp(-shared[i]));
    take<<<(n + 255) / 256, 256>>>(shared, out, n);
    cudaDeviceSynchronize();
    cudaFree(shared);
}
