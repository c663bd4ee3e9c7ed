// Language: static shared memory: arrays of one and more dimensions, variables, structures

struct Pair {
    int first, second;
};
__shared__ int at_file_scope[64];

__device__ int through_pointer(const int* shared, int i) { return shared[i]; }

__global__ void kernel(int* output) {
    __shared__ int line[64], one;
    static __shared__ int square[8][8 + 1];
    __shared__ __align__(16) Pair pairs[64];
    __shared__ alignas(16) int aligned[64];
    volatile __shared__ int flags[64];
    const int t = threadIdx.x;
    line[t] = t;
    square[t / 8][t % 8] = t;
    pairs[t] = {t, -t};
    aligned[t] = (size_t)aligned % 16 ? -1 : t;
    flags[t] = 1;
    at_file_scope[t] = 1;
    if (t == 0) one = 1;
    __syncthreads();
    const int o = 63 - t;
    output[t] = through_pointer(line, o) == square[o / 8][o % 8] && pairs[o].second == -o &&
                aligned[o] == o && flags[o] == one && at_file_scope[o];
}

extern "C" void feature(int* output, int n) { kernel<<<1, n>>>(output); }
