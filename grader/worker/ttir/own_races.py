"""Data races inside one program: two places of a block access an element, and one stores it.

The warps of a program run at their own pace. An element that a block stores at one place, and a
block loads at another, or stores another value to, belongs to two threads, so either may come
first. A barrier between the two orders them; so may atomics, reductions and products, depending on
how they are compiled. Elements that a transposition or the like moves between threads wait for each
other, too. The same place of blocks of one shape is taken for the same thread. Programs of one warp
have no races.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .findings import Finder, Findings
from .semantics import synchronisation

if TYPE_CHECKING:
    from .executor import Launch
    from .observer import Access

MAX_ELEMENTS = 1 << 24  # that are remembered of a launch's accesses
MAX_SORTED = 1 << 24  # elements compared one by one in a launch; races behind them aren't found
EACH_TIME = 1 << 10  # the cost of any comparison of two accesses, in elements


@dataclass(frozen=True)
class _Touched:
    """One access of a chunk's programs, a row for each; `meetings` are their barriers before it."""

    access: Access
    meetings: np.ndarray
    addresses: np.ndarray  # (rows, elements)
    chosen: np.ndarray  # bool, the same
    low: np.ndarray  # of each row
    high: np.ndarray
    stored: np.ndarray | None  # bits, as the addresses

    @staticmethod
    def of(access: Access, meetings: np.ndarray) -> _Touched:
        """An access, described."""
        addresses = _flat(access.full())
        active = np.True_ if access.active is None else access.active
        chosen = _flat(np.broadcast_to(active, access.full().shape))
        limits = np.iinfo(np.int64)
        low = np.min(addresses, axis=1, where=chosen, initial=limits.max)
        high = np.max(addresses, axis=1, where=chosen, initial=limits.min)
        stored = None if access.stored is None else _flat(access.stored)
        return _Touched(access, meetings[access.programs], addresses, chosen, low, high, stored)

    def span(self) -> np.ndarray:
        """Of each row what must overlap, and the barriers, which must be the same, to race."""
        return np.stack([self.low, self.high, self.meetings])

    def replaces(self, other: _Touched) -> bool:
        """Whether whatever races with the other access, of the same span, races with this."""
        return (
            self.access.kind == other.access.kind
            and self.is_placed_as(other)
            and np.array_equal(self.addresses, other.addresses)
            and not (other.chosen & ~self.chosen).any()
        )

    def is_placed_as(self, other: _Touched) -> bool:
        """Whether elements at one place of both blocks are taken for those of one thread."""
        return _shape(self.access) == _shape(other.access)


