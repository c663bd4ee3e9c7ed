// It takes memory on the host, and goes on asking when there is none. | silu/cuda | timed_out | boundary=timed_out, emulator=timed_out
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

extern "C" void silu(const float* x, float* out, int n) {
    for (;;) {
        void* p = malloc(1 << 24);
        if (p) memset(p, 1, 1 << 24);
    }
}
