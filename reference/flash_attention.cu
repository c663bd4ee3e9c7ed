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

// BEGIN SOLUTION
//| // TODO: the maximum and the sum over a warp, in each of its threads, by __shfl_xor_sync. Write
//| //   them as __device__ functions.

// The largest of the warp's 32 values, in each of its threads. All of them must call it.
__device__ float warp_max(float value) {
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, offset));
    return value;
}

// The sum of the warp's 32 values, in each of its threads. All of them must call it.
__device__ float warp_sum(float value) {
    for (int offset = WARP_SIZE / 2; offset > 0; offset /= 2)
        value += __shfl_xor_sync(0xffffffff, value, offset);
    return value;
}
// END SOLUTION

__global__ void flash_attention_kernel(const float* q, const float* k, const float* v, float* out,
                                       float* lse, int N_CTX, int N_KV, int HEAD_DIM,
                                       float sm_scale, bool causal) {
    // BEGIN SOLUTION
    //| // TODO: which queries, of which head, are this block's, and which is this warp's? Move the
    //| //   five pointers to that head; in size_t.
    //| // TODO: __shared__ tiles for q, k and v, and room for each warp's BLOCK_N weights. Static
    //| //   shared memory ends at 48 KiB: count. Lane i reads row i of the tile of k, all at once:
    //| //   in which banks do they lie, and if the rows were one float longer?
    //| // TODO: load q once. Before the loop m = -inf, l = 0, acc = 0.
    //| // TODO: for each tile of keys: load k and v, and what in place of keys that don't exist?
    //| //   a barrier. The score of this lane's key, times sm_scale, or -inf if it doesn't exist or
    //| //   this query may not see it. m_new, alpha, the weights, l and acc as above; and the
    //| //   barrier that the next tile needs. A row that has seen no key yet has m_new = -inf, and
    //| //   -inf - -inf is nan.
    //| // TODO: a warp beyond the last query has nothing to compute, but barriers to come to.
    //| // TODO: causal blocks may stop early: which is the last key that any of their rows sees?
    //| // TODO: out = acc / l and lse = m + log(l), but 0 and -inf for a row without keys.
    __shared__ float Qs[BLOCK_M][MAX_HEAD_DIM];
    // A row of 129 floats: in the scores' loop the 32 lanes read down a column of it.
    __shared__ float Ks[BLOCK_N][MAX_HEAD_DIM + 1];
    __shared__ float Vs[BLOCK_N][MAX_HEAD_DIM];
    __shared__ float weights[BLOCK_M][BLOCK_N];

    const int lane_id = threadIdx.x;
    const int warp_id = threadIdx.y;
    const int blocks_m = ceil_div(N_CTX, BLOCK_M);
    const int first_row = blockIdx.x % blocks_m * BLOCK_M;
    const int row = first_row + warp_id;
    const size_t head = blockIdx.x / blocks_m;
    q += head * N_CTX * HEAD_DIM;
    k += head * N_KV * HEAD_DIM;
    v += head * N_KV * HEAD_DIM;
    out += head * N_CTX * HEAD_DIM;
    lse += head * N_CTX;

    if (row < N_CTX) {
        const float* q_row = q + static_cast<size_t>(row) * HEAD_DIM;
        for (int d = lane_id; d < HEAD_DIM; d += WARP_SIZE) Qs[warp_id][d] = q_row[d];
    }

    // The keys that this row sees, and those that the block's last one sees, which is most.
    const int offset = N_KV - N_CTX;
    const int visible = causal ? row + offset + 1 : N_KV;
    const int end = causal ? min(N_KV, first_row + BLOCK_M + offset) : N_KV;

    float m = -INFINITY, l = 0.0f;
    float acc[COLS] = {};
    for (int first = 0; first < end; first += BLOCK_N) {
        for (int i = warp_id; i < BLOCK_N; i += BLOCK_M) {
            const int key = first + i;
            const size_t start = static_cast<size_t>(key) * HEAD_DIM;
            for (int d = lane_id; d < HEAD_DIM; d += WARP_SIZE) {
                // A weight of 0 is no help against what happened to be there: 0 * nan is nan.
                Ks[i][d] = key < N_KV ? k[start + d] : 0.0f;
                Vs[i][d] = key < N_KV ? v[start + d] : 0.0f;
            }
        }
        __syncthreads();

        if (row < N_CTX) {  // one answer for the whole warp, which is what shuffles need
            float score = 0.0f;
            for (int d = 0; d < HEAD_DIM; ++d) score += Qs[warp_id][d] * Ks[lane_id][d];
            score = first + lane_id < visible ? score * sm_scale : -INFINITY;

            const float m_new = fmaxf(m, warp_max(score));
            // No key seen yet: relative to 0, all exponentials are 0.
            const float base = m_new == -INFINITY ? 0.0f : m_new;
            const float weight = expf(score - base);
            const float alpha = expf(m - base);
            l = l * alpha + warp_sum(weight);
            m = m_new;

            weights[warp_id][lane_id] = weight;
            __syncwarp();  // the lanes are about to read each other's
            for (int c = 0; c < COLS; ++c) {
                const int d = lane_id + c * WARP_SIZE;
                if (d >= HEAD_DIM) break;
                acc[c] *= alpha;
                for (int i = 0; i < BLOCK_N; ++i) acc[c] += weights[warp_id][i] * Vs[i][d];
            }
        }
        __syncthreads();  // before the next tile overwrites what others may still read
    }

    if (row >= N_CTX) return;
    for (int c = 0; c < COLS; ++c) {
        const int d = lane_id + c * WARP_SIZE;
        if (d < HEAD_DIM) {
            out[static_cast<size_t>(row) * HEAD_DIM + d] = l > 0.0f ? acc[c] / l : 0.0f;
        }
    }
    if (lane_id == 0) lse[row] = m + logf(l);  // without a key -inf - inf, which is -inf
    // END SOLUTION
}

// Write attention of q over k and v to out, and each row's log-sum-exp of scores to lse. In device
// memory, without gaps: q and out are Z * H * N_CTX rows of HEAD_DIM floats, k and v Z * H * N_KV
// rows, lse is Z * H * N_CTX floats. Z, H, N_CTX, N_KV >= 1; HEAD_DIM one of 16, 32, 64, 128;
// sm_scale > 0. causal: query i sees the keys up to i + N_KV - N_CTX only; one that sees none has 0
// and -inf.
extern "C" void flash_attention(const float* q, const float* k, const float* v, float* out,
                                float* lse, int Z, int H, int N_CTX, int N_KV, int HEAD_DIM,
                                float sm_scale, bool causal) {
    // BEGIN SOLUTION
    //| // TODO: a block of BLOCK_M warps for each BLOCK_M queries of each of the Z * H heads,
    //| //   numbered along the grid's x axis. Nothing of size N_CTX * N_KV is allocated.
    const int blocks = Z * H * ceil_div(N_CTX, BLOCK_M);
    flash_attention_kernel<<<blocks, dim3(WARP_SIZE, BLOCK_M)>>>(
        q, k, v, out, lse, N_CTX, N_KV, HEAD_DIM, sm_scale, causal);
    CHECK(cudaPeekAtLastError());
    // END SOLUTION
}
