"""Guards, indices and vectors of CUDA C++: each change undoes a mistake."""

import pytest

from grader.grading.edits.likely_edits import ranked
from tests.support.changed_texts import undone

CUDA = """
__global__ void k(const float* in, float* out, int n) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const float4 v = *reinterpret_cast<const float4*>(in + 4 * t);
    if (t < n) out[t] = in[t];
}
extern "C" void f(const float* in, float* out, int n) { k<<<1, 256>>>(in, out, n); }
"""


def test_vectors_that_are_added_to_a_pointer_as_elements_are_counted_in_elements():
    assert "vector_offset" in undone(CUDA, "(in + 4 * t)", "(in + t)", is_triton=False)


def test_an_unguarded_store_of_what_is_loaded_gets_a_condition():
    store = "out[t] = in[t];"
    assert "no_guard" in undone(CUDA, f"if (t < n) {store}", store, is_triton=False)


@pytest.mark.parametrize("left", ["if (t > n) return;", "if (n < t) {\n        return;\n    }"])
def test_a_return_that_compares_wrongly_is_changed_and_no_second_guard_is_asked_for(left: str):
    source = CUDA.replace("if (t < n) out[t]", f"{left}\n    out[t]")
    line = source[: source.index("out[t] =")].count("\n") + 1
    edits = ranked(source, False, "f", "wrote_out_of_bounds", [line], ("", ""), 20)
    assert "operator" in [each["name"] for each in edits[:10]]
    assert not any("`t < n` isn't checked" in each["what"] for each in edits)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * blockDim.x"),
        ("BLOCK * blockIdx.x + threadIdx.x", "BLOCK * blockIdx.x"),
    ],
)
def test_the_first_element_of_a_block_gives_way_to_each_thread_s_own(right: str, wrong: str):
    source = CUDA.replace("blockIdx.x * blockDim.x + threadIdx.x", right)
    assert "index" in undone(source, right, wrong, is_triton=False)


def test_an_argument_called_as_its_parameter_gives_way_to_a_parameter_that_nothing_reads():
    source = """
__device__ size_t at(int row, int col, int cols) { return row * cols + col; }
__global__ void k(const float* in, float* out, int rows, int cols) {
    const int row = blockIdx.x, col = threadIdx.x;
    out[at(col, row, rows)] = in[at(row, col, cols)];
}
extern "C" void f(const float* in, float* out, int rows, int cols) {
    k<<<rows, 64>>>(in, out, rows, cols);
}
"""
    assert "unused" in undone(source, "row, rows)", "row, cols)", is_triton=False)


def test_a_block_of_fewer_threads_than_an_index_counts_is_undone():
    source = CUDA.replace("blockIdx.x * blockDim.x", "blockIdx.x * 512").replace("1, 256", "1, 512")
    assert "threads" in undone(source, "<<<1, 512>>>", "<<<1, 256>>>", is_triton=False)


def test_a_copy_of_a_matrix_that_counts_elements_is_undone():
    counted = "d, 1, h, cols, 1, rows"
    bytes_ = "d, (1) * sizeof(float), h, (cols) * sizeof(float), (1) * sizeof(float), rows"
    source = """
extern "C" void f(const float* h, float* d, int rows, int cols) {
    cudaMemcpy2D(COPIED, cudaMemcpyHostToDevice);
}
""".replace("COPIED", bytes_)
    assert "bytes" in undone(source, bytes_, counted, is_triton=False)


def test_a_thread_of_a_block_goes_on_along_a_row_that_is_longer_than_its_block():
    source = """
__global__ void k(const float* in, float* out, int cols) {
    int c = threadIdx.x;
    for (; c < cols; c += blockDim.x) out[blockIdx.x * cols + c] = in[c];
}
extern "C" void f(const float* in, float* out, int cols) { k<<<8, 256>>>(in, out, cols); }
"""
    right, wrong = "for (; c < cols; c += blockDim.x)", "if (c < cols)"
    assert "one_block" in undone(source, right, wrong, is_triton=False)


def test_a_block_of_more_threads_than_its_array_has_elements_is_undone():
    source = """
constexpr int WIDTH = 64;
__global__ void k(const float* in, float* out) {
    __shared__ float part[WIDTH];
    part[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = part[threadIdx.x];
}
extern "C" void f(const float* in, float* out) { k<<<1, WIDTH>>>(in, out); }
"""
    assert "threads" in undone(source, "<<<1, WIDTH>>>", "<<<1, 1024>>>", is_triton=False)


@pytest.mark.parametrize("index", ["blockIdx.x * 32 + threadIdx.x", "b * LANES + t"])
def test_a_block_that_is_taken_to_be_a_warp_has_the_launch_s_threads(index: str):
    source = CUDA.replace("    const int t =", "    const int b = blockIdx.x;\n    const int i =")
    source = source.replace("const int b", "const int t = threadIdx.x;\n    const int b")
    right = "blockIdx.x * blockDim.x + threadIdx.x"
    named = "b * blockDim.x + t" if "LANES" in index else right
    assert "threads" in undone(source.replace(right, named), named, index, is_triton=False)
