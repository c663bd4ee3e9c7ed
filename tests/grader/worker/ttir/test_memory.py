"""Loads and stores: bounds, alignment, masks, and values that nobody defined."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from grader.worker.ttir import wrapping
from grader.worker.ttir.executor import Launch, execute
from grader.worker.ttir.memory import Buffer, Memory, Zeros
from grader.worker.ttir.orders import sampled
from grader.worker.ttir.text import read

from .frontend import ttir
from .launching import launching


@triton.jit
def _copy(x, out, n, m, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, v, mask=i < m)


def _line(function, text):
    """The line of a kernel's source that has a text in it."""
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


def _finding(launches):
    (finding,) = launches.findings
    return finding


def test_a_load_out_of_bounds():
    x, out = torch.randn(100), torch.empty(128)
    with launching() as launches:
        _copy[(4,)](x, out, 103, 100, B=32)
    finding = _finding(launches)
    assert finding.kind == "out_of_bounds_read"
    assert finding.count == 3
    assert finding.program == (3, 0, 0)
    assert finding.offset == 400 and finding.width == 4
    assert finding.buffer.address == 1 << 40
    assert finding.line == _line(_copy, "tl.load")
    assert finding.file.endswith("test_memory.py")
    assert finding.kernel == "_copy"
    assert torch.equal(out[:100], x)


def test_a_store_out_of_bounds_is_dropped():
    x, out = torch.randn(128), torch.empty(100)
    with launching() as launches:
        _copy[(4,)](x, out, 128, 102, B=32)
    finding = _finding(launches)
    assert (finding.kind, finding.count, finding.offset) == ("out_of_bounds_write", 2, 400)
    assert finding.line == _line(_copy, "tl.store")
    assert torch.equal(out, x[:100])


