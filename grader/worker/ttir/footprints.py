"""Counts the distinct bytes that each program of a launch touches.

A program that does all of the work touches all of a case's bytes; one that goes over its own part
again and again, as a stencil does, touches no more than that part.
"""

from __future__ import annotations

import numpy as np

from .accesses import Requests
from .regions import SECTOR_BYTES

MAX_KEYS = 1 << 24  # of a program and a sector that it touches, in one launch
COMPACT_AT = 1 << 21  # keys, beyond which duplicates are dropped
_SECTOR_BITS = 40  # of a key, the program above them; buffers lie within 2**44 bytes
MAX_PROGRAMS = 1 << (63 - _SECTOR_BITS)


class Footprints:
    """The bytes that each program of one launch moves, and how many of them are different ones.

    Loads are one thing and stores another. Different bytes are counted by whole sectors, which is
    cheaper by far, and never as more than a program moves.
    """

    def __init__(self, programs: int) -> None:
        self.moved = np.zeros(programs, dtype=np.int64)
        self._cut = programs > MAX_PROGRAMS  # too many to keep
        self._keys: dict[bool, list[np.ndarray]] = {}  # by whether they are of loads
        self._kept = self._pending = 0

    def add(self, kind: str, requests: Requests, moved: np.ndarray) -> None:
        """Add requests, with the bytes that each of their programs moves."""
        np.add.at(self.moved, requests.programs, moved)
        if self._cut:
            return
        programs, sectors = requests.moved_sectors()
        keys = (programs.astype(np.int64) << _SECTOR_BITS) + (sectors & ((1 << _SECTOR_BITS) - 1))
        self._keys.setdefault(kind == "load", []).append(keys)
        self._pending += keys.size
        if self._pending > max(COMPACT_AT, self._kept):
            self._compact()

    def largest(self) -> int:
        """The different bytes of the program that touches the most."""
        self._compact()
        if self._cut:
            return int(self.moved.max(initial=0))
        touched = np.zeros(self.moved.size, dtype=np.int64)
        for [keys] in self._keys.values():
            touched += np.bincount(keys >> _SECTOR_BITS, minlength=touched.size) * SECTOR_BYTES
        return int(np.minimum(touched, self.moved).max(initial=0))

    def _compact(self) -> None:
        self._keys = {each: [np.unique(np.concatenate(kept))] for each, kept in self._keys.items()}
        self._kept, self._pending = sum(kept[0].size for kept in self._keys.values()), 0
        if self._kept > MAX_KEYS:
            self._cut = True
            self._keys = {}
