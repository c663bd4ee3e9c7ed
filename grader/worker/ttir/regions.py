"""Memory that a kernel may touch: the arguments' elements, and the entry's scratch.

Addresses are those of the plan's buffers (see memory.py). The gap between padded rows of an
argument is in its buffer but not in its region.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

SECTOR_BITS = 5  # a sector has 32 bytes
SECTOR_BYTES = 1 << SECTOR_BITS
_WORD = 4  # bytes of scratch that are marked together


@dataclass
class Region:
    """A strided argument or a scratch buffer, and its loads and stores.

    `elements` marks its elements; None where there are no gaps. `loads` and `stores` count bytes
    per request. `loaded` and `stored` mark the touched elements; of scratch, `stored` the words.
    `writable` is False for arguments that programs only read.
    """

    start: int  # address of the first byte
    end: int  # behind the last one
    itemsize: int = 1
    argument: int | None = None  # place in the entry's signature; None for scratch
    line: int = 0  # of the host code that allocated scratch
    elements: np.ndarray | None = field(default=None, repr=False)
    writable: bool = True
    loads: int = 0
    stores: int = 0
    loaded: np.ndarray | None = field(default=None, repr=False)  # bool per element
    stored: np.ndarray | None = field(default=None, repr=False)

    @property
    def dense(self) -> bool:
        """Whether every byte between its start and its end belongs to it."""
        return self.elements is None

    def covers(self, low: int, high: int) -> bool:
        """Whether all from `low` up to `high` is between its start and its end."""
        return self.start <= low and high <= self.end

    def overlaps(self, low: int, high: int) -> bool:
        """Whether any byte from `low` up to `high` is between its start and its end."""
        return low < self.end and self.start < high

    def distance(self, address: int) -> int:
        """The number of bytes between it and an address outside."""
        return max(self.start - address, address - self.end, 0)

    def holds(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """bool, for each address: whether the `width` bytes there belong to it."""
        offsets = addresses - self.start
        inside = (offsets >= 0) & (offsets + width <= self.end - self.start)
        if self.elements is not None:
            for byte in {0, width - 1}:
                element = np.where(inside, (offsets + byte) // self.itemsize, 0)
                inside &= self.elements[element]
        return inside

    def add(self, kind: str, addresses: np.ndarray, width: int) -> None:
        """Count accesses at the distinct addresses of one request each."""
        if kind != "store":
            self.loads += addresses.size * width
        if kind != "load":
            self.stores += addresses.size * width
        touched = [self.loaded] * (kind != "store") + [self.stored] * (kind != "load")
        for bitmap in touched:
            if bitmap is not None:
                first = (addresses - self.start) // self.itemsize
                for element in range(max(1, width // self.itemsize)):
                    bitmap[first + element] = True

    def counted(self) -> dict[str, int | None]:
        """The loaded and stored bytes: per request, and each element once."""
        return {
            "argument": self.argument,
            "load_bytes": self.loads,
            "store_bytes": self.stores,
            "distinct_load_bytes": _bytes_of(self.loaded, self.itemsize),
            "distinct_store_bytes": _bytes_of(self.stored, self.itemsize),
        }


class Regions:
    """All regions of one call, searched by address."""

    def __init__(self, regions: Sequence[Region] = ()) -> None:
        self._regions = sorted(regions, key=lambda region: region.start)

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    @property
    def arguments(self) -> list[Region]:
        """The regions that are arguments, in the order of the entry's signature."""
        given = [region for region in self._regions if region.argument is not None]
        return sorted(given, key=lambda region: region.argument or 0)

    @property
    def scratch_bytes(self) -> int:
        """The bytes of all regions that the entry allocated."""
        return sum(each.end - each.start for each in self._regions if each.argument is None)

    @property
    def scratch_stored_bytes(self) -> int:
        """Of these, the bytes that were stored to, each once."""
        return sum(
            min(_bytes_of(each.stored, each.itemsize), each.end - each.start)
            for each in self._regions
            if each.argument is None
        )

    def nearest(self, address: int) -> Region | None:
        """The region that lies nearest to an address."""
        return min(self._regions, key=lambda region: region.distance(address), default=None)

    def whole(self, low: int, high: int) -> Region | None:
        """The region without gaps that contains everything from `low` up to `high`, or None."""
        for region in self._regions:
            if region.dense and region.covers(low, high):
                return region
        return None

    def attribute(
        self, addresses: np.ndarray, width: int
    ) -> Iterator[tuple[Region | None, np.ndarray]]:
        """(region, indices into `addresses`) for each region touched; (None, ...) for the rest."""
        rest = np.arange(addresses.size)
        if not rest.size:
            return
        low, high = int(addresses.min()), int(addresses.max()) + width
        for region in self._regions:
            if not region.overlaps(low, high):
                continue
            held = region.holds(addresses[rest], width)
            if held.any():
                yield region, rest[held]
            rest = rest[~held]
            if not rest.size:
                return
        yield None, rest


def of_argument(
    index: int,
    address: int,
    itemsize: int,
    shape: Sequence[int],
    strides: Sequence[int],
    *,
    writable: bool = True,
) -> Region:
    """The region of a tensor argument whose first element is at `address`; strides in elements."""
    extent = 0
    if 0 not in shape:
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    belongs = np.zeros(extent, dtype=bool)
    if extent:
        np.lib.stride_tricks.as_strided(belongs, shape, strides)[...] = True
    return Region(
        address,
        address + extent * itemsize,
        itemsize,
        index,
        elements=None if belongs.all() else belongs,
        writable=writable,
        loaded=np.zeros(extent, dtype=bool),
        stored=np.zeros(extent, dtype=bool),
    )


def of_scratch(address: int, size: int, line: int = 0, *, counted: bool = True) -> Region:
    """The region of a buffer that the entry allocated, in a `line` of its file."""
    stored = np.zeros(-(-size // _WORD), dtype=bool) if counted else None
    return Region(address, address + size, _WORD, line=line, stored=stored)


def _bytes_of(bitmap: np.ndarray | None, itemsize: int) -> int:
    return 0 if bitmap is None else int(np.count_nonzero(bitmap)) * itemsize
