"""Threads of a block that exchange values: each change undoes a mistake."""

from __future__ import annotations

import pytest

from tests.support.changed_texts import undone

CUDA = """
constexpr int T = 32;
__global__ void turn(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[T][T];
    __shared__ float flat[T * T];
    for (int i = threadIdx.y; i < T; i += 8) {
        tile[i][(threadIdx.x ^ i)] = in[i * cols + threadIdx.x];
        flat[i * T + (threadIdx.x ^ i)] = in[i * cols + threadIdx.x];
    }
    __syncthreads();
    for (int i = threadIdx.y; i < T; i += 8) {
        out[i * rows + threadIdx.x] = tile[threadIdx.x][(i ^ threadIdx.x)];
        out[i * rows + threadIdx.x] += flat[threadIdx.x * T + (i ^ threadIdx.x)];
    }
}
__global__ void sums(const float* in, float* out, int n) {
    extern __shared__ float part[];
    __shared__ float mean;
    const int t = threadIdx.x;
    part[t] = t < n ? in[t] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 256; d *= 2) {
        if (t % (2 * d) == 0) part[t] += part[t + d];
        __syncthreads();
    }
    if (t == 0) mean = part[0] / n;
    __syncthreads();
    if (t < n) out[t] = in[t] - mean;
}
extern "C" void f(const float* in, float* out, int rows, int cols) {
    turn<<<1, dim3(32, 8)>>>(in, out, rows, cols);
    sums<<<1, 256, 1024>>>(in, out, cols);
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("__shared__ float tile[T][T];", "float tile[T][T];", "not_shared"),
        ("__shared__ float mean;", "float mean;", "not_shared"),
        ("t % (2 * d)", "t % d", "pairs"),
        ("flat[threadIdx.x * T + (i ^ threadIdx.x)]", "flat[threadIdx.x * T + i]", "swizzle"),
        ("tile[threadIdx.x][(i ^ threadIdx.x)]", "tile[threadIdx.x][i]", "swizzle"),
        ("tile[i][(threadIdx.x ^ i)]", "tile[i][threadIdx.x]", "swizzle"),
    ],
)
def test_a_mistake_in_what_threads_exchange_is_undone(right, wrong, name):
    assert name in undone(CUDA, right, wrong, is_triton=False)
