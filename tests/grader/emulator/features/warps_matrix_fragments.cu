// Warps: nvcuda::wmma with half, bfloat16 and tf32: fragments of every size, loads and stores in both orders, mma_sync with sums of float and half
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

template <class Layout>
constexpr bool by_rows = std::is_same<Layout, wmma::row_major>::value;

// Whether two products, loaded and stored from `S` elements a line, are the matrices' own.
template <int M, int N, int K, class T, class Stored, class Sum, class A, class B>
__device__ bool multiplies(unsigned char* memory, wmma::layout_t order) {
    constexpr int S = 40;
    auto* a = reinterpret_cast<Stored*>(memory);
    auto* b = a + 32 * S;
    auto* c = reinterpret_cast<Sum*>(memory + 64 * S * sizeof(float));
    const int lane = threadIdx.x;
    for (int i = lane; i < 32 * S; i += 32) {
        a[i] = Stored(float(i * 7 % 11 - 5));
        b[i] = Stored(float(i * 5 % 7 - 3));
        c[i] = Sum(float(i % 5));
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, M, N, K, T, A> left;
    wmma::fragment<wmma::matrix_b, M, N, K, T, B> right;
    wmma::fragment<wmma::accumulator, M, N, K, Sum> sum;
    wmma::load_matrix_sync(left, a, S);
    wmma::load_matrix_sync(right, b, S);
    wmma::load_matrix_sync(sum, c, S, order);
    for (int i = 0; i < left.num_elements; i++) left.x[i] = left.x[i] + left.x[i];
    wmma::mma_sync(sum, left, right, sum);
    __syncwarp();
    wmma::store_matrix_sync(c, sum, S, order);
    __syncwarp();
    bool right_values = true;
    for (int i = lane; i < M * N; i += 32) {
        const int row = i / N, column = i % N;
        const int at = order == wmma::mem_row_major ? row * S + column : column * S + row;
        float expected = at % 5;
        for (int k = 0; k < K; k++) {
            expected += 2 * float(a[by_rows<A> ? row * S + k : k * S + row]) *
                        float(b[by_rows<B> ? k * S + column : column * S + k]);
        }
        right_values = right_values && float(c[at]) == expected;
    }
    __syncwarp();
    return right_values;
}

template <int M, int N, int K, class T, class Stored, class Sum>
__device__ bool all_orders(unsigned char* memory) {
    using R = wmma::row_major;
    using C = wmma::col_major;
    bool right = multiplies<M, N, K, T, Stored, Sum, R, R>(memory, wmma::mem_row_major);
    right = multiplies<M, N, K, T, Stored, Sum, R, C>(memory, wmma::mem_col_major) && right;
    right = multiplies<M, N, K, T, Stored, Sum, C, R>(memory, wmma::mem_col_major) && right;
    return multiplies<M, N, K, T, Stored, Sum, C, C>(memory, wmma::mem_row_major) && right;
}

// Each lane's sum: rows by groups of four lanes, then pairs of columns.
__device__ bool elements() {
    __shared__ alignas(32) float c[256];
    for (int i = threadIdx.x; i < 256; i += 32) c[i] = i;
    __syncwarp();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(sum, c, 16, wmma::mem_row_major);
    bool right = sum.num_elements == 8;
    for (int i = 0; i < sum.num_elements; i++) {
        const int row = threadIdx.x / 4 + i / 2 % 2 * 8, column = threadIdx.x % 4 * 2 + i % 2 + i / 4 * 8;
        right = right && sum.x[i] == row * 16 + column;
    }
    wmma::fill_fragment(sum, 2.5f);
    return right && sum.x[3] == 2.5f && wmma::__float_to_tf32(1.0f + 0x1p-11f) == 1.0f + 0x1p-10f;
}

__global__ void kernel(int* output, int n) {
    __shared__ alignas(32) unsigned char memory[3 * 32 * 40 * sizeof(float)];
    bool right = elements();
    right = all_orders<16, 16, 16, half, half, float>(memory) && right;
    right = all_orders<32, 8, 16, half, half, float>(memory) && right;  // another type
    right = all_orders<8, 32, 16, half, half, float>(memory) && right;  // another type
    right = all_orders<16, 16, 16, half, half, half>(memory) && right;  // another type
    right = all_orders<8, 32, 16, half, half, half>(memory) && right;  // another type
    right = all_orders<16, 16, 16, __nv_bfloat16, __nv_bfloat16, float>(memory) && right;  // another type
    right = all_orders<32, 8, 16, __nv_bfloat16, __nv_bfloat16, float>(memory) && right;  // another type
    right = all_orders<8, 32, 16, __nv_bfloat16, __nv_bfloat16, float>(memory) && right;  // another type
    right = all_orders<16, 16, 8, wmma::precision::tf32, float, float>(memory) && right;  // another type
    const bool all = __all_sync(0xffffffffu, right);
    for (int i = threadIdx.x; i < n; i += 32) output[i] = all;
}

extern "C" void feature(int* output, int n) { kernel<<<1, 32>>>(output, n); }
