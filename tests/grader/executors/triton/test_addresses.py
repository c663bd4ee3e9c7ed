"""Buffers lie at addresses that a GPU could give; integers stay what they are."""

from __future__ import annotations

import itertools

import pytest

from grader.status import Status
from grader.worker.ttir import addresses
from tests.support.planned import case, results

HEAD = """
import torch
import triton
import triton.language as tl


@triton.jit
def of(x_ptr, offs, n):
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0).to(tl.float32)
    return x * tl.sigmoid(x)


@triton.jit
def kernel(x_ptr, out_ptr, n, number, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    x_at = x_ptr.to(tl.int64, bitcast=True)
    out_at = out_ptr.to(tl.int64, bitcast=True)
    right = RIGHT
    tl.store(out_ptr + offs, tl.where(right, of(x_ptr, offs, n), 0.0), mask=offs < n)


def silu(x, out):
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), NUMBER, B=64)
"""
RIGHT = {
    "device memory's pages": ("(x_at >> 44 == 7) & (out_at >> 44 == 7) & (x_at != out_at)", "5"),
    "an allocation's alignment": ("(x_at % 512 == 0) & (out_at % 512 == 0)", "5"),
    "a size that once was the first buffer's address": ("number == 1 << 40", "1 << 40"),
    "one that was the second's": ("number == (2 << 40) + 64", "(2 << 40) + 64"),
    "an address of host code's": ("number == x_at", "x.data_ptr()"),
    "an address within": ("number == x_at + 4", "x.data_ptr() + 4"),
}


@pytest.mark.parametrize(("right", "number"), RIGHT.values(), ids=RIGHT)
def test_what_a_kernel_sees_of_addresses(sandbox, right, number) -> None:
    text = HEAD.replace("RIGHT", right).replace("NUMBER", number)
    for shown in results(sandbox, "silu", text, [case("float32", n=n) for n in (7, 1000)]):
        assert shown.status is Status.passed, shown


def test_no_address_is_the_same_in_every_case(sandbox) -> None:
    text = HEAD.replace("RIGHT", "x_at == number").replace(
        "NUMBER", str(addresses.drawn([4], 1)[0])
    )
    assert results(sandbox, "silu", text, [case("float32", n=7)])[0].status is not Status.passed


def test_pointers_that_a_call_left_in_memory_lead_to_their_buffers_in_the_next(sandbox) -> None:
    text = (
        HEAD[: HEAD.index("@triton.jit\ndef kernel")]
        + """
@triton.jit
def table(w_ptr, table_ptr):
    tl.store(table_ptr, w_ptr.to(tl.int64, bitcast=True))


@triton.jit
def kernel(x_ptr, out_ptr, table_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    w_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(w_ptr + offs, of(x_ptr, offs, n), mask=offs < n)
    tl.debug_barrier()
    tl.store(out_ptr + offs, tl.load(w_ptr + offs, mask=offs < n), mask=offs < n)


kept = {}


def silu(x, out):
    if x.data_ptr() not in kept:
        w = torch.empty(x.numel(), dtype=torch.float32, device=x.device)
        kept[x.data_ptr()] = w, torch.empty(1, dtype=torch.int64, device=x.device)
        table[(1,)](*kept[x.data_ptr()])
    kernel[(triton.cdiv(x.numel(), 64),)](x, out, kept[x.data_ptr()][1], x.numel(), B=64)
"""
    )
    shown = results(sandbox, "silu", text, [case("float32", n=1000)])[0]
    assert shown.status is Status.passed, shown


@pytest.mark.parametrize("sizes", [[], [0], [4, 0, 7 << 30], [1 << 20] * 4096])
def test_drawn_addresses_are_those_of_a_gpu_and_far_apart(sizes) -> None:
    found = addresses.drawn(sizes, 3)
    assert found == addresses.drawn(sizes, 3)
    assert not sizes or found != addresses.drawn(sizes, 4)
    ends = sorted((at, at + size) for at, size in zip(found, sizes, strict=True))
    for low, high in ends:
        assert addresses.LOWEST <= low <= high <= addresses.HIGHEST
        assert low % addresses.ALIGNMENT == 0
    for (_, high), (low, _) in itertools.pairwise(ends):
        assert low - high >= 1 << 29
