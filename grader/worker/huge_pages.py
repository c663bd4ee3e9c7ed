"""Gathers a process's memory into huge pages, so that a fork has less to copy.

A fork copies an entry for each page that its parent has touched, and its end frees each. Huge pages
are 512 times fewer. A child's writes still copy small pages
(https://docs.kernel.org/admin-guide/mm/transhuge.html; MADV_COLLAPSE in madvise(2), Linux 6.1).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

MADV_COLLAPSE = 25
SIZE = 2 << 20  # bytes of a huge page


def gathering() -> Iterator[int]:
    """Gather this process's memory, one huge page a step; yields its address.

    A step takes a few milliseconds. Memory that the kernel can't gather stays as it is.
    """
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in _own_memory():
        for address in range(-(-start // SIZE) * SIZE, end // SIZE * SIZE, SIZE):
            madvise(address, SIZE, MADV_COLLAPSE)
            yield address


def _own_memory() -> list[tuple[int, int]]:
    """The ranges of memory without a file: the heap, and anonymous mappings.

    Empty where a sandbox hides /proc.
    """
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    ranges = []
    for line in lines:
        place, rights, _, _, _, *name = line.split(None, 5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(each, 16) for each in place.split("-"))
            ranges.append((start, end))
    return ranges
