// Barriers: __syncwarp, of whole warps and of some lanes

__global__ void kernel(int* output) {
    __shared__ int values[64];
    const int t = threadIdx.x, lane = t % 32;
    values[t] = t;
    __syncwarp();
    int seen = values[t ^ 1];
    __syncwarp();
    if (lane < 16) {
        values[t] = -t;
        __syncwarp(0x0000ffffu);
        seen = seen == (t ^ 1) && values[t ^ 2] == -(t ^ 2);
    } else {
        seen = seen == (t ^ 1);
    }
    output[t] = seen;
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
