"""Atomic operations: all kinds, masks, lanes that meet, and what they return."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from .launching import launching


@triton.jit
def _add(x, index, total, old, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index + i, mask=i < n, other=0)
    before = tl.atomic_add(total + at, tl.load(x + i, mask=i < n, other=0), mask=i < n)
    tl.store(old + i, before, mask=i < n)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float16])
def test_additions_return_what_was_there(dtype):
    x = torch.randint(1, 5, (50,)).to(dtype)
    index = torch.randint(0, 3, (50,))
    total, old = torch.zeros(3, dtype=dtype), torch.empty(50, dtype=dtype)
    with launching() as launches:
        _add[(4,)](x, index, total, old, 50, B=16)
    for place in range(3):
        chosen = x[index == place]
        assert total[place] == chosen.sum()
        before = chosen.cumsum(0).to(dtype) - chosen
        assert torch.equal(old[index == place], before)
    assert launches.findings == []


@triton.jit
def _all(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.atomic_add(out + i * 0, v)
    tl.atomic_max(out + 1 + i * 0, v)
    tl.atomic_min(out + 2 + i * 0, v)
    tl.atomic_and(out + 3 + i * 0, v)
    tl.atomic_or(out + 4 + i * 0, v)
    tl.atomic_xor(out + 5 + i * 0, v)
    tl.atomic_xchg(out + 6 + i * 0, v)
    tl.atomic_max(out + 7 + i * 0, v, mask=i < 3)


@pytest.mark.parametrize("unsigned", [False, True])
def test_all_kinds(unsigned):
    values = [5, -3, 12, 7, -100, 64, 9, 2]
    x = torch.tensor(values, dtype=torch.int32)
    out = torch.tensor([0, 1, 1, -1, 0, 0, 0, 0], dtype=torch.int32)
    given = (x.view(torch.uint32), out.view(torch.uint32)) if unsigned else (x, out)
    from . import launching as module

    module.TYPES.setdefault(torch.uint32, "u32")
    with launching():
        _all[(1,)](*given, B=8)
    bits = [value & 0xFFFFFFFF for value in values]
    order = bits if unsigned else values
    expected = [sum(values), max(order), min([*order, 1]), -1, 0, 0, 2, max(order[:3])]
    for value in values:
        expected[3] &= value
        expected[4] |= value
        expected[5] ^= value
    signed = [(value + 2**31) % 2**32 - 2**31 for value in expected]
    assert out.tolist() == signed


@triton.jit
def _floats(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_max(out + i * 0, v, mask=i < n)
    tl.atomic_min(out + 1 + i * 0, v, mask=i < n)
    tl.atomic_add(out + 2 + i * 0, v, mask=i < n)


def test_floats():
    x, out = torch.randn(100), torch.zeros(3)
    with launching() as launches:
        _floats[(4,)](x, out, 100, B=32)
    assert out[0] == x.max() and out[1] == x.min()
    torch.testing.assert_close(out[2], x.sum())
    assert launches.findings == []


def test_bfloat16_is_rounded_at_each_addition():
    x = torch.full((64,), 0.75, dtype=torch.bfloat16)
    out = torch.zeros(3, dtype=torch.bfloat16)

    @triton.jit
    def kernel(x, out, B: tl.constexpr):
        tl.atomic_add(out + tl.arange(0, B) * 0, tl.load(x + tl.arange(0, B)))

    with launching():
        kernel[(1,)](x, out, B=64)
    total = torch.zeros((), dtype=torch.bfloat16)
    for value in x:
        total = total + value
    assert out[0] == total


@triton.jit
def _swap(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    expected = tl.where(i % 2 == 0, i, -1)
    tl.store(out + i, tl.atomic_cas(x + i, expected, i + 100))


def test_compare_and_swap_of_blocks():
    x, out = torch.arange(8, dtype=torch.int32), torch.empty(8, dtype=torch.int32)
    with launching():
        _swap[(1,)](x, out, B=8)
    assert out.tolist() == list(range(8))
    assert x.tolist() == [100, 1, 102, 3, 104, 5, 106, 7]


def test_atomics_out_of_bounds():
    x, index = torch.ones(16), torch.arange(16)
    total, old = torch.zeros(10), torch.empty(16)
    with launching() as launches:
        _add[(1,)](x, index, total, old, 16, B=16)
    (finding,) = launches.findings
    assert (finding.kind, finding.count, finding.offset) == ("out_of_bounds_write", 6, 40)
    assert (total == 1).all()
