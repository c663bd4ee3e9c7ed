"""Changes after what stands beside, and of loops: each undoes a mistake in a small text."""

import pytest

from grader.grading.edits import loop_edits, neighbour_edits
from grader.grading.edits.likely_edits import BITS_IF_SHARED, BITS_OF_STATUS, ranked
from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, changed_texts, scopes, without_blanks

RULES = (*neighbour_edits.RULES, *loop_edits.RULES)
TRITON = """
import triton
import triton.language as tl

@triton.jit
def k(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
      TURNS: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    first = pid_n * BN * TURNS
    ks = tl.arange(0, BK)
    stop = first + K + 1
    m = 0.0
    for _ in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptr + ks)
        scale = tl.exp(m - a)
        m = tl.maximum(m, a)
        ks += BK
    for i in range(TURNS):
        tl.store(out_ptr + first + i * BN, m)
    for start in range(0, stop, BK):
        tl.store(out_ptr + start, m)


def f(a, b, out):
    M, N = out.shape
    BM, BN, BK = 16, 32, 64
    k[(triton.cdiv(M, BM), triton.cdiv(N, BN))](a, b.t(), out, M, N, a.shape[1], BM, BN, BK, 2)
"""
CUDA = """
__global__ void k(const float4* in, float4* out, const float* w, int rows, int cols, int z) {
    const int bx = blockIdx.x, by = blockIdx.y, tid = threadIdx.x;
    const int x = bx * 32 + tid;
    const int y = by * 32 + tid;
    float4 v = in[x], u;
    u.x = v.x * 2.0f;
    u.y = v.y * 2.0f;
    const float* q = w + z * rows * cols;
    const float* p = w + y * rows * cols;
    float sum = 0.0f;
    for (int e = 0; e < 4; ++e) sums[e] = 0.0f;
    for (int s = 0; s < rows; s += 4) {
        for (int j = tid; j < cols; j += 32) out[j] = in[j] * w[j];
        sums[0] += w[s] / rows + q[s / rows] + p[s];
    }
}
extern "C" void f(const float4* in, float4* out, const float* w, int rows, int cols) {
    k<<<rows / 32, 32>>>(in, out, w, rows, cols, 1);
}
"""


ALIKE = """
__device__ float total(float* s) { return s[0]; }
__device__ int part(int head, int h) { return head * h; }
__global__ void k(const float* in, float* out, int z, int rows, int cols) {
    __shared__ float flat[TILE * PITCH], s[TILE], tile[TILE][TILE];
    const int tid = threadIdx.x, head = blockIdx.x;
    const int h = head % z;
    flat[tid * PITCH + h] = in[h * cols + tid];
    tile[h][tid ^ h] = expf(in[head]);
    for (int j = 0; j < TILE; ++j) out[j] = tile[tid][j ^ tid] * expf(s[j]);
    for (int j = 0; j < 8; ++j) {
        const int at = head + j;
        pair[at][tid + j] = in[at] * size.rows;
        out[at] = pair[tid + j][at] + size.cols - size.cols;
    }
    const int begin = part(head, h);
    out[blockIdx.x * blockDim.x * TILE] = 0.0f;
    const int last = min(begin + h, cols);
    for (int i = begin; i < last; ++i) out[i] = total(s);
    switch (z) {
        case 1:
            out[0] = s[0];
            break;
        case 2:
            out[1] = total(s) * expf(1.0f);
    }
}
extern "C" void f(const float* in, float* out, int z, int rows, int cols) {
    const int quarter = cols / 4;
    k<<<1, TILE>>>(in, out, z, rows, 4 * quarter);
}
"""


def check(text, right, wrong, name, is_triton):
    assert text.count(right) == 1
    mistaken = text.replace(right, wrong)
    made = [*changed_texts(RULES, mistaken, is_triton)]
    assert (name, without_blanks(text)) in made


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("cdiv(N, BN))](", "cdiv(N, BM))](", "axis_of"),
        ("pid_n * BN * TURNS", "pid_n * BN", "turns"),
        ("        ks += BK\n", "", "not_advanced"),
        ("+ K + 1", "+ K", "stop"),
        ("range(0, stop, BK)", "range(0, tl.cdiv(stop, BK))", "steps"),
        ("b.t()", "b", "view"),
        ("b.t()", "b.reshape(K, N)", "view"),
        (
            "        scale = tl.exp(m - a)\n        m = tl.maximum(m, a)\n",
            "        m = tl.maximum(m, a)\n        scale = tl.exp(m - a)\n",
            "order",
        ),
    ],
)
def test_a_mistake_in_triton_is_undone(right, wrong, name):
    check(TRITON, right, wrong, name, is_triton=True)


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("u.y = v.y", "u.y = v.x", "component"),
        ("u.y = v.y", "u.x = v.y", "component"),
        ("in[j] * w[j]", "in[j] * w[tid]", "odd_index"),
        ("in[j] * w[j]", "in[j] * w[blockIdx.x]", "odd_index"),
        ("bx * 32 + tid;\n    const int y = by", "by * 32 + tid;\n    const int y = bx", "names"),
        ("y * rows * cols", "y * cols * cols", "as_neighbour"),
        (
            "    for (int e = 0; e < 4; ++e) sums[e] = 0.0f;\n"
            "    for (int s = 0; s < rows; s += 4) {\n",
            "    for (int s = 0; s < rows; s += 4) {\n"
            "        for (int e = 0; e < 4; ++e) sums[e] = 0.0f;\n",
            "hoisted",
        ),
    ],
)
def test_a_mistake_in_cuda_is_undone(right, wrong, name):
    check(CUDA, right, wrong, name, is_triton=False)


