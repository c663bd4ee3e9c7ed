"""Memory that a kernel may touch: the tensors it was given, element by element, and its scratch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

SECTOR_BITS = 5  # a sector has 32 bytes


@dataclass
class Region:
    """A strided tensor or an allocation, and what was loaded from and stored to it.

    `steps` are (bytes from one element to the next, elements) of each dimension, the largest step
    first; () where there are no gaps. `loads` and `stores` count bytes, each time they are asked
    for; the bitmaps say which elements were touched at all.
    """

    start: int  # address of the first byte
    end: int  # behind the last one
    itemsize: int = 1
    argument: int | None = None  # place in the entry's signature; None for scratch
    steps: tuple[tuple[int, int], ...] = ()
    first_sector: int = 0  # its place among the sectors of all regions
    loads: int = 0
    stores: int = 0
    loaded: np.ndarray | None = field(default=None, repr=False)  # bool per element
    stored: np.ndarray | None = field(default=None, repr=False)

    @property
    def sectors(self) -> int:
        """How many sectors it has a part of."""
        return ((self.end - 1) >> SECTOR_BITS) - (self.start >> SECTOR_BITS) + 1

    def holds(self, addresses: np.ndarray, width: int) -> np.ndarray:
        """bool, for each address: whether the `width` bytes there belong to it."""
        offsets = addresses - self.start
        inside = (offsets >= 0) & (offsets + width <= self.end - self.start)
        if self.steps:
            inside &= self._in_elements(offsets) & self._in_elements(offsets + (width - 1))
        return inside

    def holds_span(self, low: int, high: int) -> bool:
        """Whether all from `low` up to `high` belongs to it, gaps or not."""
        return self.start <= low and high <= self.end

    def add(self, kind: str, addresses: np.ndarray, width: int) -> None:
        """Count accesses at distinct addresses of one request each."""
        if kind != "store":
            self.loads += addresses.size * width
        if kind != "load":
            self.stores += addresses.size * width
        if self.argument is None:
            return
        first = (addresses - self.start) // self.itemsize
        for element in range(max(1, width // self.itemsize)):
            if kind != "store":
                self.loaded[first + element] = True
            if kind != "load":
                self.stored[first + element] = True

    def counted(self) -> dict[str, int | None]:
        """What was loaded and stored, in bytes: every time, and each element once."""
        return {
            "argument": self.argument,
            "load_bytes": self.loads,
            "store_bytes": self.stores,
            "distinct_load_bytes": int(np.count_nonzero(self.loaded)) * self.itemsize,
            "distinct_store_bytes": int(np.count_nonzero(self.stored)) * self.itemsize,
        }

    def _in_elements(self, offsets: np.ndarray) -> np.ndarray:
        rest, fits = offsets, True
        for step, count in self.steps:
            index, rest = np.divmod(rest, step)
            fits = fits & (index < count)
        return fits & (rest < self.itemsize)


def of_argument(index: int, tensor: torch.Tensor) -> Region:
    """The elements of a tensor argument; what lies between padded rows is outside."""
    itemsize = tensor.element_size()
    steps = sorted(
        (
            (stride * itemsize, size)
            for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
            if size > 1 and stride > 0
        ),
        reverse=True,
    )
    extent = sum(step * (count - 1) for step, count in steps) + itemsize
    dense = extent == tensor.numel() * itemsize
    start = tensor.data_ptr()
    elements = extent // itemsize
    return Region(
        start,
        start + extent,
        itemsize,
        index,
        () if dense else tuple(steps),
        loaded=np.zeros(elements, dtype=bool),
        stored=np.zeros(elements, dtype=bool),
    )


def of_storage(tensor: torch.Tensor) -> Region:
    """All of the memory that a tensor of the entry's own lies in."""
    storage = tensor.untyped_storage()
    return Region(storage.data_ptr(), storage.data_ptr() + storage.nbytes())
