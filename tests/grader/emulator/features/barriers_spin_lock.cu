// Barriers: a lock taken by atomicCAS and given back by atomicExch

__global__ void kernel(int* lock, int* count) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {
        }
        __threadfence();
        *(volatile int*)count += 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
__global__ void check(int* output, const int* count, int expected) {
    output[threadIdx.x] = *count == expected;
}

extern "C" void feature(int* output, int n) {
    int* memory = nullptr;
    cudaMalloc(&memory, 2 * sizeof(int));
    cudaMemset(memory, 0, 2 * sizeof(int));
    kernel<<<4, 64>>>(memory, memory + 1);
    check<<<1, n>>>(output, memory + 1, 8);
    cudaFree(memory);
}
