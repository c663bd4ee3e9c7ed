"""Counts the distinct bytes loaded by programs that run at the same time.

A GPU starts programs in the order of their linear index, the first axis of the grid fastest, and
runs a number of them at once (a wave). Their common loads come from DRAM once, so an order with the
same inputs for neighbours moves less.

A persistent program makes several tiles, one after another. What it loads up to its stores of one
tile is a turn: the first turns of all programs run at the same time, then the second ones. A wave
consists of turns, and most kernels' programs have one each. The turns are also counted in a second
order, by the first element that each stores: for a row-major output, the row-major order of its
tiles. Only turns of the same number change places, so that a turn which loads little can't part
those that do the work.
"""

from __future__ import annotations

import numpy as np

from .accesses import Requests
from .distinct import distinct
from .regions import SECTOR_BITS, SECTOR_BYTES, Region

MAX_PAIRS = 1 << 25  # of a turn and a sector that it loads, in one launch
COMPACT_AT = 1 << 22  # pairs, beyond which duplicates are dropped
MAX_TURNS = 1 << 20  # in one launch of fewer programs: their number times the longest's turns
_NO_STORE = np.iinfo(np.int64).max  # sorts behind every store
_OFFSET_BITS = 40  # of a key; the argument is above them


class Waves:
    """The sectors that each program of one launch loads, turn by turn.

    `size` is the number of programs that run at once, `programs` the grid's. `cut`: some loads were
    not kept.
    """

    def __init__(self, size: int, programs: int) -> None:
        self.size = max(1, min(size, programs))
        self.cut = False
        self._programs = programs
        self._number = np.zeros(programs, dtype=np.int64)  # of the turn that each program is in
        # The first element stored by each turn: all programs' first turns, then their second ones.
        self._first_store = np.full(programs, _NO_STORE)
        self._pairs: list[np.ndarray] = []  # (turn << 32) + number of the sector
        self._pending = 0
        self._numbers: dict[int, int] = {}  # a region's start -> the number of its first sector
        self._next_number = 0

    def add(self, kind: str, region: Region, requests: Requests) -> None:
        """Add requests of programs that are all in one region."""
        if kind != "store":
            programs, sectors = requests.moved_sectors()
            self._load(kind, region, programs, sectors)
        if kind != "load" and region.argument is not None:
            self._store(region, requests.programs_of_distinct(), requests.distinct())

    def add_some(self, kind: str, region: Region, requests: Requests, chosen: np.ndarray) -> None:
        """Add programs' requests whose `chosen` distinct addresses are in a region."""
        programs = requests.programs_of_distinct()[chosen]
        addresses = requests.distinct()[chosen]
        if kind != "store":
            self._load(kind, region, programs, addresses >> SECTOR_BITS)
        if kind != "load" and region.argument is not None:
            self._store(region, programs, addresses)

    def counted(self) -> dict[str, int]:
        """The number of waves and the sum of their distinct bytes, in either order.

        Only full waves count. The bytes that all turns ask for, each its own, and those of the
        launch show whether turns share any.
        """
        turns = np.arange((int(self._number.max(initial=-1)) + 1) * self._programs)
        turns = turns[turns // self._programs <= self._number[turns % self._programs]]
        waves = turns.size // self.size
        launched = turns
        row_major = turns[np.lexsort((self._first_store[turns], turns // self._programs))]
        pairs = self._compact()
        return {
            "turns": turns.size,
            "waves": waves,
            "bytes": self._bytes(launched, waves),
            "row_major_bytes": self._bytes(row_major, waves),
            "asked_bytes": int(pairs.size) * SECTOR_BYTES,
            "distinct_bytes": int(distinct(pairs & 0xFFFFFFFF).size) * SECTOR_BYTES,
        }

    def _load(self, kind: str, region: Region, programs: np.ndarray, sectors: np.ndarray) -> None:
        if kind == "load":  # an atomic is a part of the stores
            self._begin_turns(programs)
        base = self._numbers.get(region.start)
        if base is None:
            base = self._numbers[region.start] = self._next_number
            self._next_number += (region.end >> SECTOR_BITS) - (region.start >> SECTOR_BITS) + 1
        numbers = base + (sectors - (region.start >> SECTOR_BITS))
        self._pairs.append((self._turns(programs) << 32) + numbers)
        self._pending += numbers.size
        if self._pending > COMPACT_AT:
            self._compact()

    def _turns(self, programs: np.ndarray) -> np.ndarray:
        """The turns that programs are in."""
        turns: np.ndarray = self._number[programs] * self._programs + programs
        return turns

    def _begin_turns(self, programs: np.ndarray) -> None:
        """Begin a turn of those programs that have stored in theirs."""
        done = distinct(programs[self._first_store[self._turns(programs)] != _NO_STORE])
        if not done.size:
            return
        turns = (int(self._number[done].max()) + 2) * self._programs
        if turns > MAX_TURNS:
            self.cut = True
            return
        self._number[done] += 1
        if turns > self._first_store.size:  # twice the room, or each turn would copy all of it
            room = np.full(turns, _NO_STORE)
            self._first_store = np.concatenate([self._first_store, room])

    def _store(self, region: Region, programs: np.ndarray, addresses: np.ndarray) -> None:
        keys = ((region.argument or 0) << _OFFSET_BITS) + (addresses - region.start)
        np.minimum.at(self._first_store, self._turns(programs), keys)

    def _compact(self) -> np.ndarray:
        pairs = distinct(np.concatenate(self._pairs)) if self._pairs else np.empty(0, np.int64)
        if pairs.size > MAX_PAIRS:
            self.cut = True
            pairs = pairs[:MAX_PAIRS]
        self._pairs, self._pending = [pairs], 0
        return pairs

    def _bytes(self, order: np.ndarray, waves: int) -> int:
        """The distinct bytes of each wave's loads, with turns in an order."""
        wave_of = np.empty(self._first_store.size, dtype=np.int64)
        wave_of[order] = np.arange(order.size) // self.size
        pairs = self._compact()
        wave = wave_of[pairs >> 32]
        in_waves = wave < waves
        keys = (wave[in_waves] << 32) + (pairs[in_waves] & 0xFFFFFFFF)
        return int(distinct(keys).size) * SECTOR_BYTES
