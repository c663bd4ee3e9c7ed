// A constructor never returns, so that the process is never ready. | silu/cuda | policy_violation | policy, emulator=policy_violation, boundary=import_error
#include <cuda_runtime.h>

__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

static void honest(const float* x, float* out, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}

__attribute__((constructor)) static void wait_for_ever() {
    for (volatile int i = 0;; i = 1) {
    }
}

extern "C" void silu(const float* x, float* out, int n) { honest(x, out, n); }
