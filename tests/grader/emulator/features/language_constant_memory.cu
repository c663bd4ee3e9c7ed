// Language: __constant__ memory and cudaMemcpyToSymbol

__constant__ float weights[4];
__constant__ int offset = 3;
__constant__ const int table[2] = {1, 0};

__global__ void kernel(int* output) {
    output[threadIdx.x] = weights[threadIdx.x % 4] == threadIdx.x % 4 + 0.5f && offset == 3 && table[0];
}

extern "C" void feature(int* output, int n) {
    const float values[4] = {0.5f, 1.5f, 2.5f, 3.5f};
    cudaMemcpyToSymbol(weights, values, sizeof values);
    kernel<<<1, n>>>(output);
}
