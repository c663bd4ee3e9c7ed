"""Elements that runs of several programs share: the pairs of accesses that conflict.

`conflicts` first drops each run that no other program's run overlaps (sorted by address, one pass),
which leaves nothing for most kernels. The rest is expanded to elements, in windows of bounded size.
Each access of an element is compared with the last write before it and the next write after it, in
the order of execution. If two programs conflict on an element at all, one of these pairs does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .access_log import ATOMIC, READ, WRITE, Batch, Log, Site

WINDOW = 1 << 21  # elements compared at once


@dataclass(frozen=True)
class Pairs:
    """Pairs of conflicting accesses by two programs: (earlier, later) of each attribute.

    `addresses` are those of the element, of `unit` bytes.
    """

    addresses: np.ndarray
    programs: tuple[np.ndarray, np.ndarray]
    stamps: tuple[np.ndarray, np.ndarray]  # of the source's access, and of the target's
    sites: tuple[np.ndarray, np.ndarray]
    known: list[Site]
    unit: int

    def site(self, side: int, index: int) -> Site:
        """The line and kind of the earlier (0) or later (1) access of a pair."""
        return self.known[int(self.sites[side][index])]


def conflicts(log: Log) -> Iterator[Pairs]:
    """The conflicting pairs of a launch, window by window."""
    batches = _near_writes(log.batches)
    if not batches:
        return
    runs = _Runs(batches)
    shared = runs.shared()
    if not shared.size:
        return
    for window in runs.windows(shared):
        yield from _Elements(runs, window).pairs(log.sites)


def _near_writes(batches: list[Batch]) -> list[Batch]:
    """The batches whose span overlaps that of a batch that writes."""
    spans = [
        (int(each.starts.min()), int((each.starts + each.counts * each.width).max()))
        for each in batches
    ]
    written = [span for each, span in zip(batches, spans, strict=True) if each.way != READ]
    if not written:
        return []
    # Joined to disjoint spans, in order.
    lows: list[int] = []
    highs: list[int] = []
    for low, high in sorted(written):
        if highs and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    kept = []
    for each, (low, high) in zip(batches, spans, strict=True):
        place = int(np.searchsorted(highs, low, side="right"))
        if place < len(lows) and lows[place] < high:
            kept.append(each)
    return kept


class _Runs:
    """The runs of several batches as columns; `batch` is the batch of each."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches
        sizes = [each.starts.size for each in batches]
        self.batch = np.repeat(np.arange(len(batches)), sizes)
        self.starts = np.concatenate([each.starts for each in batches])
        widths = np.array([each.width for each in batches])[self.batch]
        self.ends = self.starts + np.concatenate([each.counts for each in batches]) * widths
        self.programs = np.concatenate([each.programs for each in batches])
        self.stamps = np.concatenate([each.stamps for each in batches])
        self.places = np.concatenate([each.places for each in batches])
        self.way = np.array([each.way for each in batches])[self.batch]

    def shared(self) -> np.ndarray:
        """The runs, in order of address, that another program's run may conflict with."""
        order = np.argsort(self.starts, kind="stable")
        starts, reach = self.starts[order], np.maximum.accumulate(self.ends[order])
        apart = starts[1:] >= reach[:-1]
        if apart.all():
            return order[:0]
        heads = np.concatenate([[0], np.flatnonzero(apart) + 1])
        programs, way = self.programs[order], self.way[order]
        several = np.minimum.reduceat(programs, heads) != np.maximum.reduceat(programs, heads)
        written = np.maximum.reduceat(way, heads) != READ
        plain = np.minimum.reduceat(way, heads) != ATOMIC
        sizes = np.diff(heads, append=order.size)
        chosen: np.ndarray = order[np.repeat(several & written & plain, sizes)]
        return chosen

    def windows(self, chosen: np.ndarray) -> Iterator[_Window]:
        """Address ranges with about WINDOW elements of the chosen runs at most."""
        width = np.array([each.width for each in self.batches])[self.batch[chosen]]
        unit = int(width.min())
        if ((self.starts[chosen] | self.ends[chosen]) & (unit - 1)).any():
            unit = 1
        starts, ends = self.starts[chosen] // unit, self.ends[chosen] // unit
        total = int((ends - starts).sum())
        if total <= WINDOW:
            yield _Window(chosen, starts, ends, unit)
            return
        edges = _edges(starts, ends, total // WINDOW + 1)
        for low, high in itertools.pairwise(edges):
            inside = (starts < high) & (ends > low)
            yield _Window(
                chosen[inside], starts[inside].clip(low), ends[inside].clip(None, high), unit
            )


@dataclass(frozen=True)
class _Window:
    """Runs, cut to a range of addresses; these are counted in units of `unit` bytes."""

    runs: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    unit: int


def _edges(starts: np.ndarray, ends: np.ndarray, pieces: int) -> np.ndarray:
    """Addresses that cut runs into `pieces` ranges of about equal numbers of elements."""
    points = np.concatenate([starts, ends])
    steps = np.concatenate([np.ones(starts.size), -np.ones(ends.size)])
    order = np.argsort(points, kind="stable")
    points, depth = points[order], np.cumsum(steps[order])
    before = np.concatenate([[0], np.cumsum(depth[:-1] * np.diff(points))])
    wanted = np.linspace(0, before[-1], pieces + 1)[1:-1]
    inner = np.interp(wanted, before, points).astype(np.int64)
    return np.unique([points[0], *inner, points[-1]])


class _Elements:
    """The elements of a window, one entry for each access of each element."""

    def __init__(self, runs: _Runs, window: _Window) -> None:
        self._runs, self._unit = runs, window.unit
        sizes = window.ends - window.starts
        offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._run = np.repeat(window.runs, sizes)
        self._address = np.repeat(window.starts, sizes) + offsets

    def pairs(self, known: list[Site]) -> Iterator[Pairs]:
        """The conflicting pairs, if there are any."""
        self._keep_contended()
        if not self._run.size:
            return
        order = np.lexsort((self._programs(), self._runs.batch[self._run], self._address))
        self._run, self._address = self._run[order], self._address[order]
        first, second = self._neighbours()
        programs = self._programs()
        differ = programs[first] != programs[second]
        first, second = first[differ], second[differ]
        unequal = ~self._same_value(first, second)
        first, second = first[unequal], second[unequal]
        if not first.size:
            return
        runs, batches = self._run, self._runs.batches
        batch = self._runs.batch[runs]
        site = np.array([each.site for each in batches])[batch]
        late = np.array([each.synchronises for each in batches])[batch]
        stamps = self._runs.stamps[runs]
        yield Pairs(
            self._address[first] * self._unit,
            (programs[first], programs[second]),
            # An atomic acquires before its access, and releases after it.
            (stamps[first], (stamps + late)[second]),
            (site[first], site[second]),
            known,
            self._unit,
        )

    def _programs(self) -> np.ndarray:
        programs: np.ndarray = self._runs.programs[self._run]
        return programs

    def _keep_contended(self) -> None:
        """Drop elements of one program, that nobody writes, or that only atomics touch."""
        _, index = np.unique(self._address, return_inverse=True)
        index = index.reshape(-1)
        count = int(index.max()) + 1 if index.size else 0
        programs, way = self._programs(), self._runs.way[self._run]
        owner = np.empty(count, dtype=programs.dtype)
        owner[index] = programs
        several, written, plain = (np.zeros(count, dtype=bool) for _ in range(3))
        several[index[owner[index] != programs]] = True
        written[index[way != READ]] = True
        plain[index[way != ATOMIC]] = True
        kept = (several & written & plain)[index]
        self._run, self._address = self._run[kept], self._address[kept]

    def _neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of (earlier, later) access of one element: the last and the next write of each.

        Atomics don't conflict with each other. So for plain accesses, plain stores and atomics are
        searched separately.
        """
        way = self._runs.way[self._run]
        places = np.arange(way.size)
        heads = np.ones(way.size, dtype=bool)
        heads[1:] = self._address[1:] != self._address[:-1]
        begin = np.maximum.accumulate(np.where(heads, places, 0))
        tails = np.append(heads[1:], True)
        end = np.minimum.accumulate(np.where(tails, places, way.size)[::-1])[::-1]
        firsts, seconds = [], []
        for kind, chosen in ((WRITE, places), (ATOMIC, places[way != ATOMIC])):
            marked = np.where(way == kind, places, -1)
            last = np.append(-1, np.maximum.accumulate(marked)[:-1])[chosen]
            in_element = last >= begin[chosen]
            firsts.append(last[in_element])
            seconds.append(chosen[in_element])
            marked = np.where(way == kind, places, way.size)
            following = np.append(np.minimum.accumulate(marked[::-1])[::-1][1:], way.size)[chosen]
            in_element = following <= end[chosen]
            firsts.append(chosen[in_element])
            seconds.append(following[in_element])
        pairs = np.unique(np.stack([np.concatenate(firsts), np.concatenate(seconds)]), axis=1)
        return pairs[0], pairs[1]

    def _same_value(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Whether both accesses of a pair are stores of the same bits."""
        way = self._runs.way[self._run]
        same = np.zeros(first.size, dtype=bool)
        stores = np.flatnonzero((way[first] == WRITE) & (way[second] == WRITE))
        one, known = self._values(first[stores])
        two, too = self._values(second[stores])
        same[stores] = (one == two) & known & too
        return same

    def _values(self, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the bits that each entry stores, whether they are known)."""
        bits = np.zeros(entries.size, dtype=np.uint64)
        known = np.zeros(entries.size, dtype=bool)
        run = self._run[entries]
        batch = self._runs.batch[run]
        for number in np.unique(batch):
            each = self._runs.batches[number]
            if each.stored is None:
                continue
            chosen = np.flatnonzero(batch == number)
            at = run[chosen]
            per_element = each.width // self._unit
            place = self._runs.places[at] * per_element
            place += self._address[entries[chosen]] - self._runs.starts[at] // self._unit
            units = np.ascontiguousarray(each.stored).view(f"u{self._unit}")
            bits[chosen], known[chosen] = units[place], True
        return bits, known
