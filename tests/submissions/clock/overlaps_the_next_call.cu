// Its work stands on a second stream, as a launch that needn't wait for the one before it. | 10 | silu/cuda | not_measured | timed
#include <cuda_runtime.h>

__global__ void nothing() {}

__global__ void compute(const float* x, float* out, int n) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

extern "C" void silu(const float* x, float* out, int n) {
    static cudaStream_t other = nullptr;
    if (!other) cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    nothing<<<1, 32>>>();
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3((n + 255) / 256);
    config.blockDim = dim3(256);
    config.stream = other;
    config.attrs = &early;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, compute, x, out, n);
}
