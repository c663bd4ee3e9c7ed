// Device input and output: printf, assert, clock64, __nanosleep

#include <cassert>
#include <cstdio>

__global__ void kernel(int* output, int n) {
    assert(threadIdx.x < n);
    const long long start = clock64();
    int arguments = 4;
    if (threadIdx.x == 0) {
        arguments = printf("block %u of %u, %s %.2f\n", blockIdx.x, gridDim.x, "value", 1.5);
        arguments += printf("all of %*d%%\n", 4, 100) - 2 + printf("%%\n");
    }
    __nanosleep(10);
    output[threadIdx.x] = clock64() >= start && arguments == 4;
}

extern "C" void feature(int* output, int n) {
    if (printf("host %d\n", n) != 8) return;
    kernel<<<1, n>>>(output, n);
}