class OwnRaces(Finder):
    """Finds races between the warps of each program."""

    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._one_warp = False
        self._meetings = np.zeros(0, np.int32)  # of each program of the grid
        self._earlier: list[_Touched] = []  # loads and stores of the programs of one chunk
        self._spans = np.zeros((0, 3, 0), np.int64)  # theirs, with room for more
        self._elements = self._sorted = 0

    def begin(self, launch: Launch) -> None:
        super().begin(launch)
        self._one_warp = launch.one_warp
        self._meetings = np.zeros(int(np.prod(launch.grid, dtype=np.int64)), np.int32)
        self._sorted = 0
        self._forget()

    def end(self) -> None:
        """Drop what the launch has accessed."""
        self._forget()

    def _forget(self) -> None:
        self._earlier, self._elements = [], 0
        self._spans = np.zeros((0, 3, 0), np.int64)

    def meet(self, programs: np.ndarray) -> None:
        self._meetings[programs] += 1
        if self._earlier and np.array_equal(self._earlier[-1].access.programs, programs):
            self._forget()

    def access(self, access: Access) -> None:
        """Compare a load with the stores before it, a store with all before it; remember either."""
        if self._one_warp or not access.may_race:
            return
        if access.kind == "atomic" or synchronisation(access.op, access.kind) is not None:
            self.meet(access.programs)
            return
        if self._earlier and not np.array_equal(self._earlier[-1].access.programs, access.programs):
            self._forget()  # the chunk before has ended, or programs take turns
        now = _Touched.of(access, self._meetings)
        if self._sorted < MAX_SORTED:
            self._compare(now)
            self._remember(now)

    def _remember(self, now: _Touched) -> None:
        span, count = now.span(), len(self._earlier)
        same = (self._spans[:count] == span).all(axis=(1, 2)) if count else np.zeros(0, bool)
        for index in np.flatnonzero(same)[::-1]:  # loops over the same elements keep one of each
            if now.replaces(self._earlier[index]):
                self._drop(index)
        while self._earlier and self._elements + now.addresses.size > MAX_ELEMENTS:
            self._drop(0)
        count = len(self._earlier)
        if count == len(self._spans):
            more = np.zeros((max(16, 2 * count), *span.shape), np.int64)
            more[:count] = self._spans if count else 0
            self._spans = more
        self._spans[count] = span
        self._earlier.append(now)
        self._elements += now.addresses.size

    def _drop(self, index: int) -> None:
        self._elements -= self._earlier.pop(index).addresses.size
        self._spans = np.delete(self._spans, index, axis=0)

    def _compare(self, now: _Touched) -> None:
        if not self._earlier:
            return
        low, high, meetings = self._spans[: len(self._earlier)].swapaxes(0, 1)
        nearby = (low <= now.high) & (now.low <= high) & (meetings == now.meetings)
        is_load = now.access.kind == "load"
        waiting = now.chosen
        # Backwards: the last store to an element is what is loaded.
        for index in np.flatnonzero(nearby.any(axis=1))[::-1]:
            other, near = self._earlier[index], nearby[index]
            if is_load and other.access.kind == "load":
                continue
            theirs = other.chosen & near[:, None]
            if now.is_placed_as(other):
                own = (now.addresses == other.addresses) & theirs & waiting
                if is_load:
                    waiting = waiting & ~own
                else:
                    theirs = theirs & ~own
            met = waiting & near[:, None]
            if not theirs.any():
                continue
            self._sorted += EACH_TIME + int(np.count_nonzero(met)) + int(np.count_nonzero(theirs))
            met[met] = _among(now, met, other, theirs)
            if met.any():
                self._report(now.access, other.access, now.addresses, met)
                waiting = waiting & ~met
            if not waiting.any():
                return

    def _report(self, now: Access, other: Access, addresses: np.ndarray, met: np.ndarray) -> None:
        row, place = (int(each[0]) for each in np.nonzero(met))
        program = int(now.programs[row])
        self._find_race(
            (now.op.line[1], now.kind, program),
            (other.op.line[1], other.kind, program),
            count=int(np.count_nonzero(met)),
            address=int(addresses[row, place]),
            width=now.width,
        )


def _shape(access: Access) -> tuple[int, ...]:
    return tuple(each for each in access.block if each > 1)


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), -1)


def _among(now: _Touched, wanted: np.ndarray, other: _Touched, chosen: np.ndarray) -> np.ndarray:
    """For each wanted address, whether it is a chosen one of the other access in the same row.

    Of two stores only addresses count to which they store different bits.
    """
    known, number = np.unique(other.addresses[chosen], return_inverse=True)
    theirs = np.nonzero(chosen)[0] * known.size + number.reshape(-1)
    order = np.argsort(theirs, kind="stable")
    mine = now.addresses[wanted]
    number = np.minimum(np.searchsorted(known, mine), known.size - 1)
    keys = np.nonzero(wanted)[0] * known.size + number
    place = order[np.minimum(np.searchsorted(theirs[order], keys), theirs.size - 1)]
    among: np.ndarray = (known[number] == mine) & (theirs[place] == keys)
    if now.stored is not None and other.stored is not None:
        among &= now.stored[wanted] != other.stored[chosen][place]
    return among
