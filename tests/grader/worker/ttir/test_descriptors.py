"""Tensor descriptors, of host and of device code, and block pointers."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.worker.ttir.executor import Launch, execute
from grader.worker.ttir.memory import Buffer, Memory
from grader.worker.ttir.text import read

from .launching import launching


@triton.jit
def _device(x, out, rows, columns, A: tl.constexpr, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [A, B])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [A, B])
    row, column = tl.program_id(0) * A, tl.program_id(1) * B
    for step in range(2):
        block = source.load([row, column])
        if step == 1:
            target.store([row, column], block * 2)


def test_descriptors_made_on_the_device():
    x, out = torch.randn(20, 40), torch.zeros(20, 40)
    with launching() as launches:
        _device[(2, 3)](x, out, 20, 40, A=16, B=16)
    assert launches.findings == []
    assert torch.equal(out, x * 2)


@triton.jit
def _host(source, target, A: tl.constexpr, B: tl.constexpr):
    row, column = tl.program_id(0) * A, tl.program_id(1) * B
    target.store([row, column], source.load([row, column]) + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_descriptors_of_host_code(dtype):
    x, out = torch.randn(20, 40).to(dtype), torch.zeros(20, 48, dtype=dtype)
    source = TensorDescriptor(x, [20, 40], [40, 1], [16, 16])
    target = TensorDescriptor(out, [20, 40], [48, 1], [16, 16])
    with launching() as launches:
        _host[(2, 3)](source, target, A=16, B=16)
    assert launches.findings == []
    assert torch.equal(out[:, :40], x + 1)
    assert (out[:, 40:] == 0).all()


@triton.jit
def _rows(x, out, index, rows, columns, N: tl.constexpr, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [1, B])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [1, B])
    at = tl.load(index + tl.arange(0, N))
    target.scatter(source.gather(at, 16), at, 0)


def test_gather_and_scatter_of_rows():
    x, out = torch.randn(20, 32), torch.zeros(20, 32)
    index = torch.tensor([3, 1, 19, 7, 25, 0, 2, 4], dtype=torch.int32)
    with launching() as launches:
        _rows[(1,)](x, out, index, 20, 32, N=8, B=16)
    assert launches.findings == []
    expected = torch.zeros(20, 32)
    for row in index.tolist():
        if row < 20:
            expected[row, :16] = x[row, 16:]
    assert torch.equal(out, expected)


@triton.jit
def _reduced(x, out, rows, columns, A: tl.constexpr, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [A, B])
    target = tl.make_tensor_descriptor(out, [A, columns], [columns, 1], [A, B])
    target.atomic_add([0, 0], source.load([tl.program_id(0) * A, 0]))


def test_reductions_into_memory():
    x, out = torch.randn(20, 16), torch.zeros(8, 16)
    with launching() as launches:
        _reduced[(3,)](x, out, 20, 16, A=8, B=16)
    assert launches.findings == []
    padded = torch.cat([x, torch.zeros(4, 16)]).reshape(3, 8, 16)
    torch.testing.assert_close(out, padded.sum(0))


def test_a_descriptor_larger_than_its_tensor():
    x, out = torch.randn(10, 40), torch.zeros(20, 40)
    with launching() as launches:
        _device[(2, 3)](x, out, 20, 40, A=16, B=16)
    (finding,) = launches.findings
    assert (finding.kind, finding.offset) == ("out_of_bounds_read", 1600)


@pytest.mark.parametrize(
    ("skipped", "columns", "offset"),
    [(1, 40, 0), (0, 42, 168), (2, 42, 0)],
    ids=["the start", "the rows", "both"],
)
@pytest.mark.parametrize("kernel", ["device", "host"])
def test_what_begins_between_multiples_of_16_bytes(kernel, skipped, columns, offset):
    x, out = torch.randn(20 * columns + 4)[skipped:], torch.zeros(20, 48)
    with launching() as launches:
        if kernel == "device":
            _device[(2, 3)](x, out, 20, columns, A=16, B=16)
        else:
            described = TensorDescriptor(torch.zeros(20, 48), [20, columns], [48, 1], [16, 16])
            described.base, described.strides = x, [columns, 1]  # as made of a planner's tensor
            target = TensorDescriptor(out, [20, 40], [48, 1], [16, 16])
            _host[(2, 3)](described, target, A=16, B=16)
    finding = launches.findings[0]
    assert (finding.kind, finding.width) == ("misaligned_tensor", 16)
    assert finding.offset == 4 * skipped + offset


# As Triton 3.6 writes it: later versions have no block pointers.
BLOCK_POINTERS = """
#loc = loc("k.py":1:1)
module {
  tt.func public @k(%x: !tt.ptr<f32> loc("x"(#loc)), %o: !tt.ptr<f32> loc("o"(#loc))) attributes {noinline = false} {
    %c0_i32 = arith.constant 0 : i32 loc(#loc)
    %c1_i64 = arith.constant 1 : i64 loc(#loc)
    %c10_i64 = arith.constant 10 : i64 loc(#loc)
    %c12_i64 = arith.constant 12 : i64 loc(#loc)
    %c4_i32 = arith.constant 4 : i32 loc(#loc)
    %p = tt.make_tensor_ptr %x, [%c10_i64, %c10_i64], [%c12_i64, %c1_i64], [%c0_i32, %c0_i32] {order = array<i32: 1, 0>} : <tensor<8x8xf32>> loc(#loc)
    %q = tt.advance %p, [%c4_i32, %c4_i32] : <tensor<8x8xf32>> loc(#loc)
    %v = tt.load %q {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<8x8xf32>> loc(#loc)
    %r = tt.make_tensor_ptr %o, [%c10_i64, %c10_i64], [%c10_i64, %c1_i64], [%c4_i32, %c4_i32] {order = array<i32: 1, 0>} : <tensor<8x8xf32>> loc(#loc)
    tt.store %r, %v {boundaryCheck = array<i32: 0, 1>} : !tt.ptr<tensor<8x8xf32>> loc(#loc)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""  # noqa: E501


def test_block_pointers():
    x, out = torch.randn(10, 12), torch.zeros(10, 10)
    memory = Memory([
        Buffer(x.view(torch.uint8).numpy().reshape(-1), 1 << 40),
        Buffer(out.view(torch.uint8).numpy().reshape(-1), 2 << 40),
    ])  # fmt: skip
    result = execute(Launch(read(BLOCK_POINTERS), (1, 1, 1), [1 << 40, 2 << 40]), memory)
    assert result.findings == []
    expected = torch.zeros(10, 10)
    expected[4:, 4:] = x[4:, 4:10]
    assert torch.equal(out, expected)
