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

// TODO: the maximum and the sum over a block, by shuffles and shared memory, in every thread.

__global__ void cross_entropy_kernel(const float* logits, const long long* label,
                                     const float* dloss, float* loss, float* dlogits, int V) {
    // TODO: move logits and dlogits to this block's row: rows * V can be beyond an int.
    // TODO: each thread's maximum and sum. A thread without elements has -inf and 0: what is
    //   exp(-inf - (-inf))?
    // TODO: the block's maximum, then its sum.
    // TODO: one thread writes the loss. Follow the label only if it is not -1.
    // TODO: the gradient.
}

// Write each row's loss to loss, and its gradient times dloss to dlogits. logits, dlogits: rows * V
// floats in device memory, row after row; label: rows 64-bit integers from 0 to V - 1, or -1 for a
// row whose loss and gradient are 0; dloss, loss: rows floats; rows, V >= 1.
extern "C" void cross_entropy(const float* logits, const long long* label, const float* dloss,
                              float* loss, float* dlogits, int rows, int V) {
    // TODO: a block for each row.
}
