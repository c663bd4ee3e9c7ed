// It stores its results byte by byte through %n of printf, where no store would be seen. | silu/cuda | not_written | comparison=not_written, emulator=not_written
#include <cstdio>
#include <cuda_runtime.h>

__global__ void silu_kernel(const float* x, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned bits = __float_as_uint(x[i] / (1.0f + expf(-x[i])));
    // A character that no locale has: the C library gives up behind it, and counts nothing as printed.
    const wchar_t none[] = {(wchar_t)0x7fffffff, 0};
    for (int byte = 0; byte < 4; ++byte) {
        printf("%*s%hhn%ls", (int)(bits >> 8 * byte & 255), "", (signed char*)(out + i) + byte, none);
    }
}

extern "C" void silu(const float* x, float* out, int n) {
    silu_kernel<<<(n + 255) / 256, 256>>>(x, out, n);
}
