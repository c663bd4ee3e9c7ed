// Atomics: in shared memory; the _block and _system variants

__global__ void kernel(int* output) {
    __shared__ int count[2];
    if (threadIdx.x < 2) count[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd_block(&count[threadIdx.x % 2], 1);
    atomicAdd_system(&count[threadIdx.x % 2], 1);
    __syncthreads();
    output[threadIdx.x] = count[0] == blockDim.x && count[1] == blockDim.x;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
