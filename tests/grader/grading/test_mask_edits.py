"""Changes of masks, of groups of tiles and of what a launcher counts: each undoes a mistake."""

import pytest

from grader.grading.edits import edits_of
from tests.support.changed_texts import changed, scopes

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
