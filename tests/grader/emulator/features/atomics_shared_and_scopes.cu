// Atomics: in shared memory; the _block and _system variants; a loop around atomicCAS

__device__ float atomic_max(float* p, float value) {
    int old = __float_as_int(*p), assumed;
    do {
        assumed = old;
        old = atomicCAS((int*)p, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void kernel(int* output) {
    __shared__ int count[2];
    __shared__ float largest;
    if (threadIdx.x < 2) count[threadIdx.x] = 0;
    if (threadIdx.x == 0) largest = -1.0f;
    __syncthreads();
    atomicAdd_block(&count[threadIdx.x % 2], 1);
    atomicAdd_system(&count[threadIdx.x % 2], 1);
    atomic_max(&largest, threadIdx.x);
    __syncthreads();
    output[threadIdx.x] = count[0] == blockDim.x && count[1] == blockDim.x && largest == blockDim.x - 1;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
