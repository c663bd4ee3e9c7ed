"""Stand-ins for tests of the clock: artificial workers, and kernels that are torch's functions.

Over memory of this process, time passes only where an artificial worker says so. So its reports are
exact, also on a busy machine, and a worker may lie. Kernels in Python have workers on the CPU,
where no plan can be timed: everything from the request to the evidence is as on a GPU.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.cases import Case
from grader.sandbox import Sandbox
from grader.sandbox.memfd import SharedBuffers
from grader.sandbox.worker_process import Death
from grader.spec.task import Task
from grader.timing import attempt, contenders, graph_replays, sequential
from grader.timing.buffer_sets import BufferSets, GradedBufferSets, Layout
from grader.timing.contenders import Standing
from grader.timing.graph_replays import Replays
from grader.worker.protocol import Argument, Code, Operation, Reply

Work = Callable[[Sequence[int]], None]  # on the sets of a replay, in their order
BESIDE = 70e-6  # seconds of a request without its calls
RMSNORM = """
import torch

def rmsnorm(x, weight, out, eps):
    wide = x.float()
    scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    out.copy_(wide * scale * weight.float())
"""


class Time:
    """A clock that only advances when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clock of the grader's side of a replay."""
    made = Time()
    monkeypatch.setattr(graph_replays, "time", made)
    return made


class MadeUp:
    """A worker. Its call takes `seconds`, of which it reports the share `told`."""

    def __init__(self, clock: Time, work: Work, seconds: float = 1e-4, told: float = 1.0) -> None:
        self.asked: list[Operation] = []
        self.orders: list[tuple[int, ...]] = []  # of the replays
        self.placed: dict[int, Sequence[Argument]] = {}
        self.documents: list[bytes] = []  # that were adopted
        self.answers: dict[Operation, Reply | Death] = {}  # in place of its own
        self.seconds, self.told = seconds, told
        self._clock, self._work = clock, work
        self._order: tuple[int, ...] = ()
        self._numbers = itertools.count(1)

    def ask(
        self,
        operation: Operation,
        arguments: Sequence[Argument] = (),
        repeat: int = 0,
        limits: object = None,
        document: bytes = b"",
    ) -> Reply | Death:
        self.asked.append(operation)
        if operation in self.answers and (repeat or operation is not Operation.replay):
            return self.answers[operation]
        text = {}
        if operation is Operation.place:
            self.placed[repeat] = arguments
        elif operation is Operation.adopt:
            self.documents.append(document)
        elif operation is Operation.arrange:
            count, *order = struct.unpack(f"<{len(document) // 4}I", document)
            assert count == len(order)
            self._order = tuple(order)
        elif operation is Operation.replay:
            text = {"nanoseconds": self._replay(repeat)}
        return Reply(next(self._numbers), Code.ok, json.dumps(text))

    def post(self, operation: Operation, document: bytes = b"") -> Death | None:
        self._answer = self.ask(operation, document=document)
        return None

    def wait(self, limits: object = None) -> Reply | Death:
        return self._answer

    def _replay(self, repeat: int) -> int:
        self._clock.now += BESIDE
        if not repeat:
            return 0
        self.orders.append(self._order)
        self._work(self._order)
        took = self.seconds * len(self._order)
        self._clock.now += took
        return round(1e9 * self.told * took)

    def close(self) -> None: ...


class MadeUpReplays:
    """Replays of given times: when idle, and `later`; `apart` is given too."""

    calls = 4
    least_seconds = 0.0

    def __init__(self, microseconds: float, later: float | None = None, apart: float = 0.0) -> None:
        self.times = [microseconds * 1e-6, (later or microseconds) * 1e-6]
        self.apart = apart
        self.taken = 0
        self.settled = False

    def begin(self) -> None: ...

    def settle(self) -> float:
        self.settled = True
        return self.times[0]

    def forget(self) -> None: ...

    def seconds(self) -> float:
        assert self.settled
        self.taken += 1
        return self.times[self.taken > attempt.IDLE_PAIRS]


def without_doubts(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """Switch off checks that depend on chance on a CPU with other tests."""
    monkeypatch.setattr(contenders, "MOST_BUFFER_SETS", 4)
    monkeypatch.setattr(attempt, "IDLE_PAIRS", 1)
    monkeypatch.setattr(attempt, "MOST_SPREAD", 1e9)
    monkeypatch.setattr(attempt, "MOST_APART", 1e9)
    monkeypatch.setattr(attempt, "LEAST_COPY", 0.0)
    monkeypatch.setattr(attempt, "TOO_SLOW", 0.0)
    monkeypatch.setattr(sequential, "MOST_VOID", 1.0)
    monkeypatch.setattr(sequential, "MOST_SLOWED", 1e9)
    monkeypatch.setattr(sequential, "MIN_PAIRS", rounds)


def sandbox(device: str = "cpu") -> Any:
    """A stand-in for a sandbox, which starts nothing."""
    return SimpleNamespace(device=device, is_started=True)


@dataclass(frozen=True)
class InPython:
    """A candidate that is a function of torch's; `sandbox` is for Python, as for baselines.

    Each case has a worker of its own, whatever is `shared`.
    """

    sandbox: Sandbox
    task: Task
    path: Path
    shared: object = None

    @classmethod
    def of(cls, sandbox: Sandbox, task: Task, source: str) -> InPython:
        path = sandbox.hold(f"{task.exercise.name}_in_python.py", source.encode())
        return cls(sandbox, task, path)

    def executor(self, case: Case, opened: contextlib.ExitStack) -> Standing:
        layout = Layout.of(self.task, case)
        entry = self.task.variant.entry
        return contenders.start(self.sandbox, self.path, entry, [layout], opened)

    def begin(
        self,
        case: Case,
        opened: contextlib.ExitStack,
        graded: bool = True,
        executor: Standing | None = None,
    ) -> Replays:
        layout = Layout.of(self.task, case)

        def make_sets(memory: SharedBuffers, count: int) -> BufferSets:
            return GradedBufferSets(memory, self.task, case, count)

        return (executor or self.executor(case, opened)).serve(layout, make_sets)
