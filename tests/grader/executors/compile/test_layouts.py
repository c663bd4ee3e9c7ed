"""Requests are counted as the compiled kernel's warps make them, where these can be had."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.cases import Case
from grader.evidence import LineCounters
from grader.executors.compile import warp_layouts
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.compile.warp_layouts import LayoutCompiler, parse
from grader.executors.memory_metrics import by_line
from grader.executors.triton import triton_metrics
from grader.executors.triton.triton_report import Report
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.worker import plan_processes
from grader.worker.protocol import MAX_LONG_TEXT
from tests.support.planned import SPECS, case

SILU = """
import triton, triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x / (1 + tl.exp(-x)), mask=offsets < n)

def silu(x, out):
    kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
"""
TRANSPOSE = """
import triton, triton.language as tl

@triton.jit
def kernel(x, out, rows, cols, stride, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at * stride + column, mask=at < rows)
    tl.store(out + column * rows + at, values, mask=at < rows)

def transpose_v1(x, out):
    rows, cols = x.shape
    kernel[(cols,)](x, out, rows, cols, x.stride(0), BLOCK=1024)
"""
SIZE = 8192


class Counting:
    """Counts runs of one variant in a sandbox."""

    def __init__(self, sandbox: Sandbox, exercise: str, variant: str, source: str) -> None:
        self.task = Task(SPECS[exercise], SPECS[exercise].variants[variant])
        self.path = sandbox.hold(self.task.variant.file, source.encode())
        self.sandbox = sandbox

    def report(self, *cases: Case, kept: KeptBuilds | None = None, ahead: bool = False) -> Report:
        """What the last of some runs shows."""
        with PlannedTritonRunner(self.sandbox, self.task, self.path, True, kept) as runner:
            if ahead:
                runner.run(cases[0])
                assert runner.compiled(runner.compile_in_background()).failure is None
            reports = [runner.measure(each) for each in cases]
        assert isinstance(reports[-1], Report), reports[-1]
        return reports[-1]

    def lines(self, *cases: Case) -> dict[str, LineCounters]:
        """The counters of lines by kind of access."""
        return {each.access: each for each in by_line(triton_metrics.rows(self.report(*cases)))}


@pytest.fixture
def silu(shared_sandbox) -> Counting:
    return Counting(shared_sandbox, "silu", "triton", SILU)


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The texts that a backend's process is asked for the layouts of."""
    texts: list[str] = []
    ask = LayoutCompiler._ask

    def noted(self, ttir, options):
        texts.append(ttir)
        return ask(self, ttir, options)

    monkeypatch.setattr(LayoutCompiler, "_ask", noted)
    return texts


def requests(lines: dict[str, LineCounters]) -> tuple[int, int]:
    assert {each.rule for each in lines.values()} == {"compiled"}
    return lines["load"].requests, lines["store"].requests


