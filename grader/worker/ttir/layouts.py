"""Layouts of the blocks that a kernel accesses, read from its TTGIR text.

`read_layouts` finds the encoding of the pointers of every load, store and atomic by source line.
`Layouts.of(access)` gives the layout by which an access's lanes are grouped into requests: a lane
takes up to 16 bytes at once where its layout gives it neighbouring elements and the addresses are
neighbours and aligned, as the compiler's axis analysis finds too.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .accesses import Lanes, Requests, requests_of

if TYPE_CHECKING:
    from .observer import Access

MAX_TEXT = 8 << 20  # characters
MAX_LAYOUTS = 4096
VECTOR_BYTES = 16  # the widest access of a lane
_MAX_ELEMENTS = 1 << 22  # of a block
_MAX_DEPTH = 64  # locations that are followed from one
# In the path of a function that the kernel's author didn't write.
_LIBRARY = ("/triton/language/", "/triton/tools/", "/triton/experimental/")

_BLOCKED = re.compile(
    r"^(#\w+) = #ttg\.blocked<\{sizePerThread = \[([\d, ]{1,80})\], "
    r"threadsPerWarp = \[([\d, ]{1,80})\], warpsPerCTA = \[([\d, ]{1,80})\], "
    r"order = \[([\d, ]{1,80})\]"
)
_OPERATION = re.compile(
    r"\b(tt\.load|tt\.store|tt\.atomic_rmw|tt\.atomic_cas|ttg\.async_copy_global_to_local)\b"
)
_POINTERS = re.compile(r"tensor<((?:\d{1,9}x){1,8})!tt\.ptr<[^<>]{1,40}>, (#\w+)>")
_LOCATION = re.compile(r"loc\((#loc\w*)\)\s*$")
_DEFINITION = re.compile(r"^(#loc\w*) = loc\((.{1,2000})\)\s*$")
_PLACE = re.compile(r'"((?:[^"\\]|\\.){0,1000})":(\d{1,9}):\d{1,9}')
_REFERENCE = re.compile(r"#loc\w*")
_KINDS = {
    "tt.load": "load",
    "ttg.async_copy_global_to_local": "load",
    "tt.store": "store",
    "tt.atomic_rmw": "atomic",
    "tt.atomic_cas": "atomic",
}


@dataclass(frozen=True)
class Blocked:
    """A `#ttg.blocked` encoding: elements per thread, threads per warp, warps, per dimension.

    `order` names the dimensions, the fastest first.
    """

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        ranks = {len(each) for each in vars(self).values()}
        counts = (*self.size_per_thread, *self.threads_per_warp, *self.warps)
        if len(ranks) != 1 or sorted(self.order) != list(range(len(self.order))):
            raise ValueError("a blocked encoding whose ranks differ")
        if any(not 1 <= each <= 1 << 16 or each & (each - 1) for each in counts):
            raise ValueError("a blocked encoding whose sizes are no powers of two")

    def lanes(self, shape: tuple[int, ...]) -> int:
        """How many lanes of a warp have elements of a block; the others would have copies."""
        sizes = zip(shape, self.size_per_thread, self.threads_per_warp, strict=True)
        return math.prod(min(threads, max(1, extent // size)) for extent, size, threads in sizes)

    def arranged(self, shape: tuple[int, ...]) -> np.ndarray:
        """The flat indices of a block's elements, in the order of a warp's instructions.

        The elements that a lane has along the fastest dimension come together, then those of the
        warp's next lane, then the lanes' next registers, then the next warp.
        """
        index = np.indices(shape, dtype=np.int64).reshape(len(shape), -1)
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
            repetition = repetition * (shape[axis] + 1) + rest
        return np.lexsort((within, lane, register, repetition, warp))


@dataclass(frozen=True)
class AccessLayout:
    """The layout of one access, for blocks of one shape."""

    encoding: Blocked
    shape: tuple[int, ...]

    def requests(self, access: Access) -> Requests:
        """The access's requests as the layout's warps make them."""
        addresses = np.asarray(access.full())
        rows = len(addresses)
        active = access.active
        order = _arranged(self.encoding, self.shape)
        flat = addresses.reshape(rows, -1)[:, order]
        lit = None
        if active is not None:
            lit = np.broadcast_to(active, addresses.shape).reshape(rows, -1)[:, order]
        run = self._run()
        # An atomic of a lane is packed to 32 bits at most.
        most = (4 if access.kind == "atomic" else VECTOR_BYTES) // access.width
        vector = self._vector(flat, lit, access.width, min(run, max(1, most)))
        lanes = self.encoding.lanes(self.shape)
        flat = _by_instruction(flat, run, vector, lanes)
        lit = None if lit is None else _by_instruction(lit, run, vector, lanes)
        programs = np.asarray(access.programs)
        return requests_of(Lanes(programs, flat, lit, None, access.width * vector), lanes)

    def _run(self) -> int:
        """How many elements along the fastest dimension one thread has together."""
        fastest = self.encoding.order[0]
        return min(self.encoding.size_per_thread[fastest], self.shape[fastest])

    def _vector(self, flat: np.ndarray, lit: np.ndarray | None, width: int, vector: int) -> int:
        """How many neighbouring elements a lane can access at once, `vector` at most."""
        while vector > 1:
            groups = flat.reshape(-1, vector)
            used = None if lit is None else lit.reshape(-1, vector)
            if used is not None:
                if (used != used[:, :1]).any():
                    vector //= 2
                    continue
                groups = groups[used[:, 0]]
            aligned = not (groups[:, 0] & (vector * width - 1)).any()
            if aligned and (np.diff(groups, axis=1) == width).all():
                break
            vector //= 2
        return vector


@dataclass(frozen=True)
class Layouts:
    """The layouts of one kernel's accesses, by (line, kind, shape of the block)."""

    by_place: dict[tuple[int, str, tuple[int, ...]], Blocked]

    def of(self, access: Access) -> AccessLayout | None:
        """The layout of an access; None where the text has none for it."""
        shape = tuple(np.asarray(access.full()).shape[1:])
        if not shape or int(np.prod(shape)) > _MAX_ELEMENTS:
            return None
        encoding = self.by_place.get((access.op.line[1], access.kind, shape))
        return None if encoding is None else AccessLayout(encoding, shape)


