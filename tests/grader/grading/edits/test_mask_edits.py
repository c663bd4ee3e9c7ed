"""Changes of masks, of groups of tiles and of what a launcher counts: each undoes a mistake."""

import pytest

from grader.grading.edits.proposals import edits_of
from tests.support.changed_texts import changed, scopes, undone, without_blanks

TEXT = """
import triton
import triton.language as tl

@triton.jit
def k(a_ptr, b_ptr, out_ptr, n_tiles, M, N, K, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    tiles_m = tl.cdiv(M, BLOCK)
    first = n_tiles * GROUP
    size = min(tiles_m - first, GROUP)
    offs_m = (first + size) * BLOCK + tl.arange(0, BLOCK)
    offs_n = tl.arange(0, BLOCK)
    for k in range(0, K, BLOCK):
        offs_k = k + tl.arange(0, BLOCK)
        a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
        a_mask = (offs_m[:, None] < M) & (offs_k[None, :] < K)
        a = tl.load(a_ptrs, mask=a_mask, other=0.0)
        b_mask = (offs_n[:, None] < N) & (offs_k[None, :] < K)
        b = tl.load(b_ptr + offs_n[:, None] * K + offs_k[None, :], b_mask, 0.0)
    e = tl.exp(-tl.abs(a))
    total = tl.sum(e * b, axis=1, keep_dims=True)
    ok = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], total, mask=ok)


def f(a, b, out):
    M, N = out.shape
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK"]),)
    k[grid](a, b, out, 2, M, N, a.shape[1], BLOCK=16, GROUP=4)
"""


def without_parentheses(text: str) -> str:
    return "".join(text.replace("(", "").replace(")", "").split())


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("ok = (offs_m[:, None] < M) & (offs_n[None, :] < N)", "ok = offs_m[:, None] < M", ""),
        ("(offs_m[:, None] < M) & (offs_k[None, :] < K)", "offs_m[:, None] < M", ""),
        ("min(tiles_m - first, GROUP)", "GROUP", "last_group"),
        ('triton.cdiv(M, meta["BLOCK"])', 'M // meta["BLOCK"]', "rounded_down"),
        (", axis=1, keep_dims=True", "", "axis"),
        ("-tl.abs(a)", "-a", "sign"),
        ("M, N = out.shape", "N, M = out.shape", "exchanged"),
        ("offs_k = k + tl", "offs_k = k * BLOCK + tl", "steps"),
    ],
)
def test_a_mistake_is_undone(right, wrong, name):
    assert right in TEXT
    mistaken = TEXT.replace(right, wrong)
    made = [
        (edit.name, without_parentheses(changed(mistaken, edit)))
        for scope in scopes(mistaken, True)
        for edit in edits_of(scope)
    ]
    assert (name or "mask_lacks", without_parentheses(TEXT)) in made


MOVING = """
import triton
import triton.language as tl

@triton.jit
def k(a_ptr, b_ptr, out_ptr, M, N, K, stride_am, stride_om, BLOCK_M: tl.constexpr,
      BLOCK_K: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * N + offs_m[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_M), dtype=tl.float32)
    for k in range({range}):
        a = tl.load(a_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :]{bound}), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_m[None, :] < N) & (offs_k[:, None]{bound}), other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    p = tl.softmax(total, dim=1)
    tl.store(out_ptr + offs_m[:, None] * N + offs_m[None, :], p, mask=offs_m[:, None] < M)


def f(a, b, out):
    M, N = out.shape
    k[(M,)](a, b, out, M, N, a.shape[1], a.stride(0), out.stride(0), BLOCK_M=16, BLOCK_K=16)
"""
STEPS = ("0, K, BLOCK_K", " < K - k"), ("0, tl.cdiv(K, BLOCK_K)", " < K - k * BLOCK_K")


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        (" & (offs_k[None, :]{bound})", "", "mask_lacks"),
        (" & (offs_k[None, :]{bound})| & (offs_k[:, None]{bound})", "", "mask_lacks"),
        ("total, dim=1", "total", "axis"),
        ("M, N, a.shape[1], a.stride(0)", "a.stride(0), M, N, a.shape[1]", "exchanged"),
    ],
)
def test_a_mistake_where_pointers_are_moved_on_is_undone(right, wrong, name, steps):
    mistaken = MOVING
    for each in right.split("|"):
        assert each in mistaken
        mistaken = mistaken.replace(each, wrong)
    whole, mistaken = (
        text.replace("{range}", steps[0]).replace("{bound}", steps[1])
        for text in (MOVING, mistaken)
    )
    made = [
        (edit.name, without_parentheses(changed(mistaken, edit)))
        for scope in scopes(mistaken, True)
        for edit in edits_of(scope)
    ]
    assert (name, without_parentheses(whole)) in made


