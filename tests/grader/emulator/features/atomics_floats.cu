// Atomics: atomicAdd on float, double, half, half2, bfloat16, float2, float4; atomicExch on float

#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct Sums {
    float4 f4;
    float2 f2;
    double d;
    float f, exchanged;
    __half2 h2;
    __half h;
    __nv_bfloat16 b;
};

__global__ void kernel(Sums* sums) {
    atomicAdd(&sums->f, 0.5f);
    atomicAdd(&sums->d, 0.25);
    atomicAdd(&sums->h, __float2half(1.0f));
    atomicAdd(&sums->h2, __floats2half2_rn(1.0f, 2.0f));
    atomicAdd(&sums->b, __float2bfloat16(2.0f));
    atomicAdd(&sums->f2, make_float2(1.0f, 2.0f));
    atomicAdd(&sums->f4, make_float4(1.0f, 2.0f, 3.0f, 4.0f));
    atomicExch(&sums->exchanged, 3.0f);
}
__global__ void check(int* output, const Sums* sums) {
    const Sums s = *sums;
    bool right = s.f == 32.0f && s.d == 16.0 && __half2float(s.h) == 64.0f && s.exchanged == 3.0f;
    right &= __high2float(s.h2) == 128.0f && __bfloat162float(s.b) == 128.0f;
    right &= s.f2.y == 128.0f && s.f4.w == 256.0f;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) {
    Sums* sums = nullptr;
    cudaMalloc(&sums, sizeof(Sums));
    cudaMemset(sums, 0, sizeof(Sums));
    kernel<<<1, 64>>>(sums);
    check<<<1, n>>>(output, sums);
    cudaFree(sums);
}
