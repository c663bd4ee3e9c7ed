"""What kernels print and assert, and the limits of an execution."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from grader.worker.ttir.errors import LimitExceeded
from grader.worker.ttir.observer import Observer
from grader.worker.ttir.state import Limits

from .launching import launching


@triton.jit
def _print(x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    if tl.program_id(0) == 1:
        tl.device_print("v", tl.load(x + i), n)
        tl.device_print("hex", i - 1, hex=True)
        tl.device_print("here")


def test_prints_look_like_those_of_a_gpu():
    with launching() as launches:
        _print[(3,)](torch.tensor([1.5, -2.0]), 7, B=2)
    assert launches.results[0].printed.splitlines() == [
        "pid (1, 0, 0) idx (0) v: (operand 0) 1.500000",
        "pid (1, 0, 0) idx (1) v: (operand 0) -2.000000",
        "pid (1, 0, 0) idx () v: (operand 1) 7",
        "pid (1, 0, 0) idx (0) hex: 0xffffffff",
        "pid (1, 0, 0) idx (1) hex: 0x00000000",
        "pid (1, 0, 0) here",
    ]


@triton.jit
def _print_an_attribute(B: tl.constexpr):
    tl.device_print("isSigned = array<i32: 0>", tl.arange(0, B) - 1)


def test_a_printed_text_is_read_as_no_attribute():
    with launching() as launches:
        _print_an_attribute[(1,)](B=2)
    first, second = launches.results[0].printed.splitlines()
    assert (first[-4:], second[-3:]) == (": -1", ": 0")


def test_printing_is_bounded():
    with launching(limits=Limits(printed=100)) as launches:
        _print[(3,)](torch.tensor([1.5, -2.0]), 7, B=2)
    assert len(launches.results[0].printed) == 100


@triton.jit
def _assert(x, out, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i)
    tl.device_assert(v < 10, "below ten")
    tl.store(out + i, v)


def test_assertions_are_findings():
    x, out = torch.arange(16.0), torch.zeros(16)
    with launching() as launches:
        _assert[(4,)](x, out, B=4, debug=True)
    (finding,) = launches.findings
    assert (finding.kind, finding.count) == ("device_assert", 6)
    assert finding.program == (2, 0, 0)
    assert finding.line > 0


@triton.jit
def _assume(out, n, B: tl.constexpr):
    if tl.program_id(0) > 0:
        tl.assume(n % B == tl.program_id(0))
    tl.store(out + tl.program_id(0), n)


def test_an_assumption_that_is_false_is_a_finding_of_programs_that_get_there():
    with launching() as launches:
        _assume[(2,)](torch.zeros(2, dtype=torch.int32), 17, B=16)
        _assume[(1,)](torch.zeros(1, dtype=torch.int32), 18, B=16)
    assert launches.findings == []
    with launching() as launches:
        _assume[(4,)](torch.zeros(4, dtype=torch.int32), 17, B=16)
    (finding,) = launches.findings
    assert (finding.kind, finding.program, finding.count) == ("false_assumption", (2, 0, 0), 2)
    assert finding.line > 0


@triton.jit
def _long(out, n):
    total = 0
    for i in range(n):
        total += i
    tl.store(out, total)


@pytest.mark.parametrize(
    ("limits", "programs", "turns", "named"),
    [
        (Limits(programs=10), 11, 2, "programs in a grid: the limit is 10"),
        (Limits(steps=500), 1, 1000, "operations executed in a launch: the limit is 500"),
        (Limits(elements=99), 100, 3, "elements computed in a launch: the limit is 99"),
    ],
)
def test_limits_are_named(limits, programs, turns, named):
    with launching(limits=limits), pytest.raises(LimitExceeded, match=named):
        _long[(programs,)](torch.zeros(1, dtype=torch.int32), turns)


def test_a_loop_within_the_limits_is_run():
    out = torch.zeros(1, dtype=torch.int32)
    with launching():
        _long[(1,)](out, 1000)
    assert out.item() == 499500


def test_an_empty_grid_does_nothing():
    out = torch.zeros(1, dtype=torch.int32)
    with launching() as launches:
        _long[(0,)](out, 5)
    assert out.item() == 0
    assert launches.findings == []


class _Recorder(Observer):
    def __init__(self):
        self.begun, self.ended, self.accesses, self.tiles = [], 0, [], []

    def begin(self, launch):
        self.begun.append(launch.grid)

    def access(self, access):
        shape = (len(access.programs), *access.block)
        assert access.full().shape == shape
        assert access.active is None or access.active.shape == shape
        assert access.stored is None or access.stored.shape == shape
        lanes = access.full().size if access.active is None else int(access.active.sum())
        self.accesses.append((access.kind, access.width, lanes, access.op.line[1] > 0))

    def value(self, op, size):
        self.tiles.append(size)

    def end(self):
        self.ended += 1


@triton.jit
def _observed(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.atomic_add(out, tl.sum(tl.where(i < n, v, 0.0)))
    tl.store(x + i, v.to(tl.float32), mask=i < n)


def test_observers_are_told_of_accesses():
    recorder = _Recorder()
    x, out = torch.ones(20), torch.zeros(1)
    with launching([recorder]):
        _observed[(3,)](x, out, 20, B=8)
    assert recorder.begun == [(3, 1, 1)] and recorder.ended == 1
    assert recorder.accesses == [
        ("load", 4, 20, True), ("atomic", 4, 3, True), ("store", 4, 20, True),
    ]  # fmt: skip
    assert max(recorder.tiles) == 8
    assert out.item() == 20
