// Memory: __ldg, __ldcg, __ldcs, __ldca, __stcg, __stcs of scalars and vectors

__global__ void kernel(int* output, float4* values) {
    const int t = threadIdx.x;
    __stcs(&values[t], make_float4(t, 1.0f, 2.0f, 3.0f));
    const float4 v = __ldcs(&values[t]);
    const float w = __ldcg(&values[t].w) + __ldca(&values[t].y) + __ldcv(&values[t].z);
    __stcg(&output[t], v.x == t && w == 6.0f);
}
__global__ void read_only(int* output, const int* __restrict__ input) {
    output[threadIdx.x] = __ldg(&input[threadIdx.x]) == 1 && __ldg(input) == 1;
}

extern "C" void feature(int* output, int n) {
    float4* values = nullptr;
    int* flags = nullptr;
    cudaMalloc(&values, n * sizeof(float4));
    cudaMalloc(&flags, n * sizeof(int));
    kernel<<<1, n>>>(flags, values);
    read_only<<<1, n>>>(output, flags);
    cudaFree(values);
    cudaFree(flags);
}
