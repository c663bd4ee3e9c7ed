"""Changes of formulas and of masks: powers, factors of an exponential, sides of a parenthesis."""

import pytest

from grader import spec
from grader.cases import oracle
from grader.grading import mutations
from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, scopes, without_blanks

TEXT = """
import triton
import triton.language as tl

@triton.jit
def k(x_ptr, w_ptr, out_ptr, n_cols, eps, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w_ptrs = w_ptr + offs
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        w = tl.load(w_ptrs, mask=offs < n_cols - start, other=0.0).to(tl.float32)
        total = total * tl.exp(w) + w
        w_ptrs += BLOCK
    x = tl.load(x_ptr + offs, mask=offs < n_cols).to(tl.float32)
    u = x + 0.5 * x * x * x
    y = tl.exp(2.0 * u) / tl.sqrt(x * x + eps) + tl.max(x, axis=0)
    tl.store(out_ptr + offs, y, mask=offs < n_cols)


def f(x, w, out):
    k[(4,)](x, w, out, x.numel(), 1e-5, BLOCK=64)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("x * x * x", "x * x", "`x * x` stands where `x * x * x` belongs"),
        ("x * x + eps", "x * x * x + eps", "`x * x * x` stands where `x * x` belongs"),
        ("exp(2.0 * u)", "exp(u)", "`exp(u)` stands where `exp(2.0 * u)` belongs"),
        ("sqrt(x * x + eps)", "sqrt(x * x) + eps", "where `sqrt(x * x + eps)` belongs"),
        ("sqrt(x * x + eps)", "sqrt(x * x + eps + 1)", "where `sqrt(x * x + eps) + 1` belongs"),
        ("total * tl.exp(w) + w", "(total + w) * tl.exp(w)", "multiplies the whole sum"),
        ("max(x, axis", "max(tl.abs(x), axis", "`tl.abs(x)` stands where `x` belongs"),
        ("pid * BLOCK", "pid * (BLOCK - 1)", "`BLOCK - 1` stands where `BLOCK` belongs"),
        ("offs < n_cols - start", "offs < n_cols", "is the same in each round"),
    ],
)
def test_a_mistake_in_a_formula_is_undone(right, wrong, words):
    text = TEXT.replace("tl.program_id(0) * BLOCK", "pid * BLOCK")
    text = text.replace("    offs = ", "    pid = tl.program_id(0)\n    offs = ")
    assert right in text
    mistaken = text.replace(right, wrong)
    undone = text
    if "+ 1" in wrong:
        undone = text.replace(right, f"{right} + 1")
    wanted = without_blanks(undone).translate(str.maketrans("", "", "()"))
    made = [
        edit.what
        for scope in scopes(mistaken, True)
        for edit in edits_of(scope)
        if changed(mistaken, edit).translate(str.maketrans("", "", "()")) == wanted
    ]
    assert any(words in what for what in made), made


def test_the_sides_of_an_exponent_are_exchanged():
    mistaken, right = (TEXT.replace("exp(w)", f"exp({each})") for each in ("u - w", "w - u"))
    edits = [each for scope in scopes(mistaken, True) for each in edits_of(scope)]
    made = {each.what for each in edits if changed(mistaken, each) == without_blanks(right)}
    assert "`u` and `w` are exchanged in this exponent" in made


CUDA = """
constexpr int TILE = 32;
constexpr int TILE_ROWS = 8;
__global__ void k(const float* in, float* out, int n) {
    __shared__ float tile[TILE][TILE];
    float sum = 0.0f;
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS) tile[i][threadIdx.x] = in[i * n];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += TILE_ROWS) sum = sum + tile[threadIdx.x][i];
    out[threadIdx.x] = 1.0f / 2 * sum;
}
extern "C" void f(const float* in, float* out, int n) {
    k<<<1, dim3(TILE, TILE_ROWS)>>>(in, out, n);
}
"""


@pytest.mark.parametrize(
    ("right", "wrong", "name", "words"),
    [
        ("tile[TILE][TILE]", "tile[TILE_ROWS][TILE]", "array_size", "`tile[TILE][TILE]` belongs"),
        ("1.0f / 2", "1 / 2", "whole_number", "`1 / 2` is a quotient of whole numbers"),
        ("+= TILE_ROWS) tile", "+= TILE) tile", "as_neighbour", "where `i += TILE_ROWS` belongs"),
    ],
)
def test_a_mistake_in_cuda_is_undone(right, wrong, name, words):
    mistaken = CUDA.replace(right, wrong)
    made = [
        each.what
        for scope in scopes(mistaken, False)
        for each in edits_of(scope)
        if each.name == name and changed(mistaken, each) == without_blanks(CUDA)
    ]
    assert made and words in made[0]


def test_a_sum_does_not_grow_by_zero_and_a_step_by_no_value():
    text = CUDA.replace(
        "for (int i = threadIdx.y; i < TILE; i += TILE_ROWS) sum =", "{sum = 0; sum ="
    )
    what = [each.what for scope in scopes(text, False) for each in edits_of(scope)]
    assert not any("+= 0" in each for each in what)


def test_of_long_code_the_part_that_differs_is_quoted():
    text = TEXT.replace(
        "w_ptrs = w_ptr + offs", f"w_ptrs = w_ptr + {' + '.join(['offs'] * 12)} * eps"
    )
    [scope] = [each for each in scopes(text, True) if each.function.is_kernel]
    start = text.index("w_ptr + offs")
    end = text.index(" * eps")
    edit = scope.instead("name", end - 4, end, "total", 1, (start, end + 6))
    assert edit.what == "`… offs + offs …` stands where `… offs + total …` belongs"


@pytest.mark.parametrize(("again", "is_moved"), [("", False), ("    out_ptr += x\n", True)])
def test_a_statement_is_too_much_where_nothing_would_read_its_value_behind_the_next(
    again, is_moved
):
    text = TEXT.replace(
        "    u = x", "    x = x * tl.sigmoid(x)\n    y = x * tl.sigmoid(x)\n    u = x"
    )
    body = text[text.index("    u = x") : text.index("    tl.store")]
    mistaken = text.replace(body, again)
    made = [
        (each.what, each.advice)
        for scope in scopes(mistaken, True)
        for each in edits_of(scope)
        if each.name == "order" and "x = x" in each.what
    ]
    assert made and all(("belongs behind it" in what) == is_moved for what, _ in made)
    assert is_moved or any("is a line too many" in what for what, _ in made)


GROUPS = """
@triton.jit
def k(out_ptr, tiles, n, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    first = pid // n * GROUP
    rows = tl.minimum(tiles - first, GROUP)
    pid_m = first + pid % n % rows
    pid_n = pid % n // rows
    tl.store(out_ptr + pid_m * n + pid_n, 0)


def f(out):
    k[(4,)](out, 4, 4, GROUP=2)
"""


def test_a_tile_of_a_group_is_split_by_one_number_of_rows():
    mistaken = GROUPS.replace("pid % n // rows", "pid % n // GROUP")
    made = {changed(mistaken, e) for scope in scopes(mistaken, True) for e in edits_of(scope)}
    assert without_blanks(GROUPS) in made


def test_a_power_of_a_formula_is_written_as_a_number():

    formulas = mutations.of(oracle.load(spec.load_all()["gelu"].oracle))
    what = [each.what for each in formulas]
    assert "`x ** 2` stands where `x ** 3` belongs" in what
