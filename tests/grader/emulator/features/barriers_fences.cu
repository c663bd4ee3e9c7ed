// Barriers: __threadfence and its variants; the last block to finish does the rest

__device__ unsigned finished;

__global__ void kernel(int* partial, int* output, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = 1;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence_block();
        int sum = 0;
        for (int i = 0; i < gridDim.x; i++) sum += partial[i];
        for (int i = threadIdx.x; i < n; i += blockDim.x) output[i] = sum == gridDim.x;
    }
    __threadfence_system();
}

extern "C" void feature(int* output, int n) {
    int* partial = nullptr;
    cudaMalloc(&partial, 4 * sizeof(int));
    kernel<<<4, 32>>>(partial, output, n);
    cudaFree(partial);
}
