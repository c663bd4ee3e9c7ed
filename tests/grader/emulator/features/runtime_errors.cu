// Runtime: errors of launches and calls, cudaGetLastError, cudaPeekAtLastError, cudaGetErrorString

#include <cstring>

__global__ void kernel(int* output, int value) { output[threadIdx.x] = value; }

extern "C" void feature(int* output, int n) {
    kernel<<<1, 2048>>>(output, 0);
    bool right = cudaPeekAtLastError() == cudaErrorInvalidConfiguration;
    right &= cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
    kernel<<<0, 32>>>(output, 0);
    right &= cudaGetLastError() == cudaErrorInvalidConfiguration;
    kernel<<<1, 32, 1 << 20>>>(output, 0);
    right &= cudaGetLastError() != cudaSuccess;
    right &= strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0;
    right &= strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0;
    right &= cudaSetDevice(7) == cudaErrorInvalidDevice;
    cudaGetLastError();
    kernel<<<1, n>>>(output, right);
    if (cudaDeviceSynchronize() != cudaSuccess) return;
}
