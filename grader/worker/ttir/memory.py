"""The buffers that kernels access, by address.

They are farther from each other than on a GPU, so that an address outside of all is recognised.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable

import numpy as np

from .errors import NotModelled


class Buffer:
    """Memory from `address` on. `data` are its bytes (uint8)."""

    __slots__ = ("_views", "address", "data", "end", "was_read", "writable")

    def __init__(self, data: np.ndarray, address: int, writable: bool = True) -> None:
        self.data = data
        self.address = address
        self.end = address + data.size
        self.writable = writable
        self.was_read = False  # by a load, or by an atomic whose result is used
        self._views: dict[type, np.ndarray] = {}

    def view(self, dtype: type) -> np.ndarray:
        """The elements of a type whose addresses are multiples of its size."""
        view = self._views.get(dtype)
        if view is None:
            width = np.dtype(dtype).itemsize
            start = self.skipped(width)
            count = max(0, self.data.size - start) // width
            view = self._views[dtype] = self.data[start : start + count * width].view(dtype)
        return view

    def read(self, dtype: type, index: np.ndarray) -> np.ndarray:
        """The elements at these indices."""
        return np.take(self.view(dtype), index)

    def write(self, dtype: type, index: np.ndarray, values: np.ndarray) -> None:
        """Set the elements at these indices; of two values for one, the later one stays."""
        self.view(dtype)[index] = values

    def skipped(self, width: int) -> int:
        """Bytes before the first address that is a multiple of `width`."""
        return -self.address % width


class Zeros(Buffer):
    """Addresses without memory, of any number: they read as zeros, and keep nothing."""

    __slots__ = ()

    def __init__(self, size: int, address: int) -> None:
        super().__init__(np.broadcast_to(np.uint8(0), size), address)

    def view(self, dtype: type) -> np.ndarray:
        """Refuse: only reads and writes go without memory."""
        raise NotModelled("an atomic on a buffer without data")

    def read(self, dtype: type, index: np.ndarray) -> np.ndarray:
        """Zeros."""
        return np.zeros(index.shape, dtype)

    def write(self, dtype: type, index: np.ndarray, values: np.ndarray) -> None:
        """Keep nothing."""


class Memory:
    """Buffers that don't overlap."""

    def __init__(self, buffers: Iterable[Buffer] = ()) -> None:
        self.buffers = sorted(buffers, key=lambda each: each.address)
        self._starts = [each.address for each in self.buffers]
        self._start_array = np.array(self._starts, np.int64)
        self._ends = np.array([each.end for each in self.buffers], np.int64)

    def holding(self, low: int, high: int) -> Buffer | None:
        """The buffer that contains all bytes from `low` up to `high`."""
        place = bisect.bisect_right(self._starts, low) - 1
        if place < 0:
            return None
        buffer = self.buffers[place]
        return buffer if high <= buffer.end else None

    def numbers(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """For each address, the number of the buffer with `width` bytes there, or -1."""
        if not self.buffers:
            return np.full(addresses.shape, -1)
        places = np.searchsorted(self._start_array, addresses, side="right") - 1
        inside = (places >= 0) & (addresses <= self._ends[places] - width)
        return np.where(inside, places, -1)

    def nearest(self, address: int) -> Buffer | None:
        """The buffer whose bytes are nearest to an address."""
        return min(
            self.buffers,
            key=lambda each: max(each.address - address, address - each.end, 0),
            default=None,
        )
