// Runtime: cudaMallocManaged, written by the host, cudaMemPrefetchAsync, cudaMemAdvise

__global__ void check(int* output, const int* values, const int* zeros, int first) {
    const int i = threadIdx.x;
    output[i] = output[i] + (values[i] == i + first && zeros[i] == 0);
}

extern "C" void feature(int* output, int n) {
    int *values = nullptr, *zeros = nullptr;
    cudaMallocManaged(&values, n * sizeof(int));
    cudaMallocManaged(&zeros, n * sizeof(int), cudaMemAttachGlobal);
    for (int i = 0; i < n; i++) values[i] = i, zeros[i] = 7;
    cudaMemLocation place;
    place.type = cudaMemLocationTypeDevice;
    place.id = 0;
    cudaMemAdvise(values, n * sizeof(int), cudaMemAdviseSetReadMostly, place);
    cudaMemPrefetchAsync(values, n * sizeof(int), place, 0);
    cudaMemset(zeros, 0, n * sizeof(int));
    check<<<1, n>>>(output, values, zeros, 0);
    cudaDeviceSynchronize();
    for (int i = 0; i < n; i++) values[i] += 5;
    check<<<1, n>>>(output, values, zeros, 4);
    cudaFree(values);
    cudaFree(zeros);
}
