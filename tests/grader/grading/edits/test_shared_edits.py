"""Threads of a block that exchange values: each change undoes a mistake."""

from __future__ import annotations

import pytest

from grader.grading.edits.likely_edits import ranked
from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, scopes, undone, without_blanks

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


HALVED = """
constexpr int TILE = 32;
constexpr int PART = 16;
__global__ void k(const float* in, float* out, int n) {
    float sums[TILE] = {0};
    __shared__ float a[TILE][TILE], b[TILE][TILE + 1];
    sums[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = sums[0] + a[0][0] + b[0][0];
}
extern "C" void f(const float* in, float* out, int n) {
    dim3 threads(TILE, PART);
    k<<<n, threads>>>(in, out, n);
}
"""


def test_an_array_with_a_first_value_is_shared_without_it():
    edits = [each for scope in scopes(HALVED, False) for each in edits_of(scope)]
    [shared] = [each for each in edits if each.what.startswith("`sums` isn't shared")]
    mended = HALVED.replace("float sums[TILE] = {0};", "__shared__ float sums[TILE];")
    assert changed(HALVED, shared) == without_blanks(mended)


def test_a_constant_too_small_for_all_arrays_is_undone_as_one():
    arrays = "a[TILE][TILE], b[TILE][TILE + 1]"
    assert "array_size" in undone(HALVED, arrays, arrays.replace("TILE", "PART"), is_triton=False)


def test_the_sides_of_a_block_that_are_exchanged_come_early():
    mistaken = HALVED.replace("(TILE, PART)", "(PART, TILE)")
    edits = ranked(mistaken, False, "f", "uninitialised_read", [9], ("", ""), 60)
    [edit] = [each for each in edits if "in `dim3 threads`" in each["what"]]
    assert edit["name"] == "exchanged"
