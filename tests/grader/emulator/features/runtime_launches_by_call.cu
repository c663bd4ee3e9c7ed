// Runtime: cudaLaunchKernel, cudaLaunchKernelExC, cudaLaunchKernelEx, cudaLaunchCooperativeKernel, cudaFuncGetAttributes

struct Pair {
    char small;
    int large;
};

template <class T>
__global__ void add(int* output, T by, Pair pair) {
    output[threadIdx.x] += by + pair.large - pair.small;
}
__global__ void tiled(int* output) {
    __shared__ int tile[64];
    tile[threadIdx.x] = output[threadIdx.x];
    output[threadIdx.x] = tile[threadIdx.x];
}

extern "C" void feature(int* output, int n) {
    int by = 3;
    Pair pair{1, -1};
    void* arguments[] = {&output, &by, &pair};
    cudaLaunchKernel((void*)add<int>, dim3(1), dim3(n), arguments, 0, nullptr);  // + 1
    cudaLaunchCooperativeKernel((const void*)add<int>, 1, n, arguments);         // + 1
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = n;
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeCooperative;
    attribute[0].val.cooperative = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
    by = 1;
    const cudaError_t error = cudaLaunchKernelExC(&config, reinterpret_cast<void*>(&add<int>), arguments);
    cudaLaunchKernelEx(&config, add<int>, output, error == cudaSuccess ? 2 : 9, pair);  // - 1, + 0
    cudaFuncAttributes told;
    cudaFuncGetAttributes(&told, tiled);
    if (told.sharedSizeBytes == 256 && told.maxThreadsPerBlock >= n) tiled<<<1, n>>>(output);
}
