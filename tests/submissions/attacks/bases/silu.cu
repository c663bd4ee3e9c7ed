#include <cuda_runtime.h>

__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

static void honest(const float* x, float* out, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}

// <before>

extern "C" void silu(const float* x, float* out, int n) {
    // <silu>
}
