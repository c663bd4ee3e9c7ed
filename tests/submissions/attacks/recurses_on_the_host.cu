// It calls itself without end. | silu/cuda | crashed | boundary=crashed, emulator=crashed
#include <cuda_runtime.h>

static int deep(volatile int* p) {
    volatile int here[64];
    here[0] = *p + 1;
    return deep(here) + here[0];
}

extern "C" void silu(const float* x, float* out, int n) {
    volatile int start = n;
    deep(&start);
}
