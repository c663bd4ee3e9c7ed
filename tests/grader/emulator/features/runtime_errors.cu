// Runtime: errors of launches and calls, cudaGetLastError, cudaPeekAtLastError, cudaGetErrorString

#include <cstring>

__global__ void kernel(int* output, int value) { output[threadIdx.x] = value; }

// An H100's driver answers with the one (CUDA 13), older ones and the guide with the other.
bool is_of_a_launch(cudaError_t error) {
    return error == cudaErrorInvalidConfiguration || error == cudaErrorInvalidValue;
}

// Says what to do about an error of the driver's or of a captured stream's: nothing here returns one.
bool is_out_of_our_hands(cudaError_t error) {
    switch (error) {
        case cudaErrorInsufficientDriver:
        case cudaErrorECCUncorrectable:
        case cudaErrorStreamCaptureInvalidated:
        case cudaErrorPeerAccessAlreadyEnabled: return true;
        default: return false;
    }
}

extern "C" void feature(int* output, int n) {
    kernel<<<1, 2048>>>(output, 0);
    bool right = is_of_a_launch(cudaPeekAtLastError());
    right &= is_of_a_launch(cudaGetLastError()) && cudaGetLastError() == cudaSuccess;
    kernel<<<0, 32>>>(output, 0);
    right &= is_of_a_launch(cudaGetLastError());
    kernel<<<1, 32, 1 << 20>>>(output, 0);
    right &= cudaGetLastError() != cudaSuccess;
    right &= strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument") == 0;
    right &= strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue") == 0;
    right &= cudaSetDevice(7) == cudaErrorInvalidDevice && !is_out_of_our_hands(cudaPeekAtLastError());
    cudaGetLastError();
    kernel<<<1, n>>>(output, right);
    if (cudaDeviceSynchronize() != cudaSuccess) return;
}
