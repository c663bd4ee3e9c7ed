// Types: bfloat16 and its pair: conversions, operators, intrinsics

#include <cuda_bf16.h>

__global__ void kernel(int* output) {
    const __nv_bfloat16 one = __float2bfloat16(1.0f), small = __float2bfloat16(1.0f / 256.0f);
    bool right = __bfloat162float(one + small) == 1.0f;  // a tie goes to even
    right &= __bfloat162float(__hadd(one, __float2bfloat16(1.0f / 128.0f))) == 1.0078125f;
    right &= __bfloat16_as_ushort(one) == 0x3f80 && small < one && (float)(one * small) == 1.0f / 256.0f;
    __nv_bfloat162 pair = __floats2bfloat162_rn(1.0f, 2.0f);
    pair = __hfma2(pair, pair, pair);
    right &= __low2float(pair) == 2.0f && __high2float(pair) == 6.0f;
    right &= __bfloat1622float2(__hmul2(pair, pair)).y == 36.0f;
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
