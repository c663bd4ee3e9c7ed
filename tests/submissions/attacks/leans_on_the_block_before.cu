// Each block takes from memory, by atomics alone, what the one before it has left there. | silu/cuda | nondeterministic | comparison=nondeterministic
#include <cuda_runtime.h>

__device__ float left_there[1 << 22];

__global__ void silu_kernel(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicExch(&left_there[i], x[i] / (1.0f + expf(-x[i])));
    // Nothing says that the block before this one has run; by the order of numbers it has.
    int taken = i - blockDim.x;
    if (taken >= 0 && taken < n) out[taken] = atomicAdd(&left_there[taken], 0.0f);
}

extern "C" void silu(const float* x, float* out, int n) {
    silu_kernel<<<(n + 127) / 128 + 1, 128>>>(x, out, n);
}
