"""Blocks of pointers as the warps of a GPU ask for them.

A block is spread over warps as Triton's coalescing pass does it: a blocked layout whose fastest
dimension is the one along which pointers are neighbours (the last where there is none), and
neighbours go to neighbouring lanes. A request is 32 elements in that order; it moves the distinct
32-byte sectors that its unmasked elements lie in, and the distinct bytes of those elements are the
useful ones. Differences to a GPU's counters: lanes there may take up to 16 bytes each, which makes
fewer requests of the same sectors; a scalar is one request here and one per warp there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .regions import SECTOR_BITS

LANES = 32
_NOBODY = np.iinfo(np.int64).max  # the address of a lane that accesses nothing


@dataclass(frozen=True)
class Requests:
    """What one access of a block comes to; `addresses` are the distinct ones of each request."""

    count: int  # requests that have an unmasked element
    lanes: int  # unmasked elements
    sectors: int
    addresses: np.ndarray


def requests(addresses: np.ndarray, active: Any, width: int) -> Requests:
    """The requests for a block of addresses (int64, any shape) of elements of `width` bytes.

    `active` is the mask, of the same shape, or True.
    """
    lanes = _by_lane(addresses, active, width)
    valid = lanes != _NOBODY
    fresh = valid.copy()
    fresh[:, 1:] &= lanes[:, 1:] != lanes[:, :-1]
    sectors = lanes >> SECTOR_BITS
    moved = valid.copy()
    moved[:, 1:] &= sectors[:, 1:] != sectors[:, :-1]
    return Requests(
        int(np.count_nonzero(valid[:, 0])),
        int(np.count_nonzero(valid)),
        int(np.count_nonzero(moved)),
        lanes[fresh],
    )


def _by_lane(addresses: np.ndarray, active: Any, width: int) -> np.ndarray:
    """int64[requests, 32]: addresses as warps ask for them, sorted in each; see the module."""
    lanes = np.where(active, addresses, _NOBODY)
    if lanes.ndim > 1:
        lanes = lanes.transpose(_slowest_first(addresses, width))
    lanes = lanes.reshape(-1)
    if missing := -lanes.size % LANES:
        lanes = np.concatenate([lanes, np.full(missing, _NOBODY)])
    return np.sort(lanes.reshape(-1, LANES), axis=1)


def _slowest_first(addresses: np.ndarray, width: int) -> list[int]:
    """The dimensions of a block, that of neighbouring pointers last; ties as they are."""

    def neighbours(axis: int) -> int:
        corner = tuple(slice(None) if each == axis else 0 for each in range(addresses.ndim))
        return int(np.count_nonzero(np.diff(addresses[corner]) == width))

    return sorted(range(addresses.ndim), key=neighbours)
