"""Rounds in which all contenders take turns: times that can be compared pair by pair.

A contender's turn is a stretch of calls between two CUDA events. While the GPU waits in a kernel
that only counts clocks, the host launches the whole stretch, so that what is timed is the GPU's
time alone, however long a launcher takes (Triton's 20 us, with tensor descriptors more). Calls
rotate over sets of buffers which together are several times as large as the L2 cache, from one
contender to the next too: each finds none of its data there, and what it leaves there to be written
back is written in the time of the next one. The order within a round is drawn anew for each.
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

STRETCH = 250.0  # microseconds that a stretch takes at least
MOST_CALLS = 16  # of a stretch
CACHES = 4  # sets are together at least so many times as large as the L2 cache
WAIT_HZ = 2.0e9  # at least the clock at which the GPU counts while it waits
WARM_UP = 3

Turn = Callable[[int], object]  # a call with the buffers of a set


@dataclass(frozen=True)
class Effort:
    """How long a case is timed: rounds until one of both is reached, but never below `fewest`."""

    rounds: int = 40
    seconds: float = 1.5
    fewest: int = 11


def sets_for(moved: float, cache: int) -> int:
    """How many sets of buffers of so many bytes there must be."""
    return max(2, math.ceil(CACHES * cache / moved))


def calls_for(microseconds: float) -> int:
    """Of a stretch, by the time of one."""
    return max(1, min(MOST_CALLS, math.ceil(STRETCH / microseconds)))


class Contender:
    """Something that is timed. What it returns is kept until its turn with this set comes again.

    So a peer that allocates its results writes to as much memory as one that is given buffers.
    """

    def __init__(self, turn: Turn, sets: int) -> None:
        self._turn = turn
        self._kept: list[object] = [None] * sets
        self._host_seconds = 0.0
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def warm_up(self) -> None:
        """Compile, tune, and allocate what every set needs; then see how long launching takes."""
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
        # Twice what launching took, and a little for the events: late launches would be timed.
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
    first = 0  # the set that was used longest ago: never the one that was used last
    was_on = gc.isenabled()
    gc.disable()  # or it would run between launches
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
