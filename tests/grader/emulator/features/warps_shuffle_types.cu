// Warps: shuffles of int, unsigned, long long, float, double, half, half2, bfloat16

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__device__ bool exchanged(T value, T wanted) {
    return __shfl_xor_sync(0xffffffffu, value, 1) == wanted;
}

__global__ void kernel(int* output) {
    const int lane = threadIdx.x % 32, other = lane ^ 1;
    bool right = exchanged(lane, other);
    right &= exchanged((unsigned)lane, (unsigned)other);
    right &= exchanged((long long)lane << 40, (long long)other << 40);
    right &= exchanged((unsigned long long)lane, (unsigned long long)other);
    right &= exchanged((float)lane, (float)other);
    right &= exchanged(lane / 3.0, other / 3.0);
    right &= exchanged(__int2half_rn(lane), __int2half_rn(other));
    right &= exchanged(__floats2half2_rn(lane, -lane), __floats2half2_rn(other, -other));
    right &= exchanged(__float2bfloat16(lane), __float2bfloat16(other));
    output[threadIdx.x] = right;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
