// Runtime: pinned memory as a kernel's parameter, by the host's address: of `cudaMallocHost`, `cudaHostAlloc` and `cudaHostRegister`
#include <cuda_runtime.h>

#include <vector>

__global__ void add_one(const int* from, int* to, int n) {
    const int i = threadIdx.x;
    if (i < n) to[i] = from[i] + 1;
}

__global__ void compare(const int* a, const int* b, int* output, int n) {
    const int i = threadIdx.x;
    if (i < n) output[i] = a[i] == b[i] + 1;
}

extern "C" void feature(int* output, int n) {
    int *numbers, *next, *copied, *device;
    std::vector<int> registered(n);
    cudaMallocHost(&numbers, n * sizeof(int));
    cudaHostAlloc(&next, n * sizeof(int), cudaHostAllocDefault);
    cudaHostRegister(registered.data(), n * sizeof(int), cudaHostRegisterMapped);
    const bool again = cudaHostRegister(registered.data(), n * sizeof(int), 0) == cudaSuccess;
    for (int i = 0; i < n; i++) numbers[i] = 3 * i - 3;
    add_one<<<1, n>>>(numbers, next, n);
    add_one<<<1, n>>>(next, next, n);                         // what a kernel has written
    cudaHostGetDevicePointer(&device, registered.data(), 0);  // the same address
    cudaDeviceSynchronize();
    for (int i = 0; i < n; i++) registered[i] = 3 * i - 2;  // what the host writes between two launches
    cudaMalloc(&copied, n * sizeof(int));
    cudaMemcpy(copied, next, n * sizeof(int), cudaMemcpyHostToDevice);
    if (device == registered.data() && !again) compare<<<1, n>>>(copied, device, output, n);
    cudaFree(copied);
    cudaHostUnregister(registered.data());
    cudaFreeHost(next);
    cudaFreeHost(numbers);
    int* unused;  // where memory was that a kernel had
    cudaMallocHost(&unused, n * sizeof(int));
    cudaFreeHost(unused);
}
