// Runtime: pinned memory that kernels access, by cudaHostAlloc with cudaHostAllocMapped and cudaHostGetDevicePointer; priorities and flags of streams
#include <cuda_runtime.h>

__global__ void kernel(const int* mapped, int* output, int n) {
    const int i = threadIdx.x;
    if (i < n) output[i] = mapped[i] == 3 * i;
}

extern "C" void feature(int* output, int n) {
    int *numbers, *mapped;
    cudaHostAlloc((void**)&numbers, n * sizeof(int), cudaHostAllocMapped);
    for (int i = 0; i < n; i++) numbers[i] = 3 * i;
    cudaHostGetDevicePointer((void**)&mapped, numbers, 0);
    int least, greatest, priority = 99;
    cudaStream_t stream;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest);
    cudaStreamGetPriority(stream, &priority);
    unsigned flags = 9, of_default = 9;
    cudaStreamGetFlags(stream, &flags);
    cudaStreamGetFlags(nullptr, &of_default);
    const bool are_right = flags == cudaStreamNonBlocking && of_default == cudaStreamDefault;
    if (priority == greatest && priority <= least && are_right) kernel<<<1, n, 0, stream>>>(mapped, output, n);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    cudaFreeHost(numbers);
}
