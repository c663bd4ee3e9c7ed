// Kernels on integers, one thread for each element.

#include <cuda_runtime.h>

static int blocks_of(int n) { return (n + 127) / 128; }

__global__ void product_kernel(const signed char* a, const signed char* b, int* out, int M, int N, int K) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N) return;
    int sum = 0;
    for (int k = 0; k < K; ++k) sum += a[i / N * K + k] * b[k * N + i % N];
    out[i] = sum;
}

extern "C" void int8_product(const signed char* a, const signed char* b, int* out, int M, int N, int K) {
    product_kernel<<<blocks_of(M * N), 128>>>(a, b, out, M, N, K);
}

__global__ void embedding_kernel(const float* table, const long long* index, float* out, int n, int D) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * D) return;
    const long long row = index[i / D];
    out[i] = table[row * D + i % D];
}

extern "C" void embedding(const float* table, const long long* index, float* out, int n, int D) {
    if (n > 0) embedding_kernel<<<blocks_of(n * D), 128>>>(table, index, out, n, D);
}

__global__ void clear_kernel(int* counts) { counts[threadIdx.x] = 0; }

__global__ void histogram_kernel(const unsigned char* x, int* counts, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i]], 1);
}

extern "C" void histogram(const unsigned char* x, int* counts, int n) {
    clear_kernel<<<1, 256>>>(counts);
    if (n > 0) histogram_kernel<<<blocks_of(n), 128>>>(x, counts, n);
}

__global__ void halves_kernel(const unsigned int* x, unsigned int* same, float* half, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    same[i] = x[i];
    half[i] = x[i] * 0.5f;
}

extern "C" void halves(const unsigned int* x, unsigned int* same, float* half, int n) {
    halves_kernel<<<blocks_of(n), 128>>>(x, same, half, n);
}
