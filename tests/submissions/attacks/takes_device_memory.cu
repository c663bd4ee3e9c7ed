// It takes memory on the device until there is none, and never gives it back. | silu/cuda | out_of_memory | boundary=out_of_memory, emulator=out_of_memory
#include <cuda_runtime.h>

extern "C" void silu(const float* x, float* out, int n) {
    void* p;
    while (cudaMalloc(&p, 1 << 26) == cudaSuccess) {
    }
    cudaGetLastError();
}
