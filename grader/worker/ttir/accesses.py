"""The addresses that programs access, in the order in which warps request them.

Triton's coalescing pass spreads a block over warps by a blocked layout. The fastest dimension is
the one with neighbouring pointers (the last where there is none), and neighbours go to neighbouring
lanes. `lanes_of` sorts the addresses of an access into that order, for each program by itself;
`requests_of` cuts them into requests of 32 lanes and finds the sectors that each one moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .regions import SECTOR_BITS, SECTOR_BYTES

if TYPE_CHECKING:
    from .observer import Access

WARP_LANES = 32
NOBODY = np.iinfo(np.int64).max  # the address of a lane that accesses nothing


@dataclass(frozen=True)
class Lanes:
    """One access of a chunk: row i is the access of program `programs[i]`, in lane order.

    `active` is None where every lane accesses memory. `stored` are the bits that stores write, in
    the same order, or None.
    """

    programs: np.ndarray  # int64 (rows,)
    addresses: np.ndarray  # int64 (rows, lanes)
    active: np.ndarray | None  # bool (rows, lanes)
    stored: np.ndarray | None  # (rows, lanes)
    width: int  # bytes of a lane's access


@dataclass(frozen=True)
class Requests:
    """The requests of one access; row r of `addresses` is one request, sorted.

    A program has `per_program` consecutive rows. `fresh` marks the lanes with a new address,
    `moved` those that are the first of their sector. None: all of them.
    """

    programs: np.ndarray  # int64, one for each `per_program` rows
    per_program: int
    addresses: np.ndarray  # int64 (requests, lanes of a request)
    fresh: np.ndarray | None
    moved: np.ndarray
    count: int  # requests that have an active lane
    lanes: int  # active lanes
    width: int

    @property
    def sectors(self) -> int:
        """The number of sectors that the requests move, counted once per request."""
        return int(np.count_nonzero(self.moved))

    def distinct(self) -> np.ndarray:
        """The distinct addresses of each request, one request after another."""
        return self.addresses.reshape(-1) if self.fresh is None else self.addresses[self.fresh]

    def programs_of_distinct(self) -> np.ndarray:
        """The program of each of the `distinct` addresses."""
        per_row = (
            np.full(len(self.addresses), self.addresses.shape[1])
            if self.fresh is None
            else np.count_nonzero(self.fresh, axis=1)
        )
        return np.repeat(self._program_of_row(), per_row)

    def distinct_of_programs(self) -> np.ndarray:
        """How many distinct addresses each of the `programs` requests, over all its requests."""
        if self.fresh is None:
            return np.full(len(self.programs), self.per_program * self.addresses.shape[1])
        count: np.ndarray = np.count_nonzero(self.fresh.reshape(len(self.programs), -1), axis=1)
        return count

    def span(self) -> tuple[int, int]:
        """The lowest address, and the one behind the highest byte. Needs an active lane."""
        distinct = self.addresses[:, [0, -1]] if self.fresh is None else self.distinct()
        return int(distinct.min()), int(distinct.max()) + self.width

    def misaligned(self) -> np.ndarray:
        """Indices of the `distinct` addresses that aren't multiples of the width."""
        if self.fresh is None and not (self.addresses[:, 0] & (self.width - 1)).any():
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.distinct() & (self.width - 1))

    def moved_sectors(self) -> tuple[np.ndarray, np.ndarray]:
        """(program, number of the sector) of every sector that the requests move."""
        programs = np.repeat(self._program_of_row(), np.count_nonzero(self.moved, axis=1))
        return programs, self.addresses[self.moved] >> SECTOR_BITS

    def _program_of_row(self) -> np.ndarray:
        return np.repeat(self.programs, self.per_program)


class LaneReader:
    """Puts accesses into lane order, once for all observers of an access."""

    def __init__(self) -> None:
        self._access: Access | None = None
        self._lanes: Lanes | None = None
        self._requests: Requests | None = None

    def lanes(self, access: Access) -> Lanes:
        """The access in lane order."""
        if self._access is not access or self._lanes is None:
            self._access, self._lanes, self._requests = access, lanes_of(access), None
        return self._lanes

    def requests(self, access: Access) -> Requests:
        """The access as requests of 32 lanes."""
        lanes = self.lanes(access)
        if self._requests is None:
            self._requests = requests_of(lanes)
        return self._requests

    def forget(self) -> None:
        """Drop the last access and its arrays."""
        self._access = self._lanes = self._requests = None