def test_the_last_summand_of_the_other_indices_of_a_line_is_proposed():
    whole = CUDA.replace("out[j] = in[j] * w[j]", "out[z * cols + j] = in[z * cols + j] * w[j]")
    check(whole, "* w[j]", "* w[tid]", "odd_index", is_triton=False)


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("tile[tid][j ^ tid]", "tile[tid][j]", "as_elsewhere"),
        ("expf(in[head])", "exp2f(in[head])", "odd_function"),
        ("in[head]", "in[h]", "whole"),
        ("out[0] = s[0]", "out[0] = s[tid]", "whole_sum"),
        ("pair[tid + j][at]", "pair[tid][at]", "as_elsewhere"),
        ("part(head, h);", "part(tid, h);", "as_parameter"),
        ("blockIdx.x * blockDim.x * TILE", "blockIdx.x * blockDim.x", "turns"),
        ("+ size.cols", "+ size.rows", "name"),
        ("min(begin + h, cols)", "begin + h", "not_clamped"),
        ("            break;\n", "", "falls_through"),
        ("(in, out, z, rows, 4", "(out, in, z, rows, 4", "reordered"),
    ],
)
def test_a_mistake_is_undone_as_what_stands_beside_it_says(right, wrong, name):
    check(ALIKE, right, wrong, name, is_triton=False)


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("in[h * cols + tid]", "in[tid * cols + h]", "subscripts"),
        ("4 * quarter", "quarter", "product"),
    ],
)
def test_an_index_and_a_multiple_are_put_right(right, wrong, name):
    wrong_text = ALIKE.replace(right, wrong)
    made = [
        (edit.name, changed(wrong_text, edit).replace("(4*quarter)", "4*quarter"))
        for scope in scopes(wrong_text, False)
        for edit in edits_of(scope)
    ]
    assert (name, without_blanks(ALIKE)) in made


def test_two_sizes_of_one_line_are_of_each_others_axis():
    wrong = TRITON.replace("cdiv(M, BM), triton.cdiv(N, BN)", "cdiv(M, BN), triton.cdiv(N, BM)")
    made = [changed(wrong, edit) for scope in scopes(wrong, True) for edit in edits_of(scope)]
    assert without_blanks(TRITON) in made


def test_elements_that_several_conditions_leave_unfilled_are_filled_at_once():
    text = ALIKE.replace(
        "    flat[", "    if (h < rows) tile[0][h] = 1.0f;\n    if (h < z) s[h] = 2.0f;\n    flat["
    )
    edits = ranked(text, False, "f", "uninitialised_read", [], ("", ""), 400)
    whole = [each for each in edits if each["name"] == "fills" and len(each["changes"]) == 2]
    assert len(whole) == 1
    elsewhere = ranked(text, False, "f", "wrong_values", [], ("", ""), 400)
    costs = [each["cost"] for each in elsewhere if each["what"] == whole[0]["what"]]
    assert costs == [whole[0]["cost"] + BITS_OF_STATUS]


def test_a_launch_gets_no_number_of_blocks_that_no_size_changes():
    edits = ranked(ALIKE.replace("<<<1,", "<<<z,"), False, "f", "not_written", [], ("", ""), 400)
    assert not any(
        each["name"] == "name" and change["new"] in ("TILE", "PITCH")
        for each in edits
        for change in each["changes"]
        if ALIKE.count("\n", 0, ALIKE.index("k<<<1")) + 1 == each["line"]
    )


def test_a_mistake_that_was_copied_is_undone_at_all_its_places():
    right = CUDA.replace("rows / 32", "(rows + 31) / 32")
    wrong = right.replace("w[s] / rows", "w[s / rows]")
    edits = [edit for scope in scopes(wrong, False) for edit in edits_of(scope)]
    [both] = [each for each in edits if len(each.changes) == 2 and each.name == "rounded_down"]
    assert both.what.endswith("is left out, at both places")
    assert changed(wrong, both).count("((s+rows-1)/rows)") == 2


def test_components_of_the_grid_are_no_vectors():
    [kernel, _] = scopes(CUDA, False)
    assert not any("blockIdx" in edit.what for edit in neighbour_edits._components(kernel))


def test_a_helper_that_another_variant_uses_is_seldom_wrong():
    helper = "def h(v, rows, cols):\n    return v < rows\n\n\n"
    entry = "def f(v, rows, cols):\n    return h(v, rows, cols)\n"
    alone = ranked(helper + entry, True, "f", "wrong_values", [], ("", ""), 100)
    other = "\n\ndef g(v, rows, cols):\n    return h(v, rows, cols)\n"
    shared = ranked(helper + entry + other, True, "f", "wrong_values", [], ("", ""), 100)
    costs = [
        {each["what"]: each["cost"] for each in edits if each["line"] == 2}
        for edits in (alone, shared)
    ]
    [same] = [costs[0].keys() & costs[1].keys()]
    assert same
    assert all(costs[1][each] == costs[0][each] + BITS_IF_SHARED for each in same)
