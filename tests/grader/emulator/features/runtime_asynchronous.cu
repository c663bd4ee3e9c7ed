// Runtime: streams and events in order, cudaMemcpyAsync, cudaMallocAsync, attributes of its memory pool, pinned host memory

__global__ void kernel(int* values, int add) { values[threadIdx.x] += add; }

extern "C" void feature(int* output, int n) {
    const size_t bytes = n * sizeof(int);
    CUstream_st* stream;
    cudaStream_t other;
    cudaEvent_t start, stop;
    int *host = nullptr, *device = nullptr;
    float milliseconds = -1.0f;
    cudaStreamCreate(&stream);
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEventCreate(&start);
    cudaEventCreateWithFlags(&stop, cudaEventDefault);
    cudaMemPool_t pool;
    unsigned long long threshold = ~0ull, kept = 0;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept);
    cudaMallocHost(&host, bytes);
    cudaMallocAsync(&device, bytes, stream);
    for (int i = 0; i < n; i++) host[i] = 3;
    cudaEventRecord(start, stream);
    cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
    kernel<<<1, n, 0, stream>>>(device, -2);
    cudaEventRecord(stop, stream);
    cudaStreamWaitEvent(other, stop, 0);
    cudaMemcpyAsync(output, device, bytes, cudaMemcpyDeviceToDevice, other);
    cudaStreamSynchronize(other);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&milliseconds, start, stop);
    if (milliseconds < 0.0f || cudaStreamQuery(stream) != cudaSuccess) cudaMemset(output, 0, bytes);
    if (kept != threshold || cudaMemPoolTrimTo(pool, 0)) cudaMemset(output, 0, bytes);
    cudaFreeAsync(device, stream);
    cudaFreeHost(host);
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    cudaStreamDestroy(stream);
    cudaStreamDestroy(other);
}
