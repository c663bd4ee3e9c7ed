// It keeps results in a variable of the device and gives them out again. | silu/cuda | nondeterministic | emulator=nondeterministic, comparison=nondeterministic
#include <cuda_runtime.h>

__device__ float kept[65536];
__device__ int filled;

__global__ void silu_once(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (!filled) kept[i] = x[i] / (1.0f + expf(-x[i]));
    out[i] = kept[i];
}

__global__ void fill() { filled = 1; }

extern "C" void silu(const float* x, float* out, int n) {
    silu_once<<<(n + 255) / 256, 256>>>(x, out, n);
    fill<<<1, 1>>>();
}
