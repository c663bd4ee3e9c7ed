"""Rounds in which all contenders take turns, so that their times can be compared in pairs.

A contender's turn is several calls between two CUDA events. While the GPU waits in a kernel that
only counts clocks, the host launches all of them, so that the time is the GPU's alone, however long
a launcher takes. Calls rotate over sets of buffers that are together several times as large as the
L2 cache, across contenders too. So no call finds its data in the cache, and the lines that it
leaves to be written back are written in a later contender's time. The order within a round is drawn
anew.
"""

from __future__ import annotations

import gc
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

STRETCH = 250.0  # least microseconds of a turn
MOST_CALLS = 16  # in a turn
CACHES = 4  # least size of all sets, in L2 caches
WAIT_HZ = 2.0e9  # upper bound of the clock at which the GPU counts while it waits
WARM_UP = 3

Turn = Callable[[int], object]  # a call with the buffers of a set


@dataclass(frozen=True)
class Effort:
    """How long a case is timed: until one of both is reached, but at least `fewest` rounds."""

    rounds: int = 40
    seconds: float = 1.5
    fewest: int = 11


def sets_for(moved: float, cache: int) -> int:
    """The number of buffer sets of so many bytes."""
    return max(2, math.ceil(CACHES * cache / moved))


def calls_for(microseconds: float) -> int:
    """The number of calls in a turn, from the time of one."""
    return max(1, min(MOST_CALLS, math.ceil(STRETCH / microseconds)))


class Contender:
    """A timed function. Its result is kept until its next turn with the same set.

    So a peer that allocates its results writes to as much memory as one that is given buffers.
    """

    def __init__(self, turn: Turn, sets: int) -> None:
        self._turn = turn
        self._kept: list[object] = [None] * sets
        self._host_seconds = 0.0
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def warm_up(self) -> None:
        """Compile, tune, allocate what every set needs, and time launching."""
        for _ in range(WARM_UP):
            for at in range(len(self._kept)):
                self._call(at)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for at in range(len(self._kept)):
            self._call(at)
        self._host_seconds = (time.perf_counter() - started) / len(self._kept)
        torch.cuda.synchronize()

    def stretch(self, first: int, calls: int) -> float:
        """Microseconds per call of so many, beginning with a set."""
        # Twice the launching time, and a little for the events: late launches would be timed.
        waiting = 2 * calls * self._host_seconds + 50e-6
        torch.cuda._sleep(int(waiting * WAIT_HZ))
        self._start.record()
        for at in range(first, first + calls):
            self._call(at % len(self._kept))
        self._end.record()
        self._end.synchronize()
        return 1e3 * self._start.elapsed_time(self._end) / calls

    def _call(self, at: int) -> None:
        self._kept[at] = self._turn(at)


def time_in_rounds(
    contenders: Mapping[str, Contender], effort: Effort, seed: int
) -> tuple[dict[str, list[float]], int]:
    """Microseconds per call by contender, a value for each round; and the calls of a stretch."""
    quickest = min(
        statistics.median(each.stretch(at, 1) for at in range(3)) for each in contenders.values()
    )
    calls = calls_for(quickest)
    order = list(contenders)
    draw = random.Random(seed)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    until = time.monotonic() + effort.seconds
    first = 0  # the set that was used longest ago
    was_on = gc.isenabled()
    gc.disable()  # it could run between launches
    try:
        for number in range(effort.rounds):
            if number >= effort.fewest and time.monotonic() > until:
                break
            draw.shuffle(order)
            for name in order:
                times[name].append(contenders[name].stretch(first, calls))
                first += calls
    finally:
        if was_on:
            gc.enable()
    return times, calls
