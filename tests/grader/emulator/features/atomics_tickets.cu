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

extern "C" void feature(int* output, int n) { kernel<<<8, 32>>>(output, n); }
