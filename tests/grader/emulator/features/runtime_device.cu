// Runtime: cudaGetDeviceProperties, cudaDeviceGetAttribute, cudaGetDeviceCount, cudaPointerGetAttributes, versions, limits

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
    int least = -1, greatest = 1, *pinned = nullptr;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    right &= least == 0 && greatest < 0;
    cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocDefault);
    cudaPointerAttributes of_output, of_pinned, of_local;
    cudaPointerGetAttributes(&of_output, output);
    cudaPointerGetAttributes(&of_pinned, pinned);
    cudaPointerGetAttributes(&of_local, &least);
    right &= of_output.type == cudaMemoryTypeDevice && of_output.devicePointer == output;
    right &= of_pinned.type == cudaMemoryTypeHost && of_pinned.hostPointer == pinned;
    right &= of_local.type == cudaMemoryTypeUnregistered;
    cudaFreeHost(pinned);
    kernel<<<1, n>>>(output, right);
}
