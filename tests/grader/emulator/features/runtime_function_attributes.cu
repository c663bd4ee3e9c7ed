// Runtime: cudaFuncSetAttribute for more than 48 KB of dynamic shared memory; occupancy

__global__ void kernel(int* output, int n) {
    extern __shared__ int values[];
    values[threadIdx.x + 16 * 1024] = 1;
    __syncthreads();
    output[threadIdx.x] = values[n - 1 - threadIdx.x + 16 * 1024];
}

extern "C" void feature(int* output, int n) {
    const int bytes = 16 * 1024 * 4 + n * 4;
    int blocks = 0, grid = 0, block = 0;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, n, bytes);
    cudaOccupancyMaxPotentialBlockSize(&grid, &block, kernel, bytes, 0);
    if (blocks > 0 && grid > 0 && block > 0) kernel<<<1, n, bytes>>>(output, n);
}
