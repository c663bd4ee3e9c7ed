// It reads the columns of an unpadded tile by atomics, whose conflicts are counted apart. | transpose/cuda_v4 | target_missed | counters=target_missed
#include <cuda_runtime.h>

__global__ void turn(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[32][32];
    const int across = (cols + 31) / 32;
    const int top = blockIdx.x / across * 32, left = blockIdx.x % across * 32;
    for (int i = threadIdx.y; i < 32; i += 8)
        if (top + i < rows && left + threadIdx.x < cols)
            tile[i][threadIdx.x] = input[(top + i) * cols + left + threadIdx.x];
        else
            tile[i][threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.y; i < 32; i += 8) {
        const float value = atomicAdd(&tile[threadIdx.x][i], 0.0f);
        if (left + i < cols && top + threadIdx.x < rows) output[(left + i) * rows + top + threadIdx.x] = value;
    }
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    turn<<<((rows + 31) / 32) * ((cols + 31) / 32), dim3(32, 8)>>>(input, output, rows, cols);
}