def lanes_of(access: Access) -> Lanes:
    """The addresses of an access, in each program's lane order."""
    addresses = np.asarray(access.full())
    rows = len(addresses)
    arrays = [addresses, access.active, access.stored]
    arrays = [each if each is None else np.broadcast_to(each, addresses.shape) for each in arrays]
    if addresses.ndim > 2:
        arrays = _fastest_last(arrays, access.width)
    lanes = addresses[:1].size if rows else 0
    flat = [None if each is None else each.reshape(rows, lanes) for each in arrays]
    assert flat[0] is not None
    return Lanes(np.asarray(access.programs), flat[0], flat[1], flat[2], access.width)


def requests_of(lanes: Lanes, warp: int = WARP_LANES) -> Requests:
    """The requests of lanes: `warp` consecutive lanes are one."""
    table, per_program = _rows_of_warps(lanes, warp)
    if lanes.active is None and _are_runs(table, lanes.width):
        moved = np.ones(table.shape, dtype=bool)
        sectors = table >> SECTOR_BITS
        np.not_equal(sectors[:, 1:], sectors[:, :-1], out=moved[:, 1:])
        return Requests(
            lanes.programs, per_program, table, None, moved, len(table), table.size, lanes.width
        )
    if table.shape[1] > 1 and not (table[:, 1:] >= table[:, :-1]).all():
        table = np.sort(table, axis=1)
    valid = table != NOBODY
    fresh, moved = valid.copy(), valid.copy()
    fresh[:, 1:] &= table[:, 1:] != table[:, :-1]
    sectors = table >> SECTOR_BITS
    moved[:, 1:] &= sectors[:, 1:] != sectors[:, :-1]
    return Requests(
        lanes.programs,
        per_program,
        table,
        fresh,
        moved,
        int(np.count_nonzero(valid[:, 0])) if table.size else 0,
        int(np.count_nonzero(valid)),
        lanes.width,
    )


def _rows_of_warps(lanes: Lanes, warp: int) -> tuple[np.ndarray, int]:
    """(addresses with a request in each row, requests of a program)."""
    table = lanes.addresses
    if lanes.active is not None:
        table = np.where(lanes.active, table, NOBODY)
    rows, size = table.shape
    if size <= warp:
        return table, 1
    if missing := -size % warp:
        table = np.concatenate([table, np.full((rows, missing), NOBODY)], axis=1)
    per_program = table.shape[1] // warp
    return table.reshape(rows * per_program, warp), per_program


def _are_runs(table: np.ndarray, width: int) -> bool:
    """Whether each row's addresses follow each other without gap, padding or repetition."""
    if width > SECTOR_BYTES or not table.size:
        return False
    span = (table.shape[1] - 1) * width
    if ((table[:, -1] - table[:, 0]) != span).any():
        return False
    return bool((table[:, 1:] - table[:, :-1] == width).all())


def _fastest_last(arrays: Sequence[np.ndarray | None], width: int) -> list[np.ndarray | None]:
    """Arrays (programs, *block) with the dimension of neighbouring addresses moved to the end.

    Each program has an order of its own. Dimensions with as many neighbours stay as they are.
    """
    addresses = arrays[0]
    assert addresses is not None
    counts = np.stack(
        [_neighbours(addresses, axis, width) for axis in range(1, addresses.ndim)], axis=1
    )
    orders = np.argsort(counts, axis=1, kind="stable") + 1
    if not len(orders) or (orders == orders[0]).all():
        order = (0, *orders[0]) if len(orders) else tuple(range(addresses.ndim))
        return [None if each is None else each.transpose(order) for each in arrays]
    lanes = addresses[0].size
    done = [None if each is None else np.empty((len(each), lanes), each.dtype) for each in arrays]
    for order in np.unique(orders, axis=0):
        rows = np.flatnonzero((orders == order).all(axis=1))
        for source, target in zip(arrays, done, strict=True):
            if source is not None and target is not None:
                target[rows] = source[rows].transpose(0, *order).reshape(len(rows), lanes)
    return done


def _neighbours(addresses: np.ndarray, axis: int, width: int) -> np.ndarray:
    """For each program, how many addresses along an axis follow the one before."""
    corner = tuple(slice(None) if each in (0, axis) else 0 for each in range(addresses.ndim))
    follows = np.diff(addresses[corner], axis=1) == width
    count: np.ndarray = np.count_nonzero(follows, axis=1)
    return count
