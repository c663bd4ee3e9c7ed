"""Counts the distinct bytes loaded by programs that run at the same time.

A GPU starts programs in the order of their linear index, the first axis of the grid fastest, and
runs a number of them at once (a wave). Their common loads come from DRAM once, so an order with the
same inputs for neighbours moves less. The programs are also counted in a second order, by the first
element that each stores: for a row-major output, the row-major order of its tiles.
"""

from __future__ import annotations

import numpy as np

from .accesses import Requests
from .regions import SECTOR_BITS, SECTOR_BYTES, Region

MAX_PAIRS = 1 << 25  # of a program and a sector that it loads, in one launch
COMPACT_AT = 1 << 22  # pairs, beyond which duplicates are dropped
_NO_STORE = np.iinfo(np.int64).max  # sorts behind every store
_OFFSET_BITS = 40  # of a key; the argument is above them


class Waves:
    """The sectors that each program of one launch loads.

    `size` is the number of programs that run at once, `programs` the grid's. `cut`: some loads were
    not kept.
    """

    def __init__(self, size: int, programs: int) -> None:
        self.size = size
        self.cut = False
        self._programs = programs
        self._first_store = np.full(programs, _NO_STORE)
        self._pairs: list[np.ndarray] = []  # (program << 32) + number of the sector
        self._pending = 0
        self._numbers: dict[int, int] = {}  # a region's start -> the number of its first sector
        self._next_number = 0

    def add(self, kind: str, region: Region, requests: Requests) -> None:
        """Add requests of programs that are all in one region."""
        if kind != "store":
            programs, sectors = requests.moved_sectors()
            self._load(region, programs, sectors)
        if kind != "load" and region.argument is not None:
            self._store(region, requests.programs_of_distinct(), requests.distinct())

    def add_some(self, kind: str, region: Region, requests: Requests, chosen: np.ndarray) -> None:
        """Add programs' requests whose `chosen` distinct addresses are in a region."""
        programs = requests.programs_of_distinct()[chosen]
        addresses = requests.distinct()[chosen]
        if kind != "store":
            self._load(region, programs, addresses >> SECTOR_BITS)
        if kind != "load" and region.argument is not None:
            self._store(region, programs, addresses)

    def counted(self) -> dict[str, int]:
        """The number of waves and the sum of their distinct bytes, in either order.

        Only full waves count, unless there is none. The bytes that all programs ask for, each its
        own, and those of the launch show whether programs share any.
        """
        waves = max(1, self._programs // self.size) if self._programs else 0
        launched = np.arange(self._programs)
        row_major = np.argsort(self._first_store, kind="stable")
        pairs = self._compact()
        return {
            "programs": self._programs,
            "waves": waves,
            "bytes": self._bytes(launched, waves),
            "row_major_bytes": self._bytes(row_major, waves),
            "asked_bytes": int(pairs.size) * SECTOR_BYTES,
            "distinct_bytes": int(np.unique(pairs & 0xFFFFFFFF).size) * SECTOR_BYTES,
        }

    def _load(self, region: Region, programs: np.ndarray, sectors: np.ndarray) -> None:
        base = self._numbers.get(region.start)
        if base is None:
            base = self._numbers[region.start] = self._next_number
            self._next_number += (region.end >> SECTOR_BITS) - (region.start >> SECTOR_BITS) + 1
        numbers = base + (sectors - (region.start >> SECTOR_BITS))
        self._pairs.append((programs << 32) + numbers)
        self._pending += numbers.size
        if self._pending > COMPACT_AT:
            self._compact()

    def _store(self, region: Region, programs: np.ndarray, addresses: np.ndarray) -> None:
        keys = ((region.argument or 0) << _OFFSET_BITS) + (addresses - region.start)
        np.minimum.at(self._first_store, programs, keys)

    def _compact(self) -> np.ndarray:
        pairs = np.unique(np.concatenate(self._pairs)) if self._pairs else np.empty(0, np.int64)
        if pairs.size > MAX_PAIRS:
            self.cut = True
            pairs = pairs[:MAX_PAIRS]
        self._pairs, self._pending = [pairs], 0
        return pairs

    def _bytes(self, order: np.ndarray, waves: int) -> int:
        """The distinct bytes of each wave's loads, with programs in an order."""
        wave_of = np.empty(self._programs, dtype=np.int64)
        wave_of[order] = np.arange(self._programs) // self.size
        pairs = self._compact()
        wave = wave_of[pairs >> 32]
        in_waves = wave < waves
        keys = (wave[in_waves] << 32) + (pairs[in_waves] & 0xFFFFFFFF)
        return int(np.unique(keys).size) * SECTOR_BYTES
