// Language: __device__ variables, cudaMemcpyFromSymbol, cudaGetSymbolAddress

__device__ int counter;
__device__ float values[2] = {1.0f, 2.0f};
__device__ int first, second, third;  // neighbours in memory
__device__ const int primes[] = {2, 3, 5};

__global__ void count() { atomicAdd(&counter, 1); }
__global__ void check(int* output, const int* counted, int expected, const float* values_too) {
    output[threadIdx.x] = *counted == expected && counter == expected && values[1] == values_too[1] && primes[2] == 5 &&
                          first == 1 && second == 2 && third == 3;
}

extern "C" void feature(int* output, int n) {
    const int zero = 0;
    int* counted = nullptr;
    void* address = nullptr;
    cudaMalloc(&counted, sizeof(int));
    cudaMemcpyToSymbol(counter, &zero, sizeof zero);
    const int numbers[] = {1, 2, 3};
    cudaMemcpyToSymbol(second, &numbers[1], sizeof(int));
    cudaMemcpyToSymbol(third, &numbers[2], sizeof(int));
    cudaMemcpyToSymbol(first, &numbers[0], sizeof(int));
    count<<<2, n>>>();
    cudaMemcpyFromSymbol(counted, counter, sizeof(int), 0, cudaMemcpyDeviceToDevice);
    cudaGetSymbolAddress(&address, values);
    check<<<1, n>>>(output, counted, 2 * n, (const float*)address);
    cudaFree(counted);
}