@pytest.mark.parametrize(
    ("n", "shifted", "loads", "stores"),
    [
        (SIZE, (), SIZE // 128, SIZE // 128),  # 16 bytes of a lane
        (SIZE, ("x",), SIZE // 32, SIZE // 128),
        (SIZE, ("out",), SIZE // 128, SIZE // 32),
        (SIZE - 1, (), SIZE // 32, SIZE // 32),  # a mask that may end within a lane's 16 bytes
        (SIZE - 1024 + 16, (), (SIZE - 1024) // 128 + 1, (SIZE - 1024) // 128 + 1),
    ],
)
def test_requests_follow_what_the_compiler_knows(silu, n, shifted, loads, stores) -> None:
    found = silu.lines(case("float32", [(name, "offset") for name in shifted], n=n))
    assert requests(found) == (loads, stores)


def test_a_kernel_is_laid_out_for_each_of_its_specialisations(silu, asked) -> None:
    aligned, odd = case("float32", n=SIZE), case("float32", n=SIZE - 1)
    assert requests(silu.lines(odd, aligned, odd)) == (SIZE // 32, SIZE // 32)
    assert len(asked) == 2


def test_a_column_takes_an_element_of_each_lane(shared_sandbox) -> None:
    counting = Counting(shared_sandbox, "transpose", "triton_v1", TRANSPOSE)
    found = counting.lines(case("float32", rows=1024, cols=64))
    assert requests(found) == (1024 * 64 // 32, 1024 * 64 // 128)
    assert found["load"].sectors == 1024 * 64


def test_what_has_been_assembled_is_not_asked_for_again(silu, asked, tmp_path: Path) -> None:
    kept = KeptBuilds(tmp_path / "kernels.sqlite")
    each = case("float32", n=SIZE)
    known = silu.report(each, kept=kept, ahead=True)
    assert known.sites[0].compiled.requests == SIZE // 128
    assert silu.report(each, kept=kept) == known  # kept from one run to the next
    assert asked == []
    kept.close()


def test_layouts_that_have_no_room_in_an_answer_are_left_out() -> None:
    long = "x" * (MAX_LONG_TEXT // 3)
    told: list[dict[str, Any]] = [
        {"layouts": long},
        {"layouts": None},
        {"layouts": long},
        {"error": {}},
    ]
    plan_processes._cut_layouts(told)
    assert [each.get("layouts") for each in told] == [long, None, None, None]


def fails(monkeypatch, how: str) -> None:
    if how == "dies":
        start = Sandbox.worker

        def killed(self, path, entry, buffers, limits, *more, **named):
            worker = start(self, path, entry, buffers, limits, *more, **named)
            if limits == warp_layouts.LIMITS:
                os.kill(worker.pid, signal.SIGKILL)
            return worker

        monkeypatch.setattr(Sandbox, "worker", killed)
    elif how == "tells nonsense":
        monkeypatch.setattr(warp_layouts, "parse", lambda text: parse(text.replace("1024", "1000")))
    else:
        monkeypatch.setattr(warp_layouts, "SECONDS", 0.0)


@pytest.mark.parametrize("how", ["dies", "tells nonsense", "takes too long"])
def test_without_a_backend_elements_are_counted_and_that_is_told(silu, monkeypatch, how) -> None:
    fails(monkeypatch, how)
    found = silu.lines(case("float32", n=SIZE))
    assert [(each.rule, each.requests) for each in found.values()] == [
        ("elements", SIZE // 32),
        ("elements", SIZE // 32),
    ]


def test_metrics_are_the_same_under_either_rule(silu, monkeypatch) -> None:
    odd = case("float32", n=SIZE - 1)
    known = silu.report(odd)
    assert known.sites[0].compiled.sectors > 2 * known.sites[0].sectors
    fails(monkeypatch, "dies")
    by_elements = tuple(replace(site, compiled=None) for site in known.sites)
    assert silu.report(odd) == replace(known, sites=by_elements)


# --- a backend's answer ---------------------------------------------------------------------------

ACCESS = {
    "line": 7,
    "kind": "load",
    "shape": [64, 64],
    "size_per_thread": [1, 4],
    "threads_per_warp": [2, 16],
    "warps": [4, 1],
    "order": [1, 0],
    "copies": 1,
    "bytes": 16,
}


def answer(accesses: Sequence[dict], **more: object) -> str:
    return json.dumps({"warps": 4, "accesses": list(accesses), **more})


def test_an_answer_is_read_and_written_back() -> None:
    told = answer([ACCESS, ACCESS | {"shape": [1 << 20, 2]}])
    assert json.loads(parse(told).to_json()) == json.loads(told)


@pytest.mark.parametrize(
    "change",
    [
        {"line": -1},
        {"line": "7"},
        {"kind": "fetch"},
        {"shape": [64, 63]},
        {"shape": [64]},
        {"size_per_thread": [1, 3]},
        {"size_per_thread": [1, 1 << 17]},
        {"size_per_thread": [0, 4]},
        {"size_per_thread": [-2, 4]},
        {"threads_per_warp": [4, 16]},
        {"warps": [4, 0]},
        {"order": [1, 1]},
        {"order": [1, 2]},
        {"copies": 0},
        {"copies": 1000},
        {"bytes": 12},
        {"bytes": 64},
        {"more": 1},
    ],
    ids=str,
)
def test_an_access_that_cannot_be_is_refused(change) -> None:
    assert parse(answer([ACCESS | change])) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '{"error": {}}', answer([], warps=0), answer([], more=1), "[" * 100_000],
)
def test_what_is_no_answer_is_refused(text) -> None:
    assert parse(text) is None


def test_an_answer_is_bounded() -> None:
    assert parse(answer([ACCESS] * warp_layouts.MAX_ACCESSES)) is not None
    assert parse(answer([ACCESS] * (warp_layouts.MAX_ACCESSES + 1))) is None
