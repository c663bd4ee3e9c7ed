"""What stands by for the clock in tests: workers that are made up, over memory of this process.

Time passes only where a made-up worker says so. So what is told of it is exact, on a busy machine
too; and a worker may lie.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from grader import race
from grader.supervision import Death
from grader.timing import contenders, measure, replays
from grader.worker.protocol import Argument, Code, Operation, Reply

Work = Callable[[Sequence[int]], None]  # what is done with the sets of a replay, in their order
BESIDE = 70e-6  # what a request takes without its calls


class Time:
    """A clock that stands still while nobody lets it go on."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    """The clock of the grader's side of a replay."""
    made = Time()
    monkeypatch.setattr(replays, "time", made)
    return made


class MadeUp:
    """A worker. A call of its takes `seconds`, of which it tells the share `told`."""

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


class Lane:
    """Replays that take what they are told to: in the calm, and `later`; `apart` is made up too."""

    calls = 4

    def __init__(self, microseconds: float, later: float | None = None, apart: float = 0.0) -> None:
        self.times = [microseconds * 1e-6, (later or microseconds) * 1e-6]
        self.apart = apart
        self.taken = 0
        self.settled = False

    def settle(self) -> float:
        self.settled = True
        return self.times[0]

    def forget(self) -> None: ...

    def seconds(self) -> float:
        assert self.settled
        self.taken += 1
        return self.times[self.taken > measure.CALM_PAIRS]


def without_doubts(monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """Over the CPU, beside other tests, how long something takes is chance."""
    monkeypatch.setattr(contenders, "MOST_SETS", 4)
    monkeypatch.setattr(measure, "CALM_PAIRS", 1)
    monkeypatch.setattr(measure, "MOST_SPREAD", 1e9)
    monkeypatch.setattr(measure, "MOST_APART", 1e9)
    monkeypatch.setattr(measure, "LEAST_COPY", 0.0)
    monkeypatch.setattr(measure, "TOO_SLOW", 0.0)
    monkeypatch.setattr(race, "MOST_VOID", 1.0)
    monkeypatch.setattr(race, "CALM", 1e9)
    monkeypatch.setattr(race, "MIN_PAIRS", rounds)


def sandbox(device: str = "interpreter") -> SimpleNamespace:
    """In the place of one in which nothing is started."""
    return SimpleNamespace(device=device, is_started=True)
