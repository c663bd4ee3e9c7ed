// Nineteen launches whose counters ncu_h100.csv holds, as ncu counted them on an H100: which
// accesses of a warp are one request, how many sectors it touches, how many wavefronts its banks
// need.
//
// `entry` launches them in the table's order; kernels that are launched more than once run on a
// grid of another size each time, so that the counters of each launch stay apart.
#include <cuda_runtime.h>

// Launch 1: rows are read along a warp, columns are written: 4 sectors against 32.
__global__ void transpose_naive(float* out, const float* in, int n) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    out[x * n + y] = in[y * n + x];
}

// Launches 2 and 3: without padding a column of the tile lies in one bank.
template <int padding>
__global__ void transpose_tiled(float* out, const float* in, int n) {
    __shared__ float tile[32][32 + padding];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// Launch 4: the compiler for the hardware merges loads of the unrolled loop over k.
__global__ void gemm_tiled(float* C, const float* A, int n) {
    __shared__ float As[32][32], Bs[32][32];
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += 32) {
        As[threadIdx.y][threadIdx.x] = A[row * n + t + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = A[(t + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 32; k++) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    C[row * n + column] = sum;
}

// Launch 5: 16 bytes a lane, 16 sectors a request.
__global__ void increment_vector(float4* out, const float4* in, int) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 value = in[i];
    value.x += 1;
    out[i] = value;
}

// Launch 6: lanes leave the inner loop at different times and meet again behind it.
__global__ void divergent_loops(float* out, const float* in, int) {
    int lane = threadIdx.x;
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j <= (lane & 3); j++) sum += in[i * 1024 + j * 32 + lane];
        sum *= in[8192 + i * 32 + lane];
    }
    out[lane] = sum;
}

// Launches 7 to 11: wide accesses of shared memory go by halves and quarters of a warp.
template <class T>
__global__ void shared_vector(float* out, int stride, int modulus) {
    __shared__ T values[1024];
    values[threadIdx.x].x = threadIdx.x;
    values[threadIdx.x + 32].x = threadIdx.x;
    __syncwarp();
    volatile int zero = 0;
    T value = values[(threadIdx.x * stride) % modulus + zero];
    values[(threadIdx.x * stride) % modulus + 32] = value;
    __syncwarp();
    out[threadIdx.x] = values[threadIdx.x].x + value.x + values[threadIdx.x + 32].x;
}

// Launches 12 to 16: strides of 2, 3, 32 and 33 words, and a broadcast of 8 of them.
__global__ void shared_stride(float* out, int stride, int modulus) {
    __shared__ float values[4096];
    for (int i = threadIdx.x; i < 4096; i += 32) values[i] = i;
    __syncwarp();
    out[threadIdx.x] = values[(threadIdx.x * stride) % modulus];
}

// Launches 17 to 19: offsets and strides of global memory.
__global__ void global_stride(float* out, const float* in, int stride) {
    out[threadIdx.x + stride] = in[threadIdx.x * stride + stride];
}

extern "C" void entry() {
    int n = 256;
    size_t bytes = sizeof(float) * n * n;
    float *in, *out;
    cudaMalloc(&in, bytes);
    cudaMalloc(&out, bytes);
    cudaMemset(in, 0, bytes);
    cudaMemset(out, 0, bytes);
    dim3 grid(8, 8);
    transpose_naive<<<grid, dim3(32, 32)>>>(out, in, n);
    transpose_tiled<0><<<grid, dim3(32, 8)>>>(out, in, n);
    transpose_tiled<1><<<grid, dim3(32, 8)>>>(out, in, n);
    gemm_tiled<<<grid, dim3(32, 32)>>>(out, in, n);
    increment_vector<<<64, 256>>>((float4*)out, (const float4*)in, n);
    divergent_loops<<<1, 32>>>(out, in, n);
    shared_vector<float2><<<1, 32>>>(out, 1, 99);
    shared_vector<float2><<<2, 32>>>(out, 2, 99);
    shared_vector<float4><<<1, 32>>>(out, 1, 99);
    shared_vector<float4><<<2, 32>>>(out, 2, 99);
    shared_vector<float4><<<3, 32>>>(out, 8, 512);
    shared_stride<<<1, 32>>>(out, 2, 9999);
    shared_stride<<<2, 32>>>(out, 3, 9999);
    shared_stride<<<3, 32>>>(out, 32, 9999);
    shared_stride<<<4, 32>>>(out, 4, 32);
    shared_stride<<<5, 32>>>(out, 33, 9999);
    global_stride<<<1, 32>>>(out, in, 1);
    global_stride<<<2, 32>>>(out, in, 3);
    global_stride<<<3, 32>>>(out, in, 9);
    cudaFree(in);
    cudaFree(out);
}
