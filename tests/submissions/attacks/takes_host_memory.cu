// It takes memory on the host until there is none. | silu/cuda | out_of_memory | boundary=out_of_memory, emulator
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>

extern "C" void silu(const float* x, float* out, int n) {
    for (;;) {
        void* p = malloc(1 << 24);
        if (p) memset(p, 1, 1 << 24);
    }
}
