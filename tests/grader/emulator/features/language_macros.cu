// Language: launches and shared memory inside macros

#define LAUNCH(kernel, n, ...) \
    do {                       \
        kernel<<<1, n>>>(__VA_ARGS__); \
    } while (0)
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

extern "C" void feature(int* output, int n) {
    const int bytes = n * sizeof(int);
    if (!CHECKED(kernel<<<1, n, bytes>>>(output, 1))) return;
    if (0) LAUNCH(kernel, n, output, 2);
}
