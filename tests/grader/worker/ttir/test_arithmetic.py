"""Elementwise operations on integers and floating-point numbers, and conversions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from .launching import launching


@triton.jit
def _integers(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + B + i, a * b)
    tl.store(out + 2 * B + i, a // b)
    tl.store(out + 3 * B + i, a % b)
    tl.store(out + 4 * B + i, a >> (b & 7))
    tl.store(out + 5 * B + i, a << (b & 7))
    tl.store(out + 6 * B + i, tl.maximum(a, b) - tl.minimum(a, b))
    tl.store(out + 7 * B + i, (a < b).to(out.dtype.element_ty))
    tl.store(out + 8 * B + i, ~a ^ (a & b) | b)
    tl.store(out + 9 * B + i, tl.cdiv(a, b))


def _wrapped(value, bits, signed):
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_integers(bits, signed):
    generator = np.random.default_rng(bits)
    top = (1 << bits) - 1
    a = [int(v) % (top + 1) for v in generator.integers(0, 2**63, 64, dtype=np.uint64)]
    b = [int(v) % (top + 1) for v in generator.integers(1, 2**63, 64, dtype=np.uint64)]
    a[:4], b[:4] = [top, 7, 1 << (bits - 1), 100], [3, (top - 2) & top, 5, 1]
    a, b = ([_wrapped(v, bits, signed) or 1 for v in each] for each in (a, b))
    dtype = f"{'i' if signed else 'u'}{bits // 8}"
    from . import launching as module

    for name in ("uint16", "uint32", "uint64"):
        module.TYPES.setdefault(getattr(torch, name), f"u{name[4:]}")
    x, y = (torch.from_numpy(np.array(each, dtype)) for each in (a, b))
    out = torch.from_numpy(np.zeros((10, 64), dtype))
    with launching() as launches:
        _integers[(1,)](x, y, out, B=64)
    assert launches.findings == []

    def quotient(p, q):
        return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)

    def check(row, function):
        expected = [_wrapped(function(p, q), bits, signed) for p, q in zip(a, b, strict=True)]
        assert out[row].tolist() == expected

    check(0, lambda p, q: p + q)
    check(1, lambda p, q: p * q)
    check(2, quotient)
    check(3, lambda p, q: p - q * quotient(p, q))
    check(4, lambda p, q: p >> (q & 7))
    check(5, lambda p, q: p << (q & 7))
    check(6, lambda p, q: max(p, q) - min(p, q))
    check(7, lambda p, q: int(p < q))
    check(8, lambda p, q: (~p ^ (p & q)) | q)
    check(9, lambda p, q: quotient(_wrapped(_wrapped(p + q, bits, signed) - 1, bits, signed), q))


@triton.jit
def _floats(x, y, out, B: tl.constexpr, SINGLE: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.exp(a) + tl.exp2(b) - tl.log(a) * tl.log2(b))
    tl.store(out + B + i, tl.sin(a) + tl.cos(b) + tl.sqrt(a) + tl.rsqrt(b))
    exact = tl.sqrt_rn(a) + tl.div_rn(a, b) if SINGLE else tl.sqrt(a) + a / b
    tl.store(out + 2 * B + i, exact + tl.fdiv(a, b) + a / b)
    tl.store(out + 3 * B + i, tl.erf(a) + tl.abs(-a) + tl.floor(b * 9) + tl.ceil(a * 9))
    tl.store(out + 4 * B + i, tl.fma(a, b, a) + tl.clamp(a, 0.2, 0.7) + tl.sigmoid(b))
    tl.store(out + 5 * B + i, (a * 9) % b)
    tl.store(out + 6 * B + i, tl.softmax(a) + tl.maximum(a, b) + tl.where(a > b, a, -b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions(dtype):
    x, y = torch.rand(2, 64, dtype=dtype) + 0.1
    out = torch.empty(7, 64, dtype=dtype)
    with launching():
        _floats[(1,)](x, y, out, B=64, SINGLE=dtype == torch.float32)
    expected = [
        x.exp() + y.exp2() - x.log() * y.log2(),
        x.sin() + y.cos() + x.sqrt() + y.rsqrt(),
        x.sqrt() + 3 * x / y,
        torch.erf(x) + x + (y * 9).floor() + (x * 9).ceil(),
        x * y + x + x.clamp(0.2, 0.7) + y.sigmoid(),
        torch.fmod(x * 9, y),
        x.softmax(0) + torch.maximum(x, y) + torch.where(x > y, x, -y),
    ]
    tolerance = 3e-6 if dtype == torch.float32 else 1e-6
    for row in (0, 1, 2, 3, 4, 6):
        torch.testing.assert_close(out[row], expected[row], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(out[5], expected[5], rtol=1e-4, atol=1e-5)


@triton.jit
def _narrow(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a + b)
    tl.store(out + B + i, a * b - a)
    tl.store(out + 2 * B + i, a / b)
    tl.store(out + 3 * B + i, tl.maximum(a, -b))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats_are_rounded_after_each_operation(dtype):
    x, y = torch.randn(2, 256).to(dtype)
    out = torch.empty(4, 256, dtype=dtype)
    with launching():
        _narrow[(1,)](x, y, out, B=256)
    assert torch.equal(out[0], x + y)
    assert torch.equal(out[1], x * y - x)
    assert torch.equal(out[2].float(), (x.float() / y.float()).to(dtype).float())
    assert torch.equal(out[3], torch.maximum(x, -y))


@triton.jit
def _nan(x, y, out, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, tl.maximum(a, b))
    tl.store(out + B + i, tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 2 * B + i, tl.clamp(a, -1.0, 1.0))
    tl.store(out + 3 * B + i, tl.clamp(a, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL))
    tl.store(out + 4 * B + i, (a < b).to(tl.float32) + 2 * (a != b) + 4 * (a == b) + 8 * (a >= b))


def test_nan():
    nan = float("nan")
    x, y = torch.tensor([nan, 1.0, nan, -3.0]), torch.tensor([2.0, nan, nan, 2.0])
    out = torch.empty(5, 4)
    with launching():
        _nan[(1,)](x, y, out, B=4)
    expected = torch.tensor([
        [2.0, 1.0, nan, 2.0], [nan, nan, nan, 2.0], [-1.0, 1.0, -1.0, -1.0],
        [nan, 1.0, nan, -1.0], [2.0, 2.0, 2.0, 3.0],
    ])  # fmt: skip
    torch.testing.assert_close(out, expected, equal_nan=True, rtol=0, atol=0)


@triton.jit
def _casts(x, out, B: tl.constexpr, ROUNDING: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, v.to(out.dtype.element_ty, fp_downcast_rounding=ROUNDING))


def _cast(x, dtype, rounding=None):
    out = torch.zeros(x.numel(), dtype=dtype)
    with launching() as launches:
        _casts[(1,)](x, out, B=x.numel(), ROUNDING=rounding)
    assert launches.findings == []
    return out


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float8_e5m2])
@pytest.mark.parametrize("source", [torch.float32, torch.float64])
def test_narrowing_to_nearest(source, target):
    if source == torch.float64 and target == torch.float8_e5m2:
        pytest.skip("Triton has no such conversion")
    x = torch.cat([torch.randn(120), torch.tensor([0.0, -0.0, 1e-8, 1e-5, 3e4, -3e4, 1e-40, 2.0])])
    x = x.to(source)
    out = _cast(x, target)
    assert torch.equal(out.view(torch.uint8), x.to(target).view(torch.uint8))


def test_float8_saturates():
    x = torch.tensor([1000.0, -1e9, 448.0, 464.0, 449.0, float("nan"), 0.001, 17.0])
    out = _cast(x, torch.float8_e4m3fn)
    assert out.float()[:5].tolist() == [448.0, -448.0, 448.0, 448.0, 448.0]
    assert out.float()[5].isnan()
    assert torch.equal(out[6:].float(), x[6:].to(torch.float8_e4m3fn).float())


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16])
def test_narrowing_towards_zero(target):
    x = torch.randn(64) * 100
    out = _cast(x, target, "rtz").float()
    nearest = x.to(target)
    assert (out.abs() <= x.abs()).all()
    assert ((out == nearest.float()) | (nearest.float().abs() > x.abs())).all()
    assert (out != nearest.float()).any()


def test_widening_float8():
    codes = torch.arange(256, dtype=torch.int16).to(torch.uint8)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        out = _cast(codes.view(dtype), torch.float32)
        torch.testing.assert_close(out, codes.view(dtype).float(), equal_nan=True, rtol=0, atol=0)


def test_floats_to_integers_and_back():
    x = torch.tensor([1.9, -1.9, 3e9, -3e9, float("nan"), float("inf"), 0.0, 2.0**31])
    out = _cast(x, torch.int32)
    top = 2**31 - 1
    assert out.tolist() == [1, -1, top, -(2**31), 0, top, 0, top]
    whole = torch.tensor([2**24 + 1, -(2**31), 5, 2**31 - 1], dtype=torch.int32)
    assert torch.equal(_cast(whole, torch.float32), whole.float())
    assert torch.equal(_cast(whole, torch.bfloat16), whole.bfloat16())
    assert _cast(torch.tensor([0.0, 0.5, -2.0, 3.0]), torch.bool).tolist() == [0, 1, 1, 1]


@triton.jit
def _bits(x, out, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(out + i, v.to(out.dtype.element_ty, bitcast=True))


@pytest.mark.parametrize(
    ("source", "target"),
    [(torch.float32, torch.int32), (torch.int16, torch.bfloat16), (torch.float16, torch.int16)],
)
def test_bitcasts(source, target):
    x = torch.randn(32).to(source) if source.is_floating_point else torch.arange(32).to(source)
    out = torch.zeros(32, dtype=target)
    with launching():
        _bits[(1,)](x, out, B=32)
    assert torch.equal(out, x.view(target))
