"""Counts the different bytes that each program of a launch loads and stores.

A program that does all of the work touches all of a case's bytes. One that goes over its own part
again and again, as a stencil does, touches no more than that part.
"""

from __future__ import annotations

import numpy as np

from .accesses import Requests
from .distinct import distinct
from .regions import SECTOR_BYTES

MAX_KEYS = 1 << 24  # of a program and a sector that it touches, in one launch
COMPACT_AT = 1 << 21  # keys, beyond which duplicates are dropped
# A key is a program, whether it loads, and a sector's number: buffers lie within 2**44 bytes.
_LOADS = 1 << 39
_PROGRAM_BIT = 40
MAX_PROGRAMS = 1 << (63 - _PROGRAM_BIT)


class Footprints:
    """The bytes that each program of one launch moves, and how many of them are different ones.

    Different bytes are counted by whole sectors, which is cheaper by far, and never as more than a
    program moves. A sector that is loaded and stored counts twice, as it does in what a case needs.
    """

    def __init__(self, programs: int) -> None:
        self.moved = np.zeros(programs, dtype=np.int64)
        self._cut = programs > MAX_PROGRAMS  # too many to keep
        self._keys: list[np.ndarray] = []  # the first of them without duplicates
        self._pending = 0

    def add(self, kind: str, requests: Requests, moved: np.ndarray) -> None:
        """Add requests, with the bytes that each of their programs moves."""
        np.add.at(self.moved, requests.programs, moved)
        if self._cut:
            return
        programs, sectors = requests.moved_sectors()
        keys = (programs << _PROGRAM_BIT) + (sectors & (_LOADS - 1))
        self._keys.append(keys + _LOADS if kind == "load" else keys)
        self._pending += keys.size
        if self._pending > max(COMPACT_AT, self._keys[0].size):
            self._compact()

    def largest(self) -> int:
        """The different bytes of the program that touches the most; all that it moves if cut."""
        keys = self._compact()
        if self._cut:
            return int(self.moved.max(initial=0))
        touched = np.bincount(keys >> _PROGRAM_BIT, minlength=self.moved.size) * SECTOR_BYTES
        return int(np.minimum(touched, self.moved).max(initial=0))

    def _compact(self) -> np.ndarray:
        keys = distinct(np.concatenate(self._keys)) if self._keys else np.empty(0, np.int64)
        self._cut = self._cut or keys.size > MAX_KEYS
        self._keys, self._pending = [] if self._cut else [keys], 0
        return keys
