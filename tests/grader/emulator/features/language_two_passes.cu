// Language: __host__ __device__ functions that ask for __CUDA_ARCH__, or whose macros do: host and device code take a branch each
#define BOTH __host__ __device__
#define ARCHITECTURE __CUDA_ARCH__

BOTH int side() {
#ifdef __CUDA_ARCH__
    return 2;
#else
    return 1;
#endif
}

struct Load {
    BOTH float operator()(const float* p) const {
#if defined(ARCHITECTURE) && ARCHITECTURE >= 350
        return __ldg(p);
#else
        return *p;
#endif
    }
};

#ifdef __CUDA_ARCH__
#define SIDE 2
#else
#define SIDE 1
#endif  // of the architecture
BOTH bool is_side(int of) { return SIDE == of; }

template <class T>
BOTH T larger(T a, T b) {
#if !defined(__CUDA_ARCH__)
    static int calls;
    return calls++, a > b ? a : b;
#else
    return max(a, b);
#endif
}

__global__ void kernel(int* output, int n, const float* three, int of_host) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool is_right = side() == 2 && of_host == 1 && Load()(three) == 3 && larger(4, 5) == 5 &&
                          is_side(2);
    if (i < n) output[i] = is_right;
}

extern "C" void feature(int* output, int n) {
    const float three = is_side(1) ? 3 : 0;
    float* on_device;
    cudaMalloc(&on_device, sizeof three);
    const float read = Load()(&three);
    cudaMemcpy(on_device, &read, sizeof read, cudaMemcpyHostToDevice);
    kernel<<<(n + 31) / 32, larger(16, 32)>>>(output, n, on_device, side());
    cudaFree(on_device);
}
