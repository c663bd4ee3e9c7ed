// Runtime: cudaMallocPitch, cudaMemcpy2D, cudaMemset2D

__global__ void kernel(int* output, const char* rows, size_t pitch) {
    const int* row = (const int*)(rows + threadIdx.x / 8 * pitch);
    output[threadIdx.x] = row[threadIdx.x % 8] == threadIdx.x;
}

extern "C" void feature(int* output, int n) {
    int host[64], back[64] = {};
    for (int i = 0; i < 64; i++) host[i] = i;
    char* rows = nullptr;
    size_t pitch = 0;
    cudaMallocPitch(&rows, &pitch, 8 * sizeof(int), n / 8);
    cudaMemset2D(rows, pitch, 0, 8 * sizeof(int), n / 8);
    cudaMemcpy2D(rows, pitch, host, 8 * sizeof(int), 8 * sizeof(int), n / 8, cudaMemcpyHostToDevice);
    cudaMemcpy2D(back, 8 * sizeof(int), rows, pitch, 8 * sizeof(int), n / 8, cudaMemcpyDeviceToHost);
    if (pitch >= 32) kernel<<<1, n>>>(output, rows, pitch);
    cudaFree(rows);
}
