// Lane k runs k turns behind the others, with no branch, so that its stores seem to meet theirs. | transpose/cuda_v4 | target_missed | counters=target_missed
#include <cuda_runtime.h>

__global__ void turn(const float* input, float* output, int rows, int cols) {
    __shared__ float tile[32][33];
    const int across = (cols + 31) / 32, lane = threadIdx.x;
    const int top = blockIdx.x / across * 32, left = blockIdx.x % across * 32;
    for (int i = 0; i < 32; ++i)
        if (top + i < rows && left + lane < cols) tile[i][lane] = input[(top + i) * cols + left + lane];
    __syncthreads();
    for (int step = 0; step < 63; ++step) {
        const int i = step - lane;
        const bool mine = i >= 0 && i < 32 && top + lane < rows && left + i < cols;
        float nowhere;
        float* place = mine ? &output[(left + i) * rows + top + lane] : &nowhere;
        *place = mine ? tile[lane][i] : 0.0f;
    }
}

extern "C" void transpose_v4(const float* input, float* output, int rows, int cols) {
    turn<<<((rows + 31) / 32) * ((cols + 31) / 32), 32>>>(input, output, rows, cols);
}
