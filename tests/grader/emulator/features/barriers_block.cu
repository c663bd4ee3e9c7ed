// Barriers: __syncthreads

__global__ void kernel(int* output) {
    __shared__ int sums[64];
    const int t = threadIdx.x;
    sums[t] = 1;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (t < stride) sums[t] += sums[t + stride];
        __syncthreads();
    }
    output[t] = sums[0] == blockDim.x;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
