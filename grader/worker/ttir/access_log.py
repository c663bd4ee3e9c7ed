"""A log of one launch's accesses, as runs of neighbouring addresses.

A run is a row of consecutive elements that one program accesses by one operation. Most blocks are a
few long runs, so the log stays small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .accesses import Lanes

READ, WRITE, ATOMIC = 0, 1, 2  # kinds of access


@dataclass(frozen=True)
class Site:
    """A line and its kind of access: "load", "store", "atomic" or "cta_atomic" (semantics.py)."""

    line: int
    kind: str


@dataclass(frozen=True)
class Batch:
    """The runs of one access of a chunk; `places` are where the runs begin in `stored`."""

    starts: np.ndarray
    counts: np.ndarray  # elements
    programs: np.ndarray
    stamps: np.ndarray
    places: np.ndarray
    stored: np.ndarray | None
    width: int
    site: int
    way: int
    synchronises: bool


class Log:
    """The accesses of one launch."""

    def __init__(self) -> None:
        self.runs = 0
        self.sites: list[Site] = []
        self.batches: list[Batch] = []
        self._numbers: dict[Site, int] = {}

    def add(self, lanes: Lanes, site: Site, stamps: np.ndarray, synchronises: bool) -> None:
        """Add an access of programs to a block each; row i's program has stamp `stamps[i]`."""
        number = self._numbers.setdefault(site, len(self.sites))
        if number == len(self.sites):
            self.sites.append(site)
        starts, counts, rows, places = _runs_of(lanes)
        if not starts.size:
            return
        way = ATOMIC if synchronises or site.kind == "atomic" else WRITE
        if site.kind == "load" and not synchronises:
            way = READ
        if site.kind == "cta_atomic":
            way = WRITE
        stored = None
        if site.kind == "store" and lanes.stored is not None:
            stored = lanes.stored.reshape(-1)
        self.runs += starts.size
        self.batches.append(
            Batch(
                starts,
                counts,
                lanes.programs[rows],
                stamps[rows],
                places,
                stored,
                lanes.width,
                number,
                way,
                synchronises,
            )
        )


def _runs_of(lanes: Lanes) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(first address, elements, row, index of the first lane) of each run of neighbours."""
    table = lanes.addresses
    size = table.shape[1]
    if not table.size:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing, nothing
    begins = np.ones(table.shape, dtype=bool)
    np.not_equal(table[:, 1:] - table[:, :-1], lanes.width, out=begins[:, 1:])
    if lanes.active is not None and not lanes.active.all():
        begins[:, 1:] |= ~lanes.active[:, :-1]
        ends = np.ones(table.shape, dtype=bool)
        ends[:, :-1] = begins[:, 1:] | ~lanes.active[:, 1:]
        first = np.flatnonzero(begins & lanes.active)
        counts = np.flatnonzero(ends & lanes.active) - first + 1
    else:
        first = np.flatnonzero(begins)
        counts = np.diff(first, append=table.size)
    return table.reshape(-1)[first], counts, first // size, first
