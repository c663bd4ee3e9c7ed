// Runtime: cudaGetDeviceProperties, cudaDeviceGetAttribute, cudaGetDeviceCount, versions, limits

__global__ void kernel(int* output, int value) { output[threadIdx.x] = value; }

extern "C" void feature(int* output, int n) {
    cudaDeviceProp properties;
    int device = -1, count = 0, processors = 0, version = 0;
    cudaGetDevice(&device);
    cudaSetDevice(device);
    cudaGetDeviceCount(&count);
    bool right = cudaGetDeviceProperties(&properties, device) == cudaSuccess && count == 1;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaRuntimeGetVersion(&version);
    right &= properties.warpSize == 32 && properties.maxThreadsPerBlock == 1024 && version > 0;
    right &= properties.multiProcessorCount == processors && properties.sharedMemPerBlock == 49152;
    kernel<<<1, n>>>(output, right);
}
