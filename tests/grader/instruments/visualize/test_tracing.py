"""A trace's sums are the counters of the same case, and its events are read as untrusted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from grader.cases import parse
from grader.executors import trace
from grader.executors.trace import Event, Kind, Trace, TraceError
from grader.grading.session import selected
from grader.instruments.visualize.tracing import NothingToDraw, Run, shrunk
from grader.spec import load_all
from grader.worker.ttir import records
from tests.grader.instruments.visualize.conftest import Drawing


def by_line(event: Event) -> tuple[int, str, str]:
    space = "shared" if event.space == trace.Space.shared else "global"
    return event.line, Kind(event.kind).name, space


def sums(of: Trace, key: Callable[[Event], Any]) -> dict[Any, tuple[int, int, int]]:
    """(requests, moved, part) of all accesses with the same key, as the counters have them."""
    counted: dict[Any, tuple[int, int, int]] = {}
    for launch in of.launches:
        for event in launch.events:
            if event.space:
                so_far = counted.get(key(event), (0, 0, 0))
                more = (event.requests, event.moved, event.part)
                counted[key(event)] = tuple(a + b for a, b in zip(so_far, more, strict=True))  # type: ignore[assignment]
    return counted


def test_sums_over_a_trace_are_the_emulators_counters(drawing: Drawing, rungs: list[Run]):
    for run in rungs:
        runner = drawing.session.runners.planned(run.task)
        counted: dict[tuple[int | None, str, str], tuple[int, ...]] = {}
        for site in runner.measure(run.case).launches[0].sites:
            in_global = site.space == "global"
            moved = (site.sectors, site.useful_bytes) if in_global else (
                site.wavefronts, site.conflicts)  # fmt: skip
            key = (runner.program.line_of(site.pc), site.kind, site.space)
            before = counted.get(key, (0, 0, 0))
            counted[key] = tuple(
                a + b for a, b in zip(before, (site.requests, *moved), strict=True)
            )
        assert counted and sums(run.trace, by_line) == counted


def test_sums_over_a_trace_of_triton_are_the_executors_counters(drawing: Drawing):
    run = drawing.run("transpose/triton_v3", "rows=100 cols=70")  # masks cut its tiles
    counted = {
        (site.line, site.kind, "global"): (site.requests, site.sectors, site.useful_bytes)
        for site in drawing.session.runners.planned(run.task).measure(run.case).sites
    }
    assert len(counted) == 2 and sums(run.trace, by_line) == counted
    (launch,) = run.trace.launches
    assert [each.block for each in launch.events] == sorted(each.block for each in launch.events)


def test_a_run_that_is_only_counted_has_no_trace(drawing: Drawing, rungs: list[Run]):
    runner = drawing.session.runners.planned(rungs[0].task)
    runner.measure(rungs[0].case)
    assert runner._executor.recorded is None


def test_barriers_stand_between_the_accesses_of_each_warp(rungs: list[Run]):
    (launch,) = rungs[2].trace.launches
    warps = {(each.block, each.warp) for each in launch.events}
    assert len(warps) == 4 * 8
    for block, warp in warps:
        kinds = [e.kind for e in launch.events if (e.block, e.warp) == (block, warp)]
        assert kinds.count(Kind.barrier) == 1 and kinds.index(Kind.barrier) == 8
    assert not any(e.kind == Kind.barrier for e in rungs[0].trace.launches[0].events)


def test_lanes_come_back_from_pieces():
    plain = np.arange(32, dtype=np.int64) * 4
    tiles = (plain[:8] + np.arange(4)[:, None] * 1024).reshape(-1)
    random = np.random.default_rng(0).permutation(64).astype(np.int64) * 8
    masks = [None, np.arange(32) % 3 != 0, np.arange(32) < 20, np.zeros(32, bool)]
    for lanes, active in [(tiles, None), (random, None), *((plain, mask) for mask in masks)]:
        pieces = list(records._folded(records._pieces(lanes, active)))
        event = Event(0, 1, 0, 0, 1, 4, 1, 1, 4, tuple(n for each in pieces for n in each))
        kept = active if active is not None else np.ones(len(lanes), bool)
        expected = [int(a) if k else None for a, k in zip(lanes, kept, strict=True)]
        assert trace.addresses(event) == expected
    assert list(records._folded(records._pieces(tiles, None))) == [(0, 8, 4, 4, 1024)]


EVENT = [0, 1, 0, 0, 1, 4, 1, 4, 128, [64, 32, 4, 1, 0]]


def document(event: list) -> str:
    launch = {"kernel": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "events": [event]}
    return json.dumps({"places": [], "launches": [launch], "cut": False})


def test_a_trace_that_no_executor_writes_is_refused():
    assert isinstance(trace.parse(document(EVENT)), Trace)
    wrong = {2: 1, 1: 0, 0: 9, 5: 1000, 9: [64, 32, 4], 8: -1}
    for place, value in wrong.items():
        event = [*EVENT]
        event[place] = value
        with pytest.raises(TraceError):
            trace.parse(document(event))
    for offsets in ([64, 0, 4, 1, 0], [0, 1 << 20, 4, 2, 0]):
        with pytest.raises(TraceError):
            trace.parse(document([*EVENT[:9], offsets]))
    for text in ("", "[]", "{}", "null"):
        with pytest.raises(TraceError):
            trace.parse(text)


def test_what_cannot_be_drawn_is_said(drawing: Drawing, rungs: list[Run]):
    with pytest.raises(NothingToDraw, match="launches no kernel"):
        drawing.run("transpose/torch_v0", "rows=8 cols=8")
    with pytest.raises(NothingToDraw, match=r"too many accesses to draw\. Choose a smaller one"):
        drawing.run("transpose/cuda_v1", "rows=512 cols=1024")


def test_a_case_is_made_smaller_by_its_largest_size():
    (task,) = selected(load_all(), ["transpose/cuda_v1"])
    case = parse("rows=256 cols=512", task, 1)
    assert shrunk(task, case, 8192).sizes == (("rows", 64), ("cols", 64))
