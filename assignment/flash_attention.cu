// Flash attention: out = softmax(q @ k^T * sm_scale) @ v, and the log-sum-exp of every row.
//
// The scores would be a matrix of N_CTX by N_KV for each head. It need not exist: a row of out can
// be summed up while the keys go by, if what was summed so far is rescaled whenever a larger score
// turns up. For one query, with m the largest score so far, l the sum of exp(score - m), and acc
// the rows of v weighted by the same:
//
//     m_new = max(m, largest new score)      alpha = exp(m - m_new)
//     l     = l * alpha   + sum of exp(score - m_new)
//     acc   = acc * alpha + sum of exp(score - m_new) * row of v         at the end out = acc / l
//
// Who does what: a block has BLOCK_M queries, a warp for each. Keys come BLOCK_N at a time: the
// whole block brings a tile of k and one of v into shared memory, and every warp uses both, so k
// and v are fetched N_CTX / BLOCK_M times instead of N_CTX times. In a warp, lanes change their
// trade twice per tile:
//
//     scores    a lane for each key: 32 dot products side by side, then the warp's maximum and sum
//     acc       a lane for each column of v: lane i keeps out's elements i, i + 32, i + 64, i + 96
//
// Causal: query i is at position i + N_KV - N_CTX among the keys (the last query sees every key)
// and sees the keys up to its own position. With more queries than keys the first ones see none:
// their out is 0, and their log-sum-exp, the logarithm of an empty sum, is -inf.

#include <cmath>
#include <cstdio>
#include <cuda_runtime.h>

constexpr int WARP_SIZE = 32;
constexpr int BLOCK_M = 16;         // queries of a block, one for each of its warps
constexpr int BLOCK_N = WARP_SIZE;  // keys of a tile, one for each lane
constexpr int MAX_HEAD_DIM = 128;
constexpr int COLS = MAX_HEAD_DIM / WARP_SIZE;  // columns of v that a lane has, at most

// Says where a CUDA call failed, and why. A kernel launch returns nothing; it leaves its error to
// cudaPeekAtLastError(), which keeps it for whoever called us (cudaGetLastError() would clear it).
#define CHECK(call)                                                                         \
    do {                                                                                    \
        const cudaError_t error = (call);                                                   \
        if (error != cudaSuccess)                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));  \
    } while (0)

// a / b rounded up, for a, b >= 1; (a + b - 1) / b would overflow for a near 2^31.
__host__ __device__ constexpr int ceil_div(int a, int b) { return (a - 1) / b + 1; }

// TODO: the maximum and the sum over a warp, in each of its threads, by __shfl_xor_sync. Write
//   them as __device__ functions.

__global__ void flash_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       float* lse, int N_CTX, int N_KV, int HEAD_DIM,
                                       float sm_scale, bool causal) {
    // TODO: which queries, of which head, are this block's, and which is this warp's? Move the
    //   five pointers to that head; in size_t.
    // TODO: __shared__ tiles for q, k and v, and room for each warp's BLOCK_N weights. Static
    //   shared memory ends at 48 KiB: count. Lane i reads row i of the tile of k, all at once:
    //   in which banks do they lie, and if the rows were one float longer?
    // TODO: load q once. Before the loop m = -inf, l = 0, acc = 0.
    // TODO: for each tile of keys: load k and v, and what in place of keys that don't exist?
    //   a barrier. The score of this lane's key, times sm_scale, or -inf if it doesn't exist or
    //   this query may not see it. m_new, alpha, the weights, l and acc as above; and the
    //   barrier that the next tile needs. A row that has seen no key yet has m_new = -inf, and
    //   -inf - -inf is nan.
    // TODO: a warp beyond the last query has nothing to compute, but barriers to come to.
    // TODO: causal blocks may stop early: which is the last key that any of their rows sees?
    // TODO: out = acc / l and lse = m + log(l), but 0 and -inf for a row without keys.
}

// Write attention of q over k and v to out, and each row's log-sum-exp of scores to lse. In device
// memory, without gaps: q and out are Z * H * N_CTX rows of HEAD_DIM floats, k and v Z * H * N_KV
// rows, lse is Z * H * N_CTX floats. Z, H, N_CTX, N_KV >= 1; HEAD_DIM one of 16, 32, 64, 128;
// sm_scale > 0. causal: query i sees the keys up to i + N_KV - N_CTX only; one that sees none has 0
// and -inf.
extern "C" void flash_attention(const float* q, const float* k, const float* v, float* out,
                                float* lse, int Z, int H, int N_CTX, int N_KV, int HEAD_DIM,
                                float sm_scale, bool causal) {
    // TODO: a block of BLOCK_M warps for each BLOCK_M queries of each of the Z * H heads,
    //   numbered along the grid's x axis. Nothing of size N_CTX * N_KV is allocated.
}
