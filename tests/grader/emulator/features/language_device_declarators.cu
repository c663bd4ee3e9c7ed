// Language: `__device__` and `__constant__` variables as `struct S s`, `float x(1)` and pointers to functions and rows

struct Pair {
    float a, b;
};
__constant__ struct Pair pair;
__constant__ struct {
    int rows, columns;
} shape = {2, 4};
__device__ float offset(0.5f), scale(-2.0f);
__device__ int grid[2][4] = {{0, 1, 2, 3}, {4, 5, 6, 7}};
__device__ int (*rows)[4] = grid;
__device__ float twice(float x) { return 2 * x; }
__device__ float half_of(float x) { return x / 2; }
__device__ float (*chosen)(float) = twice;
__device__ float (*both[2])(float) = {twice, half_of};

__global__ void check(int* output) {
    bool right = pair.a == 3 && pair.b == 4 && shape.rows * shape.columns == 8;
    right &= offset == 1.5f && scale == -2 && rows[1][2] == 6;
    output[threadIdx.x] = right && chosen(3) == 6 && both[1](3) == 1.5f;
}

extern "C" void feature(int* output, int n) {
    const Pair given = {3, 4};
    const float more = 1.5f;
    cudaMemcpyToSymbol(pair, &given, sizeof given);
    cudaMemcpyToSymbol(offset, &more, sizeof more);
    check<<<1, n>>>(output);
}
