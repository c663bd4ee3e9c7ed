"""Matrix products of all types and precisions."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from .launching import launching


@triton.jit
def _dot(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, P: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    pid = tl.program_id(0)
    left = tl.load(a + pid * M * K + m * K + k[None, :])
    right = tl.load(b + k[:, None] * N + n)
    start = tl.full((M, N), 1, out.dtype.element_ty)
    product = tl.dot(left, right, start, input_precision=P, out_dtype=out.dtype.element_ty)
    tl.store(out + pid * M * N + m * N + n, product)


def _run(a, b, out_dtype, precision="ieee"):
    out = torch.empty(2, 16, 16, dtype=out_dtype)
    with launching() as launches:
        _dot[(2,)](a, b, out, M=16, N=16, K=a.shape[-1], P=precision)
    assert launches.findings == []
    return out


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn]
)
def test_products(dtype):
    a, b = torch.randn(2, 16, 32).to(dtype), torch.randn(32, 16).to(dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    out = _run(a, b, wide)
    torch.testing.assert_close(out.double(), a.double() @ b.double() + 1, atol=1e-4, rtol=1e-5)


def test_results_in_half_precision_are_rounded_after_each_16_products():
    drawn = torch.Generator().manual_seed(1)
    a, b = (torch.randn(*shape, generator=drawn).half() for shape in ((2, 16, 32), (32, 16)))
    out = _run(a, b, torch.float16)
    half = (a[..., :16].double() @ b[:16].double() + 1).half()
    expected = (half.double() + a[..., 16:].double() @ b[16:].double()).half()
    torch.testing.assert_close(out, expected, atol=2e-3, rtol=1e-3)
    assert (out == expected).double().mean() > 0.99


def test_a_sum_in_half_precision_is_rounded_on_the_way():
    """The sum starts at 1, where 16 products are less than half a unit and 64 are a whole one."""
    a = torch.full((2, 16, 64), 2.0**-8, dtype=torch.float16)
    b = torch.full((64, 16), 2.0**-8, dtype=torch.float16)
    assert (_run(a, b, torch.float16) == 1).all()
    assert (_run(a, b, torch.float32) == 1 + 2.0**-10).all()


def test_integers():
    a = torch.randint(-128, 128, (2, 16, 64), dtype=torch.int8)
    b = torch.randint(-128, 128, (64, 16), dtype=torch.int8)
    assert torch.equal(_run(a, b, torch.int32), (a.long() @ b.long() + 1).int())


def _truncated(x):
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


def test_tf32_is_what_tensor_cores_see():
    a, b = torch.randn(2, 16, 32), torch.randn(32, 16)
    out = _run(a, b, torch.float32, "tf32").double()
    expected = _truncated(a).double() @ _truncated(b).double() + 1
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-6)
    assert (out - (a.double() @ b.double() + 1)).abs().max() > 1e-4


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_split_precisions(precision):
    a, b = torch.randn(2, 16, 32), torch.randn(32, 16)
    error = (_run(a, b, torch.float32, precision).double() - (a.double() @ b.double() + 1)).abs()
    limit = 2e-3 if precision == "bf16x3" else 3e-5
    assert error.max() < limit


@triton.jit
def _batched(a, b, out, Z: tl.constexpr, M: tl.constexpr):
    z = tl.arange(0, Z)[:, None, None] * M * M
    at = z + tl.arange(0, M)[None, :, None] * M + tl.arange(0, M)[None, None, :]
    tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee"))


def test_batches():
    a, b, out = torch.randn(4, 16, 16), torch.randn(4, 16, 16), torch.empty(4, 16, 16)
    with launching():
        _batched[(1,)](a, b, out, Z=4, M=16)
    torch.testing.assert_close(out, a @ b)


@triton.jit
def _scaled(a, sa, b, sb, out, M: tl.constexpr, N: tl.constexpr, KA: tl.constexpr,
            KB: tl.constexpr, G: tl.constexpr, FA: tl.constexpr, FB: tl.constexpr):  # fmt: skip
    m, n, g = tl.arange(0, M), tl.arange(0, N), tl.arange(0, G)
    left = tl.load(a + m[:, None] * KA + tl.arange(0, KA)[None, :])
    right = tl.load(b + tl.arange(0, KB)[:, None] * N + n[None, :])
    scale_a = tl.load(sa + m[:, None] * G + g[None, :])
    scale_b = tl.load(sb + n[:, None] * G + g[None, :])
    tl.store(out + m[:, None] * N + n[None, :],
             tl.dot_scaled(left, scale_a, FA, right, scale_b, FB))  # fmt: skip


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _values(data, form, axis):
    if form == "e2m1":
        low, high = E2M1[(data & 15).long()], E2M1[(data >> 4).long()]
        shape = list(data.shape)
        shape[axis] *= 2
        return torch.stack([low, high], axis + 1).reshape(shape)
    return data.view(torch.float8_e4m3fn if form == "e4m3" else torch.float8_e5m2).float()


@pytest.mark.parametrize(("left", "right"), [("e2m1", "e2m1"), ("e4m3", "e5m2"), ("e4m3", "e2m1")])
def test_scaled_products(left, right):
    m, n, k = 32, 16, 64
    rows = k // 2 if left == "e2m1" else k
    columns = k // 2 if right == "e2m1" else k
    a = torch.randint(0, 0x78, (m, rows), dtype=torch.uint8)
    b = torch.randint(0, 0x78, (columns, n), dtype=torch.uint8)
    sa = torch.randint(120, 135, (m, k // 32), dtype=torch.uint8)
    sb = torch.randint(120, 135, (n, k // 32), dtype=torch.uint8)
    out = torch.empty(m, n)
    with launching() as launches:
        _scaled[(1,)](a, sa, b, sb, out, M=m, N=n, KA=rows, KB=columns, G=k // 32,
                      FA=left, FB=right)  # fmt: skip
    wide_a = _values(a, left, 1) * torch.exp2(sa.float() - 127).repeat_interleave(32, 1)
    wide_b = _values(b, right, 0) * torch.exp2(sb.float() - 127).repeat_interleave(32, 1).t()
    torch.testing.assert_close(out, (wide_a.double() @ wide_b.double()).float(), rtol=1e-4, atol=1)
    assert launches.findings == []
