"""Reductions, scans and map_elementwise, with all kinds of functions that combine elements."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from .launching import launching


@triton.jit
def _reduces(x, out, A: tl.constexpr, B: tl.constexpr):
    rows, columns = tl.arange(0, A), tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * A * B + rows[:, None] * B + columns[None, :])
    base = out + tl.program_id(0) * 8 * A
    tl.store(base + rows, tl.sum(v, 1))
    tl.store(base + A + rows, tl.max(v, 1))
    tl.store(base + 2 * A + rows, tl.min(v, 1))
    tl.store(base + 3 * A + rows, tl.argmax(v, 1).to(tl.float32))
    tl.store(base + 4 * A + rows, tl.argmin(v, 1).to(tl.float32))
    value, index = tl.max(v, 1, return_indices=True)
    tl.store(base + 5 * A + rows, value + index)
    tl.store(base + 6 * A + rows, tl.xor_sum((v * 8).to(tl.int32), 1).to(tl.float32))
    tl.store(base + 7 * A + rows, tl.sum(v) + tl.max(tl.sum(v, 0)))


def test_reductions():
    x = torch.randn(3, 4, 32)
    x[1, 2, 5] = x[1, 2, 9] = 10.0  # a tie: the first wins
    out = torch.empty(3, 8, 4)
    with launching() as launches:
        _reduces[(3,)](x, out, A=4, B=32)
    torch.testing.assert_close(out[:, 0], x.sum(-1))
    assert torch.equal(out[:, 1], x.amax(-1))
    assert torch.equal(out[:, 2], x.amin(-1))
    assert torch.equal(out[:, 3], x.argmax(-1).float())
    assert torch.equal(out[:, 4], x.argmin(-1).float())
    torch.testing.assert_close(out[:, 5], x.amax(-1) + x.argmax(-1))
    whole = (x * 8).int()
    expected = whole[..., 0]
    for i in range(1, 32):
        expected = expected ^ whole[..., i]
    assert torch.equal(out[:, 6], expected.float())
    torch.testing.assert_close(out[:, 7, 0], x.sum((1, 2)) + x.sum(1).amax(-1))
    assert launches.findings == []


@triton.jit
def _welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    share = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def _larger(a, b):
    if a > b:
        return a
    return b


@triton.jit
def _own(x, out, B: tl.constexpr):
    pid = tl.program_id(0)
    v = tl.load(x + pid * B + tl.arange(0, B))
    mean, m2, n = tl.reduce((v, v * 0, v * 0 + 1), 0, _welford)
    tl.store(out + pid * 4, mean)
    tl.store(out + pid * 4 + 1, m2 / n)
    tl.store(out + pid * 4 + 2, tl.reduce(v, 0, _larger))


def test_functions_of_ones_own():
    x, out = torch.randn(5, 64), torch.empty(5, 4)
    with launching():
        _own[(5,)](x, out, B=64)
    torch.testing.assert_close(out[:, 0], x.mean(1))
    torch.testing.assert_close(out[:, 1], x.var(1, correction=0))
    assert torch.equal(out[:, 2], x.amax(1))


@triton.jit
def _linear(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def _scans(x, out, A: tl.constexpr, B: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    v = tl.load(x + at)
    tl.store(out + at, tl.cumsum(v, 1, reverse=REVERSE))
    tl.store(out + A * B + at, tl.cumprod(v, 0, reverse=REVERSE))
    gate, state = tl.associative_scan((v * 0 + 0.5, v), 1, _linear, reverse=REVERSE)
    tl.store(out + 2 * A * B + at, state + 0 * gate)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans(reverse):
    x, out = torch.randn(8, 32), torch.empty(3, 8, 32)
    with launching():
        _scans[(1,)](x, out, A=8, B=32, REVERSE=reverse)

    def turned(t, axis):
        return t.flip(axis) if reverse else t

    torch.testing.assert_close(out[0], turned(turned(x, 1).cumsum(1), 1))
    torch.testing.assert_close(out[1], turned(turned(x, 0).cumprod(0), 0))
    state, states = torch.zeros(8), []
    for i in range(32):
        state = state * 0.5 + turned(x, 1)[:, i]
        states.append(state)
    torch.testing.assert_close(out[2], turned(torch.stack(states, 1), 1))


@triton.jit
def _half(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, tl.cumsum(v, 0))
    tl.store(out + B + i, v * 0 + tl.sum(v, 0))
    tl.store(out + 2 * B + i, v * 0 + tl.max(v, 0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_types(dtype):
    x = torch.randn(32).to(dtype)
    out = torch.empty(3, 32, dtype=dtype)
    with launching():
        _half[(1,)](x, out, B=32)
    tolerance = 0.1 if dtype == torch.bfloat16 else 0.02
    torch.testing.assert_close(out[0].float(), x.float().cumsum(0), atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(out[1, 0].float(), x.float().sum(), atol=tolerance, rtol=tolerance)
    assert out[2, 0] == x.max()


@triton.jit
def _selu(v):
    if v > 0:
        return v
    return tl.exp(v) - 1.0


@triton.jit
def _mapped(x, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.map_elementwise(_selu, tl.load(x + i)))


@pytest.mark.skipif(not hasattr(tl, "map_elementwise"), reason="this Triton has no map_elementwise")
def test_map_elementwise():
    x, out = torch.randn(64), torch.empty(64)
    with launching() as launches:
        _mapped[(2,)](x, out, B=32)
    assert "tt.map_elementwise" in launches.texts[0]
    torch.testing.assert_close(out, torch.where(x > 0, x, x.exp() - 1))