@functools.lru_cache(maxsize=16)
def _arranged(encoding: Blocked, shape: tuple[int, ...]) -> np.ndarray:
    return encoding.arranged(shape)


def read_layouts(text: str) -> Layouts:
    """The blocked layouts that a kernel's TTGIR text gives its accesses.

    Other encodings are left out. Raises ValueError for a text that is too long.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"TTGIR of more than {MAX_TEXT} characters")
    lines = text.split("\n")
    encodings: dict[str, Blocked] = {}
    locations: dict[str, str] = {}
    for line in lines:
        if line.startswith("#loc"):
            if match := _DEFINITION.match(line):
                locations[match[1]] = match[2]
        elif line.startswith("#") and (match := _BLOCKED.match(line)):
            encodings[match[1]] = Blocked(*(_numbers(match[part]) for part in range(2, 6)))
    by_place: dict[tuple[int, str, tuple[int, ...]], Blocked] = {}
    for line in lines:
        operation = _OPERATION.search(line)
        if operation is None or len(by_place) >= MAX_LAYOUTS:
            continue
        pointers, location = _POINTERS.search(line), _LOCATION.search(line)
        if pointers is None or location is None or pointers[2] not in encodings:
            continue
        shape = tuple(int(each) for each in pointers[1].split("x") if each)
        if len(shape) != len(encodings[pointers[2]].order):
            continue
        place = (_line_of(location[1], locations), _KINDS[operation[1]], shape)
        by_place.setdefault(place, encodings[pointers[2]])
    return Layouts(by_place)


def _by_instruction(flat: np.ndarray, run: int, vector: int, lanes: int) -> np.ndarray:
    """The first element of each lane's access, with the lanes of one instruction together.

    A thread with more neighbouring elements than one access takes makes several accesses, which
    are instructions of their own.
    """
    pieces = run // vector
    rows, size = flat.shape
    first = flat.reshape(rows, -1, vector)[:, :, 0]
    if pieces == 1:
        return first
    threads = size // run
    table = first.reshape(rows, threads // lanes, lanes, pieces)
    return table.transpose(0, 1, 3, 2).reshape(rows, -1)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def _line_of(name: str, locations: dict[str, str]) -> int:
    """The source line of a location: of an inlined call's, that of the innermost own function."""
    pending = [name]
    for _ in range(_MAX_DEPTH):
        if not pending:
            break
        body = locations.get(pending.pop(), "")
        match = _PLACE.search(body)
        if match is None:
            pending.extend(reversed(_REFERENCE.findall(body)))  # what was called, then the caller
        elif not any(part in match[1] for part in _LIBRARY):
            return int(match[2])
    return 0