TUNED = """
@triton.autotune(configs=CONFIGS, key=["M"])
@triton.jit
def k(a_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tl.store(out_ptr + tl.program_id(0), tl.load(a_ptr))


def f(a, out):
    M, N = out.shape
    BLOCK_M = 32
    grid = (triton.cdiv(M, 64) * triton.cdiv(N, 64),)
    k[grid](a, out, M, N)
    k[(triton.cdiv(M, 64),)](a, out, M, N)
"""


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (
            "(triton.cdiv(M, 64) * triton.cdiv(N, 64),)",
            'lambda META: (triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),)',
        ),
        ("k[(triton.cdiv(M, 64),)]", "k[(triton.cdiv(M, BLOCK_M),)]"),
        ("k[(triton.cdiv(M, 64),)]", "k[(M,)]"),
    ],
)
@pytest.mark.parametrize("beside", ["", "    key = lambda n: max(n, 16)\n"])
def test_a_grid_that_is_counted_with_numbers_takes_the_kernels_blocks(wrong, right, beside):
    text = TUNED.replace("    BLOCK_M = 32\n", f"    BLOCK_M = 32\n{beside}")
    made = {changed(text, edit) for scope in scopes(text, True) for edit in edits_of(scope)}
    assert "".join(text.replace(wrong, right).split()) in made


# Short upper-case names, as in textbooks: what is a pointer shows in what is done with it.
SHORT = """
import triton
import triton.language as tl

@triton.jit
def tile(A, C, M, K, sam, sak, scm, TM: tl.constexpr, TK: tl.constexpr):
    i = tl.program_id(0) * TM + tl.arange(0, TM)
    k = tl.arange(0, TK)
    pa = A + i[:, None] * sam + k[None, :] * sak
    most = tl.full((TM,), float("-inf"), tl.float32)
    src = A + tl.arange(0, TM)
    left = K
    while left > 0:
        most = tl.maximum(most, tl.load(src, mask=i < left, other=0.0))
        left -= TK
        src += TK
    for step in range(tl.cdiv(K, TK)):
        a = tl.load(pa, mask=(i[:, None] < M) & (k[None, :] < K - step * TK), other=0.0)
        most = tl.maximum(most, tl.max(a, 1))
        pa += TK * sak
    pc = C + i[:, None] * scm + k[None, :]
    tl.store(pc, most[:, None] + k * 0.0, mask=(i[:, None] < M) & (k[None, :] < K))


@triton.jit
def k(A, C, M, K, sam, sak, scm, TM: tl.constexpr, TK: tl.constexpr):
    tile(A, C, M, K, sam, sak, scm, TM, TK)


def f(A, C):
    M, K = A.shape
    k[lambda meta: (triton.cdiv(M, meta["TM"]),)](A, C, M, K, *A.stride(), C.stride(0))
"""


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("pa += TK * sak", "pa += TK * sam", "advance"),
        ('float("-inf")', "-1e30", "infinity"),
        ("tl.max(a, 1)", "tl.max(a, 0)", "number"),
        ("        src += TK\n", "", "not_advanced"),
        ('meta["TM"]', 'meta["TK"]', "axis_of"),
        (", mask=(i[:, None] < M) & (k[None, :] < K))", ", mask=(i[:, None] < M))", "mask_lacks"),
    ],
)
def test_a_mistake_among_short_names_is_undone(right, wrong, name):
    mistaken = SHORT.replace(right, wrong)
    assert mistaken != SHORT
    made = [
        (edit.name, without_parentheses(changed(mistaken, edit)))
        for scope in scopes(mistaken, True)
        for edit in edits_of(scope)
    ]
    assert (name, without_parentheses(SHORT)) in made


def test_what_is_filled_in_before_a_conversion_may_be_beyond_the_dtype():
    loaded = "tl.load(x_ptr + i, mask=i < n, other=FLOOR).to(tl.float32)"
    text = f"@triton.jit\ndef k(x_ptr, n):\n    i = tl.arange(0, 64)\n    x = {loaded}\n"
    text += "def f(x):\n    k[(1,)](x, x.numel())\n"
    made = [changed(text, edit) for scope in scopes(text, True) for edit in edits_of(scope)]
    right = text.replace(loaded, f"tl.where(i < n, {loaded}, FLOOR)")
    assert "".join(right.split()) in made


def test_a_pointer_is_one_whatever_its_name_and_no_size():
    for scope in scopes(SHORT, True):
        if scope.function.is_kernel:
            assert {*"AC"} <= scope.addresses
            assert scope.kinds["A"] == scope.kinds["C"] == "pointer"
            assert not {*"AC"} & scope.function.integers


FLAT = """
__global__ void k(const float* in, float* out, int n) {
    __shared__ float buf[16 * (16 + 1)];
    buf[threadIdx.y * (TILE + 1) + threadIdx.x] = in[threadIdx.y * n + threadIdx.x];
    __syncthreads();
    out[threadIdx.y * n + threadIdx.x] = buf[threadIdx.x * (TILE + 1) + threadIdx.y];
}
extern "C" void f(const float* in, float* out, int n) { k<<<1, dim3(16, 16)>>>(in, out, n); }
"""


