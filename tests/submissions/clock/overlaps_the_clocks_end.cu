// The work lets an empty launch go ahead of it, which ends first, so that a clock behind that stops early. | 10 | silu/cuda | not_measured | timed
#include <cuda_runtime.h>

__global__ void compute(const float* x, float* out, int n) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}

__global__ void nothing() {}

extern "C" void silu(const float* x, float* out, int n) {
    compute<<<(n + 255) / 256, 256>>>(x, out, n);
    cudaLaunchAttribute early{};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.attrs = &early;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, nothing);
}
