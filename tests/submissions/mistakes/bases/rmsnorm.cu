// RMSNorm, both kernels by halving: the vector's sums in dynamic shared memory, the matrix's in
// static shared memory.

#include <cstdio>
#include <cuda_runtime.h>

constexpr int BLOCK_SIZE = 256;

#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// --- one row, one block --------------------------------------------------------------------------

__global__ void rms_norm_vector_kernel(const float* input, const float* weight, float* output,
                                       int cols, float epsilon) {
    extern __shared__ float partial[];
    int tid = threadIdx.x;

    float sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        float x = input[i];
        sum += x * x;
    }
    partial[tid] = sum;
    __syncthreads();

    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            partial[tid] += partial[tid + s];
        }
        __syncthreads();
    }

    float mean = partial[0] / cols;
    float scale = 1.0f / sqrtf(mean + epsilon);
    for (int i = tid; i < cols; i += blockDim.x) {
        output[i] = input[i] * scale * weight[i];
    }
}

extern "C" void rms_norm_vector(const float* input, const float* weight, float* output, int cols,
                                float epsilon) {
    size_t bytes = BLOCK_SIZE * sizeof(float);
    rms_norm_vector_kernel<<<1, BLOCK_SIZE, bytes>>>(input, weight, output, cols, epsilon);
    CHECK(cudaPeekAtLastError());
}

// --- a block for each row ------------------------------------------------------------------------

__global__ void rms_norm_matrix_kernel(const float* input, const float* weight, float* output,
                                       int cols, float epsilon) {
    __shared__ float partial[BLOCK_SIZE];
    int tid = threadIdx.x;
    const float* x = input + (size_t)blockIdx.x * cols;
    float* y = output + (size_t)blockIdx.x * cols;

    float sum = 0.0f;
    for (int i = tid; i < cols; i += blockDim.x) {
        sum += x[i] * x[i];
    }
    partial[tid] = sum;
    __syncthreads();

    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            partial[tid] += partial[tid + s];
        }
        __syncthreads();
    }

    float scale = 1.0f / sqrtf(partial[0] / cols + epsilon);
    for (int i = tid; i < cols; i += blockDim.x) {
        y[i] = x[i] * scale * weight[i];
    }
}

extern "C" void rms_norm_matrix(const float* input, const float* weight, float* output, int rows,
                                int cols, float epsilon) {
    rms_norm_matrix_kernel<<<rows, BLOCK_SIZE>>>(input, weight, output, cols, epsilon);
    CHECK(cudaPeekAtLastError());
}
