// Language: __global__, __device__, __host__ and __host__ __device__ functions

__device__ int twice(int x) { return 2 * x; }
__host__ __device__ constexpr int next(int x) { return x + 1; }
__host__ int host_only(int x) { return x - 1; }
static __device__ __inline__ int half_of(int x) { return x / 2; }

__global__ void kernel(int* output, int n, int seven) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) output[i] = twice(next(half_of(4))) == 6 && seven == 7;
}

extern "C" void feature(int* output, int n) {
    kernel<<<(n + 31) / 32, 32>>>(output, n, host_only(next(7)));
}
