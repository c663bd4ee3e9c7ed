// Types: half2: intrinsics and operators, loads of two values at once

#include <cuda_fp16.h>

__global__ void kernel(int* output, half2* values) {
    half2 v = values[threadIdx.x];
    v = __hfma2(v, __float2half2_rn(2.0f), __halves2half2(half(1.0f), half(0.0f)));
    v = __hadd2(v, v) - __half2half2(half(1.0f));
    const float2 f = __half22float2(v);
    bool right = f.x == 5.0f && f.y == 7.0f && __low2float(v) == 5.0f && __hbeq2(v, v);
    right &= __half2float(__high2half(__lowhigh2highlow(v))) == 5.0f;
    right &= (float)h2sqrt(make_half2(half(4.0f), half(9.0f))).y == 3.0f;
    output[threadIdx.x] = right;
}
__global__ void fill(half2* values) { values[threadIdx.x] = __floats2half2_rn(1.0f, 2.0f); }

extern "C" void feature(int* output, int n) {
    half2* values = nullptr;
    cudaMalloc(&values, n * sizeof(half2));
    fill<<<1, n>>>(values);
    kernel<<<1, n>>>(output, values);
    cudaFree(values);
}
