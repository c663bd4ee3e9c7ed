"""Operations that make blocks or move their elements."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from grader.worker.ttir.errors import NotModelled

from .launching import launching


@triton.jit
def _moves(x, out, A: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    rows, columns = tl.arange(0, A), tl.arange(0, B)
    v = tl.load(x + pid * A * B + rows[:, None] * B + columns[None, :])
    turned = tl.trans(v)
    flat = tl.reshape(turned, [A * B])
    halves = tl.reshape(flat, [A * B // 2, 2])
    left, right = tl.split(halves)
    both = tl.interleave(right, left)
    joined = tl.join(left, right)
    cube = tl.permute(tl.reshape(joined, [A, B // 2, 2]), [2, 0, 1])
    tail = tl.reshape(cube, [A * B])
    i = tl.arange(0, A * B)
    tl.store(out + pid * 2 * A * B + i, both + 0.0)
    tl.store(out + pid * 2 * A * B + A * B + i, tail)


def test_transposes_reshapes_joins_and_splits():
    x, out = torch.randn(3, 4, 8), torch.empty(3, 2, 32)
    with launching() as launches:
        _moves[(3,)](x, out, A=4, B=8)
    for pid in range(3):
        flat = x[pid].t().reshape(-1)
        left, right = flat.reshape(-1, 2).unbind(-1)
        assert torch.equal(out[pid, 0], torch.stack([right, left], -1).reshape(-1))
        cube = torch.stack([left, right], -1).reshape(4, 4, 2).permute(2, 0, 1)
        assert torch.equal(out[pid, 1], cube.reshape(-1))
    assert launches.findings == []


@triton.jit
def _sorts(x, out, top, flipped, A: tl.constexpr, B: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.arange(0, A), tl.arange(0, B)
    at = rows[:, None] * B + columns[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.sort(v, descending=True))
    tl.store(flipped + at, tl.flip(v, 1))
    tl.store(top + rows[:, None] * K + tl.arange(0, K)[None, :], tl.topk(v, K))


def test_sort_topk_and_flip():
    x = torch.randn(4, 32)
    out, top, flipped = torch.empty_like(x), torch.empty(4, 8), torch.empty_like(x)
    with launching():
        _sorts[(1,)](x, out, top, flipped, A=4, B=32, K=8)
    assert torch.equal(out, x.sort(descending=True).values)
    assert torch.equal(top, x.topk(8).values)
    assert torch.equal(flipped, x.flip(1))


@triton.jit
def _counts(x, out, gathered, n, B: tl.constexpr, BINS: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(x + pid * B + i, mask=i < n, other=0)
    tl.store(out + pid * BINS + tl.arange(0, BINS), tl.histogram(v, BINS, mask=i < n))
    tl.store(gathered + pid * B + i, tl.gather(v, (B - 1) - i, 0))


def test_histogram_and_gather():
    x = torch.randint(0, 16, (2, 64), dtype=torch.int32)
    out, gathered = torch.empty(2, 16, dtype=torch.int32), torch.empty_like(x)
    with launching():
        _counts[(2,)](x, out, gathered, 50, B=64, BINS=16)
    for row in range(2):
        assert torch.equal(out[row], torch.bincount(x[row, :50], minlength=16).int())
        masked = torch.where(torch.arange(64) < 50, x[row], 0)
        assert torch.equal(gathered[row], masked.flip(0))


@triton.jit
def _pointers(a, b, table, out, n):
    pid = tl.program_id(0)
    i = tl.arange(0, 8)
    chosen = tl.where(pid % 2 == 0, a, b)
    mixed = tl.where(i % 2 == 0, a + i, b + i)
    nested = tl.load(table + pid).to(tl.pointer_type(tl.float32))
    value = tl.load(chosen + i) + tl.load(mixed) + tl.load(nested + i)
    tl.store(out + pid * 8 + i, value, mask=i < n)


def test_pointers_are_values():
    a, b = torch.randn(8), torch.randn(8)
    table = torch.tensor([2 << 40, 1 << 40])
    out = torch.full((2, 8), 7.0)
    with launching() as launches:
        _pointers[(2,)](a, b, table, out, 6)
    mixed = torch.where(torch.arange(8) % 2 == 0, a, b)
    expected = torch.stack([a + mixed + b, b + mixed + a])
    torch.testing.assert_close(out[:, :6], expected[:, :6])
    assert (out[:, 6:] == 7).all()
    assert launches.findings == []


@triton.jit
def _assembly(x):
    i = tl.arange(0, 4)
    value = tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r,r", [i], tl.int32, True, 1)
    tl.store(x + i, value)


@triton.jit
def _arithmetic(x, y, n):
    i = tl.arange(0, 8)
    v = tl.load(x + i, mask=i < n)
    a = tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [v], tl.float32, True, 1)
    a = tl.inline_asm_elementwise(
        """{ // twice
            .reg .f32 t, u;
            mul.f32 t, $1, 0f40000000;
            fma.rn.ftz.f32 u, t, $2, 0fBF800000;
            mov.f32 $0, u;
        }""",
        "=f, f, f", [a, v], tl.float32, True, 1,
    )  # fmt: skip
    tl.store(y + i, a, mask=i < n)
    b = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [v], tl.float32, True, 1)
    tl.store(y + 8 + i, b, mask=i < n)


def test_inline_assembly_of_arithmetic_is_executed():
    x = torch.linspace(-2, 2, 8)
    out = torch.full((16,), 9.0)
    with launching() as launches:
        _arithmetic[(1,)](x, out, 7)
    torch.testing.assert_close(out[:7], (2 * torch.exp2(x) * x - 1)[:7])
    torch.testing.assert_close(out[8:15], torch.tanh(x)[:7], rtol=2**-15, atol=0)
    assert (out[8:15] != torch.tanh(x)[:7]).any()
    assert out[[7, 15]].tolist() == [9, 9]
    assert launches.findings == []


@triton.jit
def _rounds_to_tf32(x, y, B: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    a = tl.inline_asm_elementwise("cvt.rna.tf32.f32 $0, $1;", "=r, r", [v], tl.float32, True, 1)
    tl.store(y + tl.arange(0, B), a)


def test_inline_assembly_rounds_float32_in_any_register_to_tf32():
    step = 2.0**-10  # between tf32's numbers from 1 to 2
    largest = torch.finfo(torch.float32).max
    x = torch.tensor([1 + step / 2, -1 - step / 2, 1 + step * 0.499, largest, torch.inf, torch.nan])
    x = torch.cat([x, torch.tensor([torch.finfo(torch.float32).tiny, 0.0])])
    y = torch.empty_like(x)
    with launching():
        _rounds_to_tf32[(1,)](x, y, B=8)
    expected = [1 + step, -1 - step, 1, torch.inf, torch.inf, torch.nan, x[6].item(), 0]
    torch.testing.assert_close(y, torch.tensor(expected), rtol=0, atol=0, equal_nan=True)


def test_other_inline_assembly_is_named_as_not_modelled():
    with launching(), pytest.raises(NotModelled, match=r"inline assembly.*smid") as raised:
        _assembly[(1,)](torch.empty(4, dtype=torch.int32))
    file, line = raised.value.line
    assert file.endswith("test_structure.py")
    assert line > 0


@triton.jit
def _random(out, seed, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.rand(seed, i))
    tl.store(out + 4 * B + i, tl.randint(seed, i).to(tl.uint32, bitcast=True).to(tl.float32))
    tl.store(out + 8 * B + i, tl.randn(seed, i))


def test_random_numbers_are_those_of_philox():
    out = torch.empty(3, 4096)
    with launching():
        _random[(4,)](out, 12345, B=1024)
    assert 0 <= out[0].min() < 0.01 and 0.99 < out[0].max() < 1
    assert abs(out[0].mean() - 0.5) < 0.03
    assert abs(out[2].mean()) < 0.1 and abs(out[2].std() - 1) < 0.1
    assert out[1, 0].item() == _philox(12345, 0)
    assert out[1, 4095].item() == _philox(12345, 4095)


def _philox(seed, offset):
    """The first of Philox 4x32's four numbers, rounded to float32."""
    c, key, low = [offset, 0, 0, 0], [seed, 0], 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ key[0], b & low, (a >> 32) ^ c[3] ^ key[1], a & low]
        key = [(key[0] + 0x9E3779B9) & low, (key[1] + 0xBB67AE85) & low]
    return torch.tensor(float(c[0]), dtype=torch.float32).item()


@triton.jit
def _any_order(x, out, sums, both, N: tl.constexpr):
    half = tl.arange(0, N // 2)
    v = tl.load(x + tl.arange(0, N))
    tl.store(out + tl.arange(0, N), tl.reshape(v, [N // 2, 2], can_reorder=True).reshape([N]))
    tl.store(sums, tl.sum(tl.ravel(v, can_reorder=True)))
    left, right = tl.load(x + half), tl.load(x + N // 2 + half)
    at = tl.cat(half, N // 2 + half, can_reorder=True)
    tl.store(both + at, tl.cat(left, right, can_reorder=True))


@pytest.mark.filterwarnings("ignore:.*can_reorder=True.* is deprecated")
def test_elements_that_may_be_reordered_are():
    x, out, both = torch.arange(16.0), torch.empty(16), torch.empty(16)
    sums = torch.empty(1)
    with launching():
        _any_order[(1,)](x, out, sums, both, N=16)
    assert not torch.equal(out, x) and torch.equal(out.sort().values, x)
    assert float(sums) == 120 and torch.equal(both, x)
