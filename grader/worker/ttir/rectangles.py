"""Blocks of a tensor in memory: what tensor descriptors and block pointers address."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

Arrays = tuple[np.ndarray, ...]  # one for each dimension


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory: its address, shape and strides in elements, for each program.

    All arrays have the shape (programs,) or (1,). `zeros`: elements outside read as zero instead of
    NaN. `offsets` are a block pointer's place in it.
    """

    base: np.ndarray
    shape: Arrays
    strides: Arrays
    offsets: Arrays = ()
    zeros: bool = True

    def merged(self, chosen: np.ndarray, other: Tensor) -> Tensor:
        """This tensor for chosen programs, the other for the rest."""

        def choose(ours: Arrays, theirs: Arrays) -> Arrays:
            return tuple(np.where(chosen, a, b) for a, b in zip(ours, theirs, strict=True))

        return replace(
            self,
            base=np.where(chosen, self.base, other.base),
            shape=choose(self.shape, other.shape),
            strides=choose(self.strides, other.strides),
            offsets=choose(self.offsets, other.offsets),
        )


def along(axis: int, rank: int, values: np.ndarray) -> np.ndarray:
    """Values (programs, n) as a block of `rank` dimensions that differs along one of them."""
    return values.reshape(
        values.shape[0], *(values.shape[1] if i == axis else 1 for i in range(rank))
    )


def rectangle(
    tensor: Tensor,
    indices: list[np.ndarray],
    width: int,
    checked: set[int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(addresses, inside) of a block whose elements have `indices` (programs, n) along each axis.

    `inside` is whether they are in the tensor along the `checked` dimensions, None: all.
    """
    rank = len(indices)
    addresses = tensor.base.reshape(-1, *(1,) * rank)
    inside = np.ones((1,) * (rank + 1), bool)
    for axis, index in enumerate(indices):
        index = index.astype(np.int64)
        stride = tensor.strides[axis].astype(np.int64)[:, None] * width
        addresses = addresses + along(axis, rank, index * stride)
        if checked is None or axis in checked:
            limit = tensor.shape[axis].astype(np.int64)[:, None]
            inside = inside & along(axis, rank, (index >= 0) & (index < limit))
    return addresses, inside


def span(start: np.ndarray, length: int) -> np.ndarray:
    """start, start + 1, ...: an array (programs, length) from one (programs,)."""
    return start.astype(np.int64)[:, None] + np.arange(length)
