// Barriers: __syncthreads_count, __syncthreads_and, __syncthreads_or

__global__ void kernel(int* output) {
    const int t = threadIdx.x;
    const int even = __syncthreads_count(t % 2 == 0);
    const int all = __syncthreads_and(t >= 0);
    const int not_all = __syncthreads_and(t > 0);
    const int any = __syncthreads_or(t == 5);
    output[t] = even == blockDim.x / 2 && all && !not_all && any;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
