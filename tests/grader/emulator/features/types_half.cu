// Types: half: conversions, operators, intrinsics, comparisons, functions

#include <cuda_fp16.h>

__global__ void kernel(int* output) {
    const half one = __float2half(1.0f), third = __float2half(1.0f / 3.0f);
    half sum = one + third * __float2half(3.0f);
    sum += one;
    bool right = __half2float(sum) == 3.0f && (float)third == 0.333251953125f;
    right &= __half_as_ushort(one) == 0x3c00 && __heq(__hadd(one, one), half(2.0f));
    right &= __hgt(one, third) && third < one && __hisnan(__hdiv(half(0), half(0)));
    right &= __half2float(__hfma(one, one, one)) == 2.0f && (float)hsqrt(half(4.0f)) == 2.0f;
    right &= (float)hexp(half(0.0f)) == 1.0f && (float)__hmax(one, third) == 1.0f;
    right &= __half2int_rz(half(-2.75f)) == -2 && (float)__int2half_rn(2049) == 2048.0f;
    right &= __float2half(65520.0f) == CUDART_INF_FP16 && (float)-one == -1.0f;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
