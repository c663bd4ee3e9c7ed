#include "helper.cuh"

template <typename T>
__global__ void scale_kernel(const T* x, T* out, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n) {
        out[i] = (T)scaled((float)x[i]);
    }
}
