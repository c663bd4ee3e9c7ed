// Runtime: cudaMalloc, cudaFree, cudaMemcpy in every direction, cudaMemset, cudaMemGetInfo

#include <cstdlib>

extern "C" void feature(int* output, int n) {
    const size_t bytes = n * sizeof(int);
    int *first = nullptr, *second = nullptr;
    size_t free_bytes = 0, all_bytes = 0;
    int* host = (int*)malloc(bytes);
    for (int i = 0; i < n; i++) host[i] = 1;
    cudaMalloc(&first, bytes);
    cudaMalloc((void**)&second, bytes);
    cudaMemset(second, 0xff, bytes);
    cudaMemcpy(first, host, bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(second, first, bytes, cudaMemcpyDeviceToDevice);
    int* back = new int[n];
    cudaMemcpy(back, second, bytes, cudaMemcpyDeviceToHost);
    cudaMemcpy(host, back, bytes, cudaMemcpyHostToHost);
    const bool told = cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess && free_bytes <= all_bytes;
    if (told) cudaMemcpy(output, second, bytes, cudaMemcpyDefault);
    cudaFree(first);
    cudaFree(second);
    cudaFree(nullptr);
    delete[] back;
    free(host);
}