@triton.jit
def _gather(x, out, step, n, B: tl.constexpr):
    lanes = tl.arange(0, B)
    i = tl.program_id(0) * B + lanes
    tl.store(out + i // step, tl.load(x + i), mask=lanes < n)


@pytest.mark.parametrize("lanes", [32, 30])  # of each block: without a mask, and with one
def test_elements_of_one_block_with_different_values_for_one_address(lanes):
    x, out = torch.arange(128, dtype=torch.float32), torch.zeros(32)
    with launching() as launches:
        _gather[(4,)](x, out, 4, lanes, B=32)
    finding = _finding(launches)
    assert (finding.kind, finding.program, finding.offset) == ("store_conflict", (0, 0, 0), 0)
    assert finding.count == 4 * (24 if lanes == 32 else 22)  # all but the last of each four
    assert finding.line == _line(_gather, "tl.store")


def test_elements_of_one_block_may_store_one_value_to_one_address():
    x, out = torch.arange(32, dtype=torch.float32).repeat_interleave(4), torch.zeros(32)
    with launching() as launches:
        _gather[(4,)](x, out, 4, 32, B=32)
        _gather[(4,)](torch.full((128,), torch.nan), torch.zeros(128), 1, 32, B=32)
    assert launches.findings == []
    assert torch.equal(out, torch.arange(32.0))


@triton.jit
def _to_one(x, out, B: tl.constexpr):
    tl.store(out + tl.arange(0, B), tl.load(x + tl.program_id(0) * B + tl.arange(0, B)))


def test_elements_of_two_programs_for_one_address_are_a_race_and_no_conflict():
    with launching() as launches:
        _to_one[(4,)](torch.arange(128.0), torch.zeros(32), B=32)
    assert "store_conflict" not in {each.kind for each in launches.findings}


def test_a_store_to_an_input():
    x, out = torch.randn(64), torch.zeros(64)
    with launching() as launches:
        launches.readonly.add(out.untyped_storage().data_ptr())
        _copy[(2,)](x, out, 64, 64, B=32)
    assert _finding(launches).kind == "out_of_bounds_write"
    assert (out == 0).all()


@triton.jit
def _before(x, out):
    tl.store(out, tl.load(x - 2))


def test_before_a_buffer():
    with launching() as launches:
        _before[(1,)](torch.ones(4), torch.ones(1))
    assert (_finding(launches).kind, _finding(launches).offset) == ("out_of_bounds_read", -8)


@triton.jit
def _cast(x, out, shift):
    wide = (x.to(tl.int64) + shift).to(tl.pointer_type(tl.int32))
    tl.store(out, tl.load(wide + tl.program_id(0)))


def test_misaligned():
    x, out = torch.arange(8, dtype=torch.int8), torch.zeros(1, dtype=torch.int32)
    with launching() as launches:
        _cast[(1,)](x, out, 2)
    assert _finding(launches).kind == "misaligned"
    with launching() as launches:
        _cast[(1,)](x, out, 4)
    assert launches.findings == []
    assert out.item() == 0x07060504


def test_buffers_may_begin_at_any_address():
    text = ttir(_copy, {"x": "*fp32", "out": "*fp32", "n": "i32", "m": "i32", "B": "constexpr"},
                {"B": 32})  # fmt: skip
    data, out = np.arange(65, dtype=np.uint8), np.zeros(64, np.uint8)
    buffers = [Buffer(data, (1 << 40) + 3), Buffer(out, (2 << 40) + 12)]
    launch = Launch(read(text), (1, 1, 1), [(1 << 40) + 4, (2 << 40) + 12, 16, 16])
    result = execute(launch, Memory(buffers))
    assert result.findings == []
    assert out.tolist() == list(range(1, 65))


# --- values that nobody defined -----------------------------------------------------------------


@triton.jit
def _sum(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out, tl.sum(v * 2))


@triton.jit
def _kept(x, out, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    mask = i < n
    v = tl.load(x + i, mask=mask)
    doubled = tl.exp(v) * 2
    total = tl.sum(tl.where(mask, doubled, 0.0))
    tl.store(out + i, doubled + total, mask=mask)


@triton.jit
def _branched(x, out, n):
    v = tl.load(x, mask=n > 3)
    if v > 0:
        tl.store(out, 1.0)


@triton.jit
def _indexed(x, table, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(table + i, mask=i < n)
    tl.store(out + i, tl.load(x + at, mask=i < n, other=1.0))


@triton.jit
def _dotted(x, y, out, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    a = tl.load(x + i * B + j, mask=j < n)
    b = tl.load(y + i * B + j, mask=i < n, other=0.0)
    tl.store(out + i * B + j, tl.dot(a, b))


def test_an_undefined_value_in_a_sum():
    with launching() as launches:
        _sum[(1,)](torch.ones(16), torch.ones(1), 10, B=16)
    finding = _finding(launches)
    assert finding.kind == "uninitialised_read"
    assert finding.line == _line(_sum, "tl.load")
    assert finding.other_line == _line(_sum, "tl.store")
    assert finding.buffer.address == 2 << 40
    with launching() as launches:
        _sum[(1,)](torch.ones(16), torch.ones(1), 16, B=16)
    assert launches.findings == []


def test_undefined_values_that_are_masked_off_later_are_fine():
    x, out = torch.randn(50), torch.empty(50)
    with launching() as launches:
        _kept[(4,)](x, out, 50, B=16)
    assert launches.findings == []
    doubled = x.exp() * 2
    totals = torch.stack([doubled[k : k + 16].sum() for k in range(0, 50, 16)])
    torch.testing.assert_close(out, doubled + totals.repeat_interleave(16)[:50])


def test_an_undefined_condition():
    with launching() as launches:
        _branched[(1,)](torch.ones(1), torch.ones(1), 2)
    finding = _finding(launches)
    assert finding.kind == "uninitialised_read"
    assert finding.other_line == _line(_branched, "if v > 0")
    with launching() as launches:
        _branched[(1,)](torch.ones(1), torch.ones(1), 4)
    assert launches.findings == []


def test_undefined_indices_under_a_mask_are_fine():
    table = torch.arange(16, dtype=torch.int32)
    x, out = torch.randn(16), torch.empty(16)
    with launching() as launches:
        _indexed[(1,)](x, table, out, 9, B=16)
    assert launches.findings == []
    assert torch.equal(out, torch.where(torch.arange(16) < 9, x, 1.0))


@triton.jit
def _flipped(x, out, n, SHIFT: tl.constexpr, B: tl.constexpr):
    """Stores the elements of a block backwards; with a shift of 1 also one that was masked off."""
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    v = tl.flip(tl.load(x + i * B + j, mask=j < n), 1)
    tl.store(out + i * B + j, v, mask=j >= B - n - SHIFT)


@triton.jit
def _mixed(x, out, n, AXIS: tl.constexpr):
    """The exclusive or of pairs, which exchanges nothing along the other axis."""
    i, j = tl.arange(0, 2)[:, None], tl.arange(0, 2)[None, :]
    v = tl.load(x + i * 2 + j, mask=j < n)
    other = tl.xor_sum(v, 1 - AXIS)
    v = v ^ tl.broadcast_to(tl.expand_dims(other, AXIS), (2, 2))
    tl.store(out + i * 2 + j, v, mask=j >= 1)


def test_undefined_elements_move_with_the_others_of_a_flipped_block():
    x, out = torch.randn(8, 8), torch.zeros(8, 8)
    with launching() as launches:
        _flipped[(1,)](x, out, 5, SHIFT=0, B=8)
    assert launches.findings == []
    assert torch.equal(out, torch.where(torch.arange(8) >= 3, x.flip(1), 0.0))
    with launching() as launches:
        _flipped[(1,)](x, out, 5, SHIFT=1, B=8)
    assert _finding(launches).kind == "uninitialised_read"


def test_an_exclusive_or_with_another_axis_sum_exchanges_nothing():
    x = torch.arange(4, dtype=torch.int32)
    with launching() as launches:
        _mixed[(1,)](x, torch.zeros(4, dtype=torch.int32), 1, AXIS=0)
    assert _finding(launches).kind == "uninitialised_read"
    with launching() as launches:
        _mixed[(1,)](x, torch.zeros(4, dtype=torch.int32), 1, AXIS=1)
    assert _finding(launches).kind == "uninitialised_read"


def test_an_undefined_factor_is_not_made_good_by_zero():
    x = torch.ones(16, 16)
    with launching() as launches:
        _dotted[(1,)](x, x, x.clone(), 10, B=16)
    assert _finding(launches).kind == "uninitialised_read"


@triton.jit
def _looped(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    last = tl.zeros((B,), tl.float32)
    total = tl.zeros((B,), tl.float32)
    for k in range(0, n, B):
        last = tl.load(x + k + i, mask=k + i < n)
        total += tl.where(k + i < n, last, 0.0)
    tl.store(out + i, total)
    tl.store(out + B + i, last)


def test_undefined_values_go_through_loops():
    with launching() as launches:
        _looped[(1,)](torch.ones(64), torch.zeros(64), 40, B=32)
    finding = _finding(launches)
    assert finding.other_line == _line(_looped, "tl.store(out + B + i, last)")
    assert finding.count == 24


@triton.jit
def _conjunction(x, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v, mask=(i < n) & (v > 0))


def test_a_mask_that_is_false_whatever_the_undefined_value():
    x, out = torch.tensor([1.0, -1.0] * 8), torch.zeros(16)
    with launching() as launches:
        _conjunction[(1,)](x, out, 10, B=16)
    assert launches.findings == []
    assert torch.equal(out, torch.where((torch.arange(16) < 10) & (x > 0), x, 0.0))


@triton.jit
def _weighted(x, w, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    weight = tl.load(w + i, mask=i < n)  # harmless: its lanes are masked off in the store
    v = tl.load(x + i, mask=i < n)  # culprit: its lanes reach the sum
    tl.store(out + i, weight * v * tl.sum(v * v), mask=i < n)


@triton.jit
def _chosen(x, w, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(w + i, mask=i < n)  # harmless: not chosen where it is undefined
    b = tl.load(x + i, mask=i < n - 1)  # culprit
    tl.store(out + i, tl.where(i < n, a, b))


@triton.jit
def _multiplied(x, w, out, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    a = tl.load(w + i * B + j, mask=i < n)  # harmless: rows that aren't stored
    b = tl.load(x + i * B + j, mask=i < n)  # culprit: every column has one of these
    tl.store(out + i * B + j, tl.dot(a, b), mask=i < n)


@triton.jit
def _side_by_side(x, w, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(w + i, mask=i < n)  # harmless: below n it is there
    b = tl.load(x + i, mask=i >= n)  # culprit
    both = tl.join(a, b)
    j = tl.arange(0, 2)[None, :]
    tl.store(out + 2 * i[:, None] + j, both, mask=(i < n)[:, None])


@triton.jit
def _carried(x, w, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    total = tl.load(w + i, mask=i < n)  # harmless
    for _ in range(n):
        v = tl.load(x + i, mask=i < n)  # culprit
        total += tl.max(v)
    tl.store(out + i, total, mask=i < n)


@triton.jit
def _totals(x, w, out, n, B: tl.constexpr):
    i = tl.arange(0, B)
    a = tl.load(w + i, mask=i < n)  # harmless: running totals behind it aren't stored
    b = tl.load(x + i, mask=i > 0)  # culprit: the first one is in every total
    tl.store(out + i, tl.associative_scan(a + b, 0, _smooth), mask=i < n)


@triton.jit
def _smooth(a, b):
    return a * 0.5 + b


@pytest.mark.parametrize(
    "kernel", [_weighted, _chosen, _multiplied, _side_by_side, _carried, _totals]
)
def test_of_several_undefined_values_the_one_that_matters_is_named(kernel):
    """What comes first in an expression may be undefined elsewhere."""
    with launching() as launches:
        kernel[(1,)](torch.ones(256), torch.ones(256), torch.zeros(256), 10, B=16)
    finding = _finding(launches)
    assert finding.kind == "uninitialised_read"
    assert finding.line == _line(kernel, "# culprit")


# --- several programs ---------------------------------------------------------------------------


@triton.jit
def _broadcast(x, out, A: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0)
    row = tl.load(x + tl.arange(0, B))[None, :] * pid
    column = tl.load(x + pid + tl.arange(0, A))[:, None]
    at = pid * A * B + tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out + at, row + column)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_blocks_that_are_equal_along_an_axis(dtype):
    x = torch.randint(-8, 8, (32,)).to(dtype)
    out = torch.empty(5, 4, 16, dtype=dtype)
    with launching() as launches:
        _broadcast[(5,)](x, out, A=4, B=16)
    expected = torch.stack([x[:16][None] * pid + x[pid : pid + 4][:, None] for pid in range(5)])
    assert torch.equal(out, expected)
    assert launches.findings == []


@triton.jit
def _wraps(x, out, n, IN_64: tl.constexpr, B: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64) if IN_64 else tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("in_64", [False, True])
def test_an_index_that_wraps_is_an_access_outside_of_buffers_without_memory(in_64):
    count = 3 << 30
    constants = {"IN_64": in_64, "B": 1024}
    signature = {"x": "*i8", "out": "*i8", "n": "i64", "IN_64": "constexpr", "B": "constexpr"}
    module, lines = read(ttir(_wraps, signature, constants)), []
    wrapping.watch(module, lines)
    base, far = 1 << 44, 1 << 45
    memory = Memory([Zeros(count, base), Zeros(count, far)])
    grid = (count // 1024, 1, 1)
    launch = Launch(module, grid, [base, far, count])
    found = execute(launch, memory, programs=sampled(grid[0])).findings
    if in_64:
        assert not found and not lines
    else:
        assert "out_of_bounds_write" in {each.kind for each in found}
        assert lines[0] == _line(_wraps, "pid * B")


@triton.jit
def _through_a_table(table, out, n, B: tl.constexpr):
    x = tl.load(table).to(tl.pointer_type(tl.int8))
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_a_pointer_that_was_loaded_from_memory_without_data_proves_nothing():
    signature = {"table": "*i64", "out": "*i8", "n": "i64", "B": "constexpr"}
    module = read(ttir(_through_a_table, signature, {"B": 1024}))
    memory = Memory([Zeros(8, 1 << 44), Zeros(1 << 20, 1 << 45)])
    launch = Launch(module, (1024, 1, 1), [1 << 44, 1 << 45, 1 << 20])
    assert execute(launch, memory, programs=sampled(1024)).findings == []
