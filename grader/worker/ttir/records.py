"""Records each access that the counters count, for a picture of a run.

The grader reads the records with grader/executors/trace.py. An event is one operation's access by
one program, in the order of accesses.py: 32 lanes are one request.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .accesses import Lanes, Requests
from .findings import MAX_KERNEL
from .regions import Regions

if TYPE_CHECKING:
    from .executor import Launch

MAX_EVENTS = 20_000
MAX_NUMBERS = 300_000  # of all offsets together
MAX_OFFSETS = 12_000  # of one event
_KINDS = {"load": 0, "store": 1, "atomic": 2}
_GLOBAL = 1  # global memory, where all accesses go

Piece = tuple[int, int, int]  # first address, lanes, step


class Records:
    """The accesses of one call of the entry."""

    def __init__(self) -> None:
        self._launches: list[dict[str, Any]] = []
        self._events = self._numbers = 0
        self._cut = False

    def begin(self, launch: Launch) -> None:
        """Begin a launch."""
        warps = launch.layouts.warps if launch.layouts else 1
        self._launches.append(
            {
                "kernel": launch.module.entry.name[:MAX_KERNEL],
                "grid": list(launch.grid),
                "block": [warps * 32, 1, 1],
                "events": [],
            }
        )

    def end(self) -> None:
        """End the launch: its programs' events stand one program after another."""
        self._launches[-1]["events"].sort(key=lambda event: event[2])

    def add(self, kind: str, line: int, lanes: Lanes, requests: Requests) -> None:
        """Record an access of a chunk's programs to a block each."""
        for row, counted in enumerate(_counted(requests)):
            if not counted[0] or self._cut:
                continue
            active = None if lanes.active is None else lanes.active[row]
            offsets = [n for piece in _folded(_pieces(lanes.addresses[row], active)) for n in piece]
            self._events += 1
            self._numbers += len(offsets)
            self._cut = (
                self._events > MAX_EVENTS
                or self._numbers > MAX_NUMBERS
                or len(offsets) > MAX_OFFSETS
            )
            if not self._cut:
                head = [_KINDS[kind], _GLOBAL, int(lanes.programs[row]), 0, line, lanes.width]
                self._launches[-1]["events"].append([*head, *counted, offsets])

    def report(self, regions: Regions) -> dict[str, Any]:
        """The records as JSON."""
        places = [
            {
                "space": "global",
                "argument": -1 if each.argument is None else each.argument,
                "start": each.start,
                "bytes": each.end - each.start,
                "name": "",
            }
            for each in regions
        ]
        return {"places": places, "launches": self._launches, "cut": self._cut}


def _counted(requests: Requests) -> Iterator[tuple[int, int, int]]:
    """(requests, sectors, useful bytes) of each program."""
    programs = len(requests.programs)
    if requests.fresh is None:
        made = np.full(programs, requests.per_program)
    else:
        made = np.count_nonzero(requests.fresh.any(axis=1).reshape(programs, -1), axis=1)
    sectors = np.count_nonzero(requests.moved.reshape(programs, -1), axis=1)
    useful = requests.distinct_of_programs() * requests.width
    yield from zip(made.tolist(), sectors.tolist(), useful.tolist(), strict=True)


def _pieces(addresses: np.ndarray, active: np.ndarray | None) -> Iterator[Piece]:
    """The lanes' addresses as evenly spaced pieces; lanes that take no part have the address -1."""
    taking = addresses >= 0 if active is None else active & (addresses >= 0)
    bounds = [0, *(np.flatnonzero(taking[1:] != taking[:-1]) + 1).tolist(), len(addresses)]
    for begin, end in itertools.pairwise(bounds):
        if begin < end and not taking[begin]:
            yield -1, end - begin, 0
            continue
        part = addresses[begin:end]
        steps = np.diff(part)
        # Where each stretch of equal steps ends, by the step's index.
        ends = [*(np.flatnonzero(steps[1:] != steps[:-1]) + 1).tolist(), len(steps)]
        at = 0
        for stop in ends:
            if stop > at or at == len(part) - 1:
                step = int(steps[at]) if stop > at else 0
                yield int(part[at]), max(stop - at, 0) + 1, step
                at = max(stop, at) + 1
        if at == len(part) - 1:
            yield int(part[at]), 1, 0


def _folded(pieces: Iterable[Piece]) -> Iterator[tuple[int, int, int, int, int]]:
    """(first, lanes, step, times, stride): alike pieces that follow each other evenly are one."""
    held: list[int] = []
    for first, count, step in pieces:
        is_alike = held and held[1:3] == [count, step] and (held[0] < 0) is (first < 0)
        if is_alike and (held[3] == 1 or first == held[0] + held[3] * held[4]):
            held[4] = first - held[0] if held[3] == 1 else held[4]
            held[3] += 1
            continue
        if held:
            yield tuple(held)  # type: ignore[misc]
        held = [first, count, step, 1, 0]
    if held:
        yield tuple(held)  # type: ignore[misc]