def test_the_rows_of_a_flat_array_have_one_length():
    wrong = FLAT.replace("threadIdx.x * (TILE + 1)", "threadIdx.x * TILE")
    made = [
        (edit.name, changed(wrong, edit))
        for scope in scopes(wrong, False)
        for edit in edits_of(scope)
    ]
    assert ("pitch", "".join(FLAT.split())) in made
    assert not [each for name, each in made if name == "pitch" and "buf[threadIdx.y*n" in each]


def test_a_tile_without_a_mask_gets_the_bounds_that_its_indices_have_elsewhere():
    wrong = SHORT.replace(
        "tl.store(pc, most[:, None] + k * 0.0, mask=(i[:, None] < M) & (k[None, :] < K))",
        "tl.store(pc, most[:, None] + k * 0.0)",
    ).replace("k = tl.arange(0, TK)", "k = tl.arange(0, TK)\n    inside = k < K")
    told = [
        (edit.cost, edit.what)
        for scope in scopes(wrong, True)
        for edit in edits_of(scope)
        if edit.name == "without_mask" and "tl.store" in edit.what
    ]
    assert (1, "This `tl.store` lacks `mask=(i[:, None] < M) & (k[None, :] < K)`") in told


CROSSED = """
@triton.jit
def k(x_ptr, out_ptr, M, N, S, BLOCK: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    tile = tl.load(x_ptr + m[:, None] * S + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N))
    places = out_ptr + n[:, None] * M + m[None, :]
    tl.store(places, tl.trans(tile), mask=(n[:, None] < N) & (m[None, :] < M))


def f(x, out):
    k[(1,)](x, out, *x.shape, x.stride(0), BLOCK=16)
"""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("n[:, None] * M + m[None, :]", "n[None, :] * M + m[:, None]"),
        (
            "x_ptr + m[:, None] * S + n[None, :], mask=(m[:, None] < M) & (n[None, :] < N)",
            "x_ptr + m[None, :] * S + n[:, None], mask=(m[None, :] < M) & (n[:, None] < N)",
        ),
    ],
)
def test_two_indices_along_each_other_s_axis_are_turned_at_once(right, wrong):
    assert "subscripts" in undone(CROSSED, right, wrong, is_triton=True)


PER_COLUMN = """
@triton.jit
def k(x_ptr, w_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + cols, mask=cols < n, other=0.0)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=0.0)
    tl.store(out_ptr + row * stride + cols, x * w, mask=cols < n)


def f(x, w, out):
    k[(x.shape[0],)](x, w, out, x.stride(0), x.shape[1], BLOCK=16)
"""


@pytest.mark.parametrize("wrong", ["w_ptr + row", "w_ptr + row, mask=cols < n, other=0.0"])
def test_a_number_that_all_of_a_block_gets_may_be_one_for_each_element(wrong):
    right = "w_ptr + cols, mask=cols < n, other=0.0"
    assert "per_element" in undone(PER_COLUMN, right, wrong, is_triton=True)


def test_a_turned_view_is_read_along_its_rows():
    text = PER_COLUMN.replace("k[(x", "x = x.T\n    k[(x")
    right = text.replace("row * stride + cols", "row + cols * stride").replace(
        "x.stride(0)", "x.stride(1)"
    )
    made = [changed(text, edit) for scope in scopes(text, True) for edit in edits_of(scope)]
    assert without_blanks(right) in made


@pytest.mark.parametrize("wrong", ["*x.stride(), *x.stride(), *x", "*x.stride(), *w.stride(), *w"])
def test_each_tensor_s_strides_are_passed(wrong):
    right = "*x.stride(), *w.stride(), *out"
    text = PER_COLUMN.replace("x.stride(0), x", f"{right}.stride(), x")
    assert "stride" in undone(text, right, wrong, is_triton=True)


def test_offsets_from_the_end_of_a_row_are_masked_below_zero_too():
    right = "cols = n - BLOCK + tl.arange(0, BLOCK)"
    text = PER_COLUMN.replace("cols = tl.arange(0, BLOCK)", right)
    bounded = text.replace("cols < n", "(cols < n) & (cols >= 0)")
    made = [changed(text, edit) for scope in scopes(text, True) for edit in edits_of(scope)]
    assert without_blanks(bounded) in made
    assert not any("n-n+" in each for each in made)


def test_rows_counted_within_a_block_are_those_of_the_tensor_in_a_mask_of_a_block_too():
    right = "keep = m[:, None] >= n[None, :]"
    text = CROSSED.replace("m, n = tl", "n = tl.arange(0, BLOCK)\n    m = tl")
    text = text.replace(", tl.arange(0, BLOCK)\n    tile", f"\n    {right}\n    tile")
    wrong = "keep = tl.arange(0, BLOCK)[:, None] >= n[None, :]"
    assert "whole" in undone(text, right, wrong, is_triton=True)


def test_a_block_of_another_shape_is_turned():
    wrong = "tl.reshape(tile, (BLOCK, BLOCK))"
    assert "view" in undone(CROSSED, "tl.trans(tile)", wrong, is_triton=True)
