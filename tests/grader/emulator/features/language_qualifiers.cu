// Language: __launch_bounds__, __restrict__, __forceinline__, __noinline__, __align__, __builtin_assume, #pragma unroll

struct __align__(16) Aligned {
    float x;
};
__device__ __forceinline__ int inlined(int x) { return x + 1; }
__device__ __noinline__ int called(int x) { return x + 1; }

__global__ void __launch_bounds__(64, 2)
    kernel(int* __restrict__ output, const __grid_constant__ int one) {
    __builtin_assume(one > 0);
    int sum = 0;
#pragma unroll 4
    for (int i = 0; i < 8; i++) sum += inlined(called(i));
    output[threadIdx.x] = sum == 44 && sizeof(Aligned) == 16 && one == 1;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output, 1); }
