"""Distinct bytes that programs running at the same time load: what a launch's order is good for.

A GPU starts programs in the order of their linear index, the first axis of the grid fastest, and
runs so many of them at once (a wave). What they load in common comes from DRAM once, so an order
that gives neighbours the same inputs moves less. The same programs are counted in a second order:
by the first element each stores, which for a row-major output is row-major order of its tiles.
"""

from __future__ import annotations

import numpy as np

from .regions import SECTOR_BITS, Region

SECTOR_BYTES = 1 << SECTOR_BITS
MAX_BYTES = 256 << 20  # of what is remembered about the programs of a launch


class Waves:
    """The sectors that each program of one launch loads.

    `size` is how many programs run at once, `extent` the grid, `sectors` how many there are.
    """

    def __init__(self, size: int, extent: tuple[int, int, int], sectors: int) -> None:
        self.size = size
        self.cut = False
        self._extent = extent
        self._loaded = np.zeros(sectors, dtype=bool)
        self._linear: int | None = None
        self._first_store: tuple[int, int] = _NOTHING
        self._programs: list[tuple[int, tuple[int, int], np.ndarray]] = []

    def begin(self, x: int, y: int, z: int) -> None:
        """The next program runs."""
        self._end_of_program()
        nx, ny, _ = self._extent
        self._linear = x + nx * (y + ny * z)

    def add(self, kind: str, region: Region, addresses: np.ndarray) -> None:
        """The program at hand accesses addresses of a region."""
        if kind != "store":
            sectors = (addresses >> SECTOR_BITS) - (region.start >> SECTOR_BITS)
            self._loaded[region.first_sector + sectors] = True
        if kind != "load" and region.argument is not None:
            first = (region.argument, int(addresses.min()) - region.start)
            self._first_store = min(self._first_store, first)

    def counted(self) -> dict[str, int]:
        """How many waves there were and their distinct bytes, added up, in either order.

        Only full waves count, unless there is none.
        """
        self._end_of_program()
        launched = sorted(self._programs, key=lambda program: program[0])
        row_major = sorted(launched, key=lambda program: program[1])
        waves = max(1, len(launched) // self.size)
        return {
            "programs": len(launched),
            "waves": waves if launched else 0,
            "bytes": self._bytes(launched, waves),
            "row_major_bytes": self._bytes(row_major, waves),
        }

    def _bytes(self, programs: list, waves: int) -> int:
        total = 0
        for first in range(0, min(waves * self.size, len(programs)), self.size):
            maps = [program[2] for program in programs[first : first + self.size]]
            together = np.bitwise_or.reduce(maps)
            total += int(np.count_nonzero(np.unpackbits(together))) * SECTOR_BYTES
        return total

    def _end_of_program(self) -> None:
        if self._linear is None:
            return
        if (len(self._programs) + 1) * self._loaded.size // 8 > MAX_BYTES:
            self.cut = True
        else:
            packed = np.packbits(self._loaded)
            self._programs.append((self._linear, self._first_store, packed))
        self._loaded[:] = False
        self._first_store = _NOTHING
        self._linear = None


_NOTHING = (1 << 30, 0)  # sorts behind every store
