// Language: a structure that a function returns, stored where the call stands

struct Four {
    float values[4];
};

__device__ Four four_from(float first) {
    Four result;
    for (int i = 0; i < 4; i++) result.values[i] = first + i;
    return result;
}

__device__ float4 vector_from(float first) {
    return make_float4(first, first + 1, first + 2, first + 3);
}

__global__ void kernel(int* output) {
    __shared__ Four fours[1024];
    __shared__ float4 vectors[1024];
    fours[threadIdx.x] = four_from(threadIdx.x);
    vectors[threadIdx.x] = vector_from(threadIdx.x);
    __syncthreads();
    const int other = blockDim.x - 1 - threadIdx.x;
    output[threadIdx.x] = fours[other].values[3] == other + 3 && vectors[other].y == other + 1;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
