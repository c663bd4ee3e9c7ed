// Cross-entropy: loss = log(sum of exp(logits)) - logits[label], and its gradient.
//
// A block takes a row. Each thread goes along its own elements with a maximum and a sum of
// exponentials relative to it; then the block's maximum is found, every thread's sum is brought to
// it, and the sums are added. A second pass over the row writes softmax(logits) - one_hot(label).

#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_SIZE = 256;
constexpr int WARPS = BLOCK_SIZE / WARP_SIZE;

// Says where a CUDA call failed, and why.
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// BEGIN SOLUTION
//| // TODO: the maximum and the sum over a block, by shuffles and shared memory, in every thread.

// The sum over the block's threads, or the largest of their values, in each of them. All of them
// must call it. `shared` has a float for each warp, and belongs to this call alone.
template <bool IS_SUM>
__device__ float block_reduce(float value, float* shared) {
    const int lane_id = threadIdx.x % WARP_SIZE;
    const int warp_id = threadIdx.x / WARP_SIZE;
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffff, value, offset);
        value = IS_SUM ? value + other : fmaxf(value, other);
    }
    if (lane_id == 0) shared[warp_id] = value;
    __syncthreads();
    value = shared[0];
    for (int i = 1; i < WARPS; ++i) value = IS_SUM ? value + shared[i] : fmaxf(value, shared[i]);
    return value;
}
// END SOLUTION

__global__ void cross_entropy_kernel(const float* logits, const long long* label,
                                     const float* dloss, float* loss, float* dlogits, int V) {
    // BEGIN SOLUTION
    //| // TODO: move logits and dlogits to this block's row: rows * V can be beyond an int.
    //| // TODO: each thread's maximum and sum. A thread without elements has -inf and 0: what is
    //| //   exp(-inf - (-inf))?
    //| // TODO: the block's maximum, then its sum.
    //| // TODO: one thread writes the loss. Follow the label only if it is not -1.
    //| // TODO: the gradient.
    __shared__ float maxima[WARPS];
    __shared__ float sums[WARPS];
    const size_t row_start = static_cast<size_t>(blockIdx.x) * V;
    logits += row_start;
    dlogits += row_start;

    float m = -INFINITY;
    float l = 0.0f;
    for (int i = threadIdx.x; i < V; i += BLOCK_SIZE) {
        const float x = logits[i];
        const float m_new = fmaxf(m, x);
        l = l * expf(m - m_new) + expf(x - m_new);
        m = m_new;
    }
    const float row_max = block_reduce<false>(m, maxima);
    l = block_reduce<true>(l * expf(m - row_max), sums);

    const long long target = label[blockIdx.x];
    const bool counts = target >= 0;
    if (threadIdx.x == 0)
        loss[blockIdx.x] = counts ? row_max + logf(l) - logits[target] : 0.0f;

    const float scale = counts ? dloss[blockIdx.x] : 0.0f;
    for (int i = threadIdx.x; i < V; i += BLOCK_SIZE)
        dlogits[i] = scale * (expf(logits[i] - row_max) / l - (i == target ? 1.0f : 0.0f));
    // END SOLUTION
}

// Write each row's loss to loss, and its gradient times dloss to dlogits. logits, dlogits: rows * V
// floats in device memory, row after row; label: rows 64-bit integers from 0 to V - 1, or -1 for a
// row whose loss and gradient are 0; dloss, loss: rows floats; rows, V >= 1.
extern "C" void cross_entropy(const float* logits, const long long* label, const float* dloss,
                              float* loss, float* dlogits, int rows, int V) {
    // BEGIN SOLUTION
    //| // TODO: a block for each row.
    cross_entropy_kernel<<<rows, BLOCK_SIZE>>>(logits, label, dloss, loss, dlogits, V);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
