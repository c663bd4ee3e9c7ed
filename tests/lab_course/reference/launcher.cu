#include "blocks.cuh"
#include "helper.cuh"

extern "C" void scale_f32(const float* x, float* out, int n) {
    scale_kernel<<<blocks_for(n), THREADS>>>(x, out, n);
}

extern "C" void scale_f16(const __half* x, __half* out, int n) {
    scale_kernel<<<blocks_for(n), THREADS>>>(x, out, n);
}
