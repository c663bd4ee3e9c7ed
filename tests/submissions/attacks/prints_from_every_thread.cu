// Every thread of the device prints without end. | silu/cuda | timed_out | boundary=timed_out, emulator=timed_out
#include <cuda_runtime.h>

#include <cstdio>

__global__ void shout() {
    for (;;) printf("%d of block %d is here, and here, and here again\n", threadIdx.x, blockIdx.x);
}

extern "C" void silu(const float* x, float* out, int n) { shout<<<64, 64>>>(); }
