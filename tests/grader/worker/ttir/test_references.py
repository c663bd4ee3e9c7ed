"""Every reference kernel in every dtype, at odd sizes and strides, against float64."""

from __future__ import annotations

import pytest
import torch

from reference import flash_attention, gelu, gemm, rmsnorm, silu, softmax, transpose

from .launching import launching

TOLERANCES = {torch.float32: 2e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}
DTYPES = list(TOLERANCES)


GENERATOR = torch.Generator().manual_seed(3)


def _tensor(shape, dtype, pad=0, offset=0):
    """Random numbers; `pad` elements between rows, `offset` before the first."""
    row = shape[-1] + pad
    rows = 1
    for each in shape[:-1]:
        rows *= each
    whole = torch.randn(offset + rows * row, generator=GENERATOR).to(dtype)
    strides = [1]
    for size in (row, *reversed(shape[1:-1])):
        strides.insert(0, strides[0] * size)
    return torch.as_strided(whole, shape, strides[-len(shape) :], offset)


def _check(function, arguments, pairs):
    with launching() as launches:
        function(*arguments)
    assert launches.findings == []
    for out, expected in pairs:
        tolerance = TOLERANCES[arguments[0].dtype]
        torch.testing.assert_close(out.double(), expected.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "offset"), [(1, 0), (7, 3), (2048, 0), (5000, 1)])
def test_elementwise(dtype, n, offset):
    x, out = _tensor((n,), dtype, 0, offset), _tensor((n,), dtype)
    _check(silu.silu, [x, out], [(out, torch.nn.functional.silu(x.double()))])
    expected = torch.nn.functional.gelu(x.double(), approximate="tanh")
    _check(gelu.gelu, [x, out], [(out, expected)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "pad"), [(1, 1, 0), (3, 17, 5), (5, 1000, 3), (2, 5000, 8)])
def test_rows(dtype, m, n, pad):
    x, out, w = _tensor((m, n), dtype, pad), _tensor((m, n), dtype, 1), _tensor((n,), dtype)
    wide = x.double()
    for function in (softmax.softmax, softmax.softmax_online):
        _check(function, [x, out], [(out, wide.softmax(-1))])
    normed = wide * (wide.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * w.double()
    _check(rmsnorm.rmsnorm, [x, w, out, 1e-5], [(out, normed)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "pad"), [(1, 1, 0), (33, 257, 5), (130, 130, 0)])
def test_transposes(dtype, m, n, pad):
    x, out = _tensor((m, n), dtype, pad), _tensor((n, m), dtype, pad)
    for name in ("transpose_v1", "transpose_v2", "transpose_v3", "transpose_v4"):
        out.fill_(float("nan"))
        _check(getattr(transpose, name), [x, out], [(out, x.t())])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (33, 65, 17), (100, 130, 70)])
def test_products(dtype, m, n, k):
    a, out = _tensor((m, k), dtype, 3), _tensor((m, n), dtype)
    b = _tensor((n, k), dtype).t() if m == 100 else _tensor((k, n), dtype)
    for name in ("gemm_v1", "gemm_v2", "gemm_v3", "gemm_v4"):
        _check(getattr(gemm, name), [a, b, out], [(out, a.double() @ b.double())])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("queries", "keys", "width", "causal"),
    [(130, 130, 64, True), (65, 200, 32, False), (70, 33, 16, True)],
)
def test_attention(dtype, queries, keys, width, causal):
    q, out = _tensor((1, 2, queries, width), dtype), _tensor((1, 2, queries, width), dtype, 2)
    k, v = _tensor((1, 2, keys, width), dtype, 4), _tensor((1, 2, keys, width), dtype)
    lse = torch.empty(1, 2, queries)
    scores = q.double() @ k.double().transpose(-1, -2) * 0.125
    if causal:
        visible = torch.ones(queries, keys).tril(keys - queries).bool()
        scores = scores.masked_fill(~visible, float("-inf"))
    expected = scores.softmax(-1).nan_to_num(0) @ v.double()
    arguments = [q, k, v, out, lse, 0.125, causal]
    pairs = [(out, expected), (lse, scores.logsumexp(-1))]
    _check(flash_attention.flash_attention, arguments, pairs)
