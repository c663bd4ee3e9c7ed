// Language: launches in one, two and three dimensions, with shared memory and stream

__global__ void kernel(int* output, int n) {
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const int i = block * blockDim.x * blockDim.y * blockDim.z + thread;
    if (i < n) output[i] = warpSize == 32;
}

extern "C" void feature(int* output, int n) {
    const dim3 grid(2, 2, 2), block(2, 2, 2);
    kernel<<<grid, block>>>(output, n);
    kernel <<< n / 16, dim3(4, 4) >>> (output, n);
    kernel<<<dim3{4}, {16, 1, 1}, 128>>>(output, n);
    kernel<<<1,
             n,  // >>>
             0, cudaStreamDefault>>>(output, n);
}
