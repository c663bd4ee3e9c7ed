// Language: launches and shared memory inside macros

#define LAUNCH(kernel, n, ...) \
    do {                       \
        kernel<<<1, n>>>(__VA_ARGS__); \
    } while (0)
#define KERNEL_ARGS(grid, block) <<< grid, block >>>
#define KERNEL_ARGS_ANY(...) <<<__VA_ARGS__>>>
#define MAKE_LAUNCHER(launcher, argument, block) \
    void launcher(int* argument, int block) { \
        add<<<1, block>>>(argument, block - block); \
    }
#define CHECKED(...) (__VA_ARGS__, cudaGetLastError() == cudaSuccess)
#define TILE(type, name) __shared__ type name[64]
#define DYNAMIC extern __shared__ int dynamic[];

__global__ void kernel(int* output, int value) {
    TILE(int, tile);
    DYNAMIC
    tile[threadIdx.x] = value;
    dynamic[threadIdx.x] = value;
    output[threadIdx.x] = tile[threadIdx.x] * dynamic[threadIdx.x];
}

template <class T>
__global__ void add(T* output, T value) {
    output[threadIdx.x] += value;
}

MAKE_LAUNCHER(add_nothing, output, n)

extern "C" void feature(int* output, int n) {
    const int bytes = n * sizeof(int);
    if (!CHECKED(kernel<<<1, n, bytes>>>(output, 1))) return;
    add_nothing(output, n);
    if (0) LAUNCH(kernel, n, output, 2);
    add<int> KERNEL_ARGS(dim3(1), n) (output, 2L);
    n > 1 ? add<int> KERNEL_ARGS_ANY(1, n, 0, nullptr)(output, -2) : void();
}
