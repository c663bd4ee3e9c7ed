// Atomics: the block that draws the last ticket adds up, and resets the counter with a plain store

__device__ unsigned tickets = 0;
__device__ int parts[8];

__global__ void kernel(int* output, int n) {
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 1;
        __threadfence();
        if (atomicInc(&tickets, gridDim.x) == gridDim.x - 1) {
            __threadfence();
            int sum = 0;
            for (int i = 0; i < gridDim.x; i++) sum += ((volatile int*)parts)[i];
            for (int i = 0; i < n; i++) output[i] = sum == gridDim.x;
            tickets = 0;
        }
    }
}

// Another thread resets the counter than the one that drew: a barrier lies between the two.
__device__ unsigned drawn = 0;

__global__ void reset_by_another(int* output, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = 2;
        __threadfence();
        last = atomicAdd(&drawn, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    if (threadIdx.x == 63) drawn = 0;
    if (threadIdx.x != 40) return;
    int sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += ((volatile int*)parts)[i];
    for (int i = 0; i < n; i++) output[i] = output[i] && sum == 2 * gridDim.x;
}

extern "C" void feature(int* output, int n) {
    kernel<<<8, 32>>>(output, n);
    reset_by_another<<<8, 64>>>(output, n);
}
