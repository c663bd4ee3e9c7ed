"""Undefined elements that atomics, gathers, histograms and descriptors make or use."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from .launching import launching

N = 5


def kinds(kernel: triton.JITFunction, *given: int | torch.Tensor, **constants: int) -> list[str]:
    """The findings of one program. It gets floats, integers, an output and, with `given`, more."""
    x, ones = torch.arange(8.0), torch.ones(8, dtype=torch.int32)
    with launching() as launches:
        kernel[(1,)](x, ones, torch.zeros(8), *given, **constants)
    return [each.kind for each in launches.findings]


@triton.jit
def masked_sum(x, ones, out, n, GUARDED: tl.constexpr):
    i = tl.arange(0, 8)
    old = tl.atomic_add(x + i, 0.0, mask=i < n)
    tl.store(out, tl.sum(tl.where(i < n, old, 0.0) if GUARDED else old, 0))


@triton.jit
def masked_scalar(x, ones, out, n, GUARDED: tl.constexpr):
    old = tl.atomic_xchg(ones, 2, mask=n < 0)
    if GUARDED:
        old = 1
    if old == 0:
        tl.store(out, 1.0)


@triton.jit
def mask_of_atomic(x, ones, out, n, GUARDED: tl.constexpr):
    i = tl.arange(0, 8)
    wanted = tl.load(ones + i, mask=i < n) > 0
    tl.atomic_xchg(out + i, 1.0, mask=wanted & (i < n) if GUARDED else wanted)


@triton.jit
def expected_value(x, ones, out, n, GUARDED: tl.constexpr):
    expected = tl.load(ones, mask=n < 0, other=0) if GUARDED else tl.load(ones, mask=n < 0)
    tl.atomic_cas(ones, expected, 3)


@triton.jit
def outside_of_the_block(x, ones, out, n, GUARDED: tl.constexpr):
    i = tl.arange(0, 8)
    after = tl.gather(tl.load(x + i), i + 1, 0)
    tl.store(out + i, tl.where(i < 7, after, 0.0) if GUARDED else after)


@triton.jit
def mask_of_histogram(x, ones, out, n, GUARDED: tl.constexpr):
    i = tl.arange(0, 8)
    wanted = tl.load(ones + i, mask=i < n) > 0
    counts = tl.histogram(i, 8, mask=wanted & (i < n) if GUARDED else wanted)
    tl.store(out + i, counts.to(tl.float32))


@triton.jit
def shape_of_descriptor(x, ones, out, n, GUARDED: tl.constexpr):
    length = tl.load(ones, mask=n < 0, other=8) if GUARDED else tl.load(ones, mask=n < 0)
    described = tl.make_tensor_descriptor(out, [length], [1], [8])
    described.store([0], tl.load(x + tl.arange(0, 8)))


@triton.jit
def start_in_descriptor(x, ones, out, n, GUARDED: tl.constexpr):
    start = tl.load(ones, mask=n < 0, other=0) if GUARDED else tl.load(ones, mask=n < 0)
    described = tl.make_tensor_descriptor(out, [8], [1], [8])
    described.atomic_add([start], tl.load(x + tl.arange(0, 8)))


@triton.jit
def row_to_descriptor(x, ones, out, n, GUARDED: tl.constexpr):
    i = tl.arange(0, 8)
    row = tl.load(x + i, mask=i < n, other=0.0) if GUARDED else tl.load(x + i, mask=i < n)
    described = tl.make_tensor_descriptor(out, [1, 8], [8, 1], [1, 8])
    described.store([0, 0], row.reshape(1, 8))


KERNELS = [
    *(masked_sum, masked_scalar, mask_of_atomic, expected_value, mask_of_histogram),
    *(shape_of_descriptor, start_in_descriptor, row_to_descriptor),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
def test_an_undefined_element_is_found_unless_nothing_depends_on_it(kernel) -> None:
    assert kinds(kernel, N, GUARDED=False) == ["uninitialised_read"]
    assert kinds(kernel, N, GUARDED=True) == []


def test_an_index_outside_of_a_gathers_block_is_found_unless_nothing_depends_on_it() -> None:
    assert kinds(outside_of_the_block, N, GUARDED=False) == ["gathered_outside"]
    assert kinds(outside_of_the_block, N, GUARDED=True) == []


@triton.jit
def constant_row(x, ones, out):
    described = tl.make_tensor_descriptor(out, [1, 8], [8, 1], [1, 8])
    described.store([0, 0], tl.full([8], 2.0, tl.float32).reshape(1, 8))


def test_a_constant_row_is_stored_by_a_descriptor_of_a_matrix() -> None:
    assert kinds(constant_row) == []
