"""Submissions that stand by for the clock, over the CPU or a GPU.

A "kernel" is a function of torch's here. Over the CPU everything between the request and the
verdict is what times a GPU, but for where the buffers lie.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pytest

from grader import race
from grader.arena import Arena
from grader.cases import fixed_case
from grader.gpu_memory import GpuMemory
from grader.inputs import blank_argument
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.supervision import Limits
from grader.timing import lanes, measure, pairs
from grader.timing.graded_sets import GradedSets
from grader.timing.pairs import TimedPairs
from grader.timing.request_page import RequestPage
from grader.timing.sets import Layout
from grader.timing.worker import TimedWorker, TimingFailed, expect_ok
from grader.worker.protocol import Operation

EXERCISE = load_all()["silu"]
VARIANT = EXERCISE.variants["triton"]
SETS = 8
HONEST = """
import torch
import torch.nn.functional as F

def silu(x, out):
    out.copy_(F.silu(x))
"""
numbers = itertools.count()


def without_doubts(monkeypatch: pytest.MonkeyPatch, pairs_wanted: int) -> None:
    """Over the CPU, beside other tests, no two clocks agree, no request costs what another does,
    and how long a yardstick takes in the calm is chance."""
    monkeypatch.setattr(lanes, "SETS", (4,))
    monkeypatch.setattr(measure, "CALM_PAIRS", 1)
    monkeypatch.setattr(measure, "MOST_APART", 1e9)
    monkeypatch.setattr(measure, "LEAST_COPY", 0.0)
    monkeypatch.setattr(pairs, "SLACK_SECONDS", 60.0)
    monkeypatch.setattr(race, "MOST_VOID", 1.0)
    monkeypatch.setattr(race, "CALM", 1e9)
    monkeypatch.setattr(race, "MIN_PAIRS", pairs_wanted)


@contextlib.contextmanager
def timed(sandbox: Sandbox, source: str, n: int = 40_000) -> Iterator[TimedPairs]:
    """A submission that stands by for the clock."""
    on_gpu = sandbox.device == "cuda"
    memory = GpuMemory if on_gpu else Arena
    case = fixed_case(EXERCISE, VARIANT, {"n": n, "dtype": "float32"}, 7)
    path = sandbox.hold(f"timed_{next(numbers)}.py", source.encode())
    with contextlib.ExitStack() as opened:
        arena = opened.enter_context(memory(*Layout.of(EXERCISE, VARIANT, case).bytes(SETS)))
        page = opened.enter_context(RequestPage())
        sets = GradedSets(arena, EXERCISE, VARIANT, case, SETS)
        limits = Limits(60.0, 16 << 30 if on_gpu else 2 << 30)
        worker = sandbox.worker(
            path, "silu", arena.buffers, limits, page=page.descriptor, on_gpu=on_gpu
        )
        opened.callback(worker.close)
        expect_ok(worker.ask(Operation.load, [blank_argument()] * 2))
        placed = [sets.arguments(number) for number in range(SETS)]
        yield TimedPairs(opened.enter_context(TimedWorker(worker, page, placed)), sets)


def fails_with(sandbox: Sandbox, source: str, pairs: int = 3) -> TimingFailed:
    """How the timing of a submission ends."""
    with pytest.raises(TimingFailed) as caught, timed(sandbox, source) as candidate:
        candidate.settle()
        for _ in range(pairs):
            candidate.pair()
    return caught.value
