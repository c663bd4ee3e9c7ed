"""The requests that the warps of a compiled kernel make of an access to a block.

The backend reports each access's layout (worker/compile/access_layouts.py): each thread's elements
of the block, and the bytes of a lane that one instruction takes. `Layouts.counted` gives
what ncu counts of such an access. A request is one instruction of one warp with a lane that isn't
masked off, whatever a lane takes: on an H100 loads of 16 bytes by 32 lanes are one request of 16
sectors (`transpose_vectors` in tests/grader/emulator/ncu_solutions.csv).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .accesses import Lanes, requests_of

if TYPE_CHECKING:
    from .observer import Access

_MAX_ELEMENTS = 1 << 22  # of a block


@dataclass
class WarpRequests:
    """Requests and sectors as ncu counts them; `useful_bytes` are each request's different ones."""

    requests: int = 0
    sectors: int = 0
    useful_bytes: int = 0

    def add(self, other: WarpRequests) -> None:
        """Count the other's too."""
        self.requests += other.requests
        self.sectors += other.sectors
        self.useful_bytes += other.useful_bytes


@dataclass(frozen=True)
class AccessLayout:
    """The layout of one access to a block: Triton's `#ttg.blocked`, which the grader has checked.

    It has elements per thread, threads per warp and warps, per dimension; `order` names the
    dimensions, the fastest first. An instruction takes `bytes` of a lane. `copies` warps have the
    same elements and make the same requests.
    """

    shape: tuple[int, ...]
    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]
    bytes: int
    copies: int = 1

    def counted(self, access: Access) -> WarpRequests:
        """The requests that the layout's warps make of an access."""
        addresses = np.asarray(access.full())
        rows = len(addresses)
        order = _arranged(self)
        run = self._run()
        vector = max(1, min(run, self.bytes // access.width))
        lanes = self._lanes()

        def arranged(each: np.ndarray) -> np.ndarray:
            flat = np.broadcast_to(each, addresses.shape).reshape(rows, -1)
            return _by_instruction(flat if order is None else flat[:, order], run, vector, lanes)

        active = None if access.active is None else arranged(access.active)
        one = Lanes(np.asarray(access.programs), arranged(addresses), active, None, access.width)
        made = requests_of(one, lanes * vector)
        useful = made.distinct().size * access.width
        return WarpRequests(
            made.count * self.copies, made.sectors * self.copies, useful * self.copies
        )

    def _run(self) -> int:
        """How many elements along the fastest dimension one thread has together."""
        fastest = self.order[0]
        return min(self.size_per_thread[fastest], self.shape[fastest])

    def _lanes(self) -> int:
        """The number of a warp's lanes that have elements of a block; others would have copies."""
        sizes = zip(self.shape, self.size_per_thread, self.threads_per_warp, strict=True)
        return math.prod(min(threads, max(1, extent // size)) for extent, size, threads in sizes)

    def arranged(self) -> np.ndarray:
        """The flat indices of a block's elements, with those accessed together next to each other.

        A lane's elements along the fastest dimension come first, then those of the warp's next
        lane, then the lanes' next registers, then the next warp.
        """
        index = np.indices(self.shape, dtype=np.int64).reshape(len(self.shape), -1)
        lane = np.zeros(index.shape[1], dtype=np.int64)
        warp, repetition, register = lane.copy(), lane.copy(), lane.copy()
        fastest = self.order[0]
        within = index[fastest] % self.size_per_thread[fastest]
        for axis in reversed(self.order):  # the slowest first: the fastest varies most
            rest, at = np.divmod(index[axis], self.size_per_thread[axis])
            if axis != fastest:
                register = register * self.size_per_thread[axis] + at
            rest, at = np.divmod(rest, self.threads_per_warp[axis])
            lane = lane * self.threads_per_warp[axis] + at
            rest, at = np.divmod(rest, self.warps[axis])
            warp = warp * self.warps[axis] + at
            repetition = repetition * (self.shape[axis] + 1) + rest
        return np.lexsort((within, lane, register, warp, repetition))


@dataclass(frozen=True)
class Layouts:
    """The layouts of one kernel's accesses, by (line, kind, shape of the block).

    A block of the kernel's programs has `warps` warps.
    """

    by_place: dict[tuple[int, str, tuple[int, ...]], AccessLayout]
    warps: int = 4

    def counted(self, access: Access) -> WarpRequests | None:
        """The requests that warps make of an access; None where its layout isn't known."""
        if not access.block:
            return self._of_scalar(access)
        if math.prod(access.block) > _MAX_ELEMENTS:
            return None
        layout = self.by_place.get((access.op.line[1], access.kind, access.block))
        return None if layout is None else layout.counted(access)

    def _of_scalar(self, access: Access) -> WarpRequests:
        """A scalar is loaded by every warp, and stored or updated by one lane of the first."""
        programs = len(access.programs)
        active = programs
        if access.active is not None:
            active = int(np.count_nonzero(np.broadcast_to(access.active, (programs,))))
        requests = active * (self.warps if access.kind == "load" else 1)
        return WarpRequests(requests, requests, requests * access.width)


def of_json(document: Mapping[str, Any]) -> Layouts:
    """The layouts that grader/executors/compile/warp_layouts.py has checked."""
    by_place = {}
    for each in document["accesses"]:
        names = ("shape", "size_per_thread", "threads_per_warp", "warps", "order")
        sizes: dict[str, Any] = {name: tuple(each[name]) for name in names}
        layout = AccessLayout(**sizes, bytes=each["bytes"], copies=each["copies"])
        by_place[each["line"], each["kind"], layout.shape] = layout
    return Layouts(by_place, document["warps"])


@functools.lru_cache(maxsize=16)
def _arranged(layout: AccessLayout) -> np.ndarray | None:
    """The order of a block's elements; None for their own order."""
    order = layout.arranged()
    return None if (order[1:] > order[:-1]).all() else order


def _by_instruction(flat: np.ndarray, run: int, vector: int, lanes: int) -> np.ndarray:
    """The elements of one instruction together, of `vector` that it takes of each lane.

    A thread with more neighbouring elements than one instruction takes needs several.
    """
    pieces = run // vector
    if pieces == 1:
        return flat
    rows, size = flat.shape
    table: np.ndarray = flat.reshape(rows, size // (run * lanes), lanes, pieces, vector)
    return np.reshape(table.swapaxes(2, 3), (rows, -1))
