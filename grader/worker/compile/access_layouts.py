"""Reads from TTGIR and LLVM IR how a compiled kernel spreads its accesses over warps.

TTGIR has the encoding: the elements of a block by thread and warp. LLVM IR has the bytes that one
instruction takes of a lane: fewer than the encoding allows where the compiler can't prove that
addresses are aligned or that a mask treats neighbours alike. The two are joined by line and column.
An access that is missing in one of them, or ambiguous, is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from . import origins

MAX_TEXT = 16 << 20  # characters
MAX_ACCESSES = 512

Place = tuple[int, int]  # line and column
Fields = dict[str, Any]

_BLOCKED = re.compile(
    r"^(#\w+) = #ttg\.blocked<\{sizePerThread = \[([\d, ]{1,80})\], "
    r"threadsPerWarp = \[([\d, ]{1,80})\], warpsPerCTA = \[([\d, ]{1,80})\], "
    r"order = \[([\d, ]{1,80})\]"
)
_OPERATION = re.compile(
    r"\b(tt\.load|tt\.store|tt\.atomic_rmw|tt\.atomic_cas|ttg\.async_copy_global_to_local)\b"
)
_POINTERS = re.compile(
    r"tensor<((?:\d{1,9}x){1,8})!tt\.ptr<[^<>]{1,40}>, "
    r"(?:(#\w+)|#ttg\.slice<\{dim = (\d), parent = (#\w+)\}>)>"
)
_LOCATION = re.compile(r"loc\((#loc\w*)\)\s*$")
_WARPS = re.compile(r'"ttg\.num-warps" = (\d{1,3}) : i32')
_ONE_BLOCK = '"ttg.num-ctas" = 1 : i32'
_KINDS = {
    "tt.load": "load",
    "ttg.async_copy_global_to_local": "load",
    "tt.store": "store",
    "tt.atomic_rmw": "atomic",
    "tt.atomic_cas": "atomic",
}

_INSTRUCTION = re.compile(
    r"\b(ld|st|atom|red)\.(?:[\w:]{1,30}\.){0,4}?global\.(?:[\w:]{1,30}\.){0,8}?"
    r"(?:v(\d)\.)?(?:b|u|s|f|bf)(\d{1,3})(?:x(\d))?(?![\w.])"
)
_ASYNC = re.compile(
    r"\bcp\.async\.c[ag]\.shared\.global\b[^,;]{0,99},[^,;]{0,99}, (0x[0-9a-f]{1,4}|\d{1,4})"
)
_DEBUG = re.compile(r", !dbg (!\d+)")
_OF_INSTRUCTION = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}


def read_layouts(ttgir: str, llir: str) -> Fields:
    """The layouts of a kernel's accesses, as JSON: {"warps", "accesses"}.

    `warps` are those of a block. Each access has "line", "kind" and "shape" of the block, the
    encoding's "size_per_thread", "threads_per_warp", "warps" and "order", the "bytes" that an
    instruction takes of a lane, and "copies": how many warps make the same access.
    Raises ValueError for texts that are too long and for a kernel that clusters run.
    """
    if max(len(ttgir), len(llir)) > MAX_TEXT:
        raise ValueError(f"a text of more than {MAX_TEXT} characters")
    warps = _WARPS.search(ttgir)
    if warps is None or _ONE_BLOCK not in ttgir:
        raise ValueError("a kernel that clusters of blocks run")
    bytes_of = _lane_bytes(llir)
    by_access: dict[tuple[int, str, tuple[int, ...]], Fields | None] = {}
    for (line, column), kind, shape, encoding in _accesses(ttgir):
        taken = bytes_of.get((line, column, kind), set())
        fields = None
        if line and encoding is not None and len(taken) == 1:
            fields = {**encoding, "bytes": min(taken)}
        key = (line, kind, shape)
        by_access[key] = fields if by_access.setdefault(key, fields) == fields else None
    accesses = [
        {"line": line, "kind": kind, "shape": list(shape), **fields}
        for (line, kind, shape), fields in by_access.items()
        if fields is not None
    ]
    return {"warps": int(warps[1]), "accesses": accesses[:MAX_ACCESSES]}


# --- TTGIR ----------------------------------------------------------------------------------------


def _accesses(text: str) -> Iterator[tuple[Place, str, tuple[int, ...], Fields | None]]:
    """(place, kind, shape of the block, encoding) of every access through a block of pointers."""
    lines = text.split("\n")
    encodings: dict[str, list[list[int]]] = {}
    locations = origins.mlir_locations(lines)
    for line in lines:
        if match := _BLOCKED.match(line):
            encodings[match[1]] = [
                [int(each) for each in match[part].split(",")] for part in range(2, 6)
            ]
    for line in lines:
        operation, pointers = _OPERATION.search(line), _POINTERS.search(line)
        location = _LOCATION.search(line)
        if operation is None or pointers is None or location is None:
            continue
        shape = tuple(int(each) for each in pointers[1].split("x") if each)
        encoding = encodings.get(pointers[2] or pointers[4])
        dropped = None if pointers[3] is None else int(pointers[3])
        fields = None
        if encoding is not None:
            fields = _encoding(encoding, shape, dropped, operation[1] == "tt.load")
        place = _place_of(origins.mlir_chain(location[1], locations))
        yield place, _KINDS[operation[1]], shape, fields


def _encoding(
    numbers: list[list[int]], shape: tuple[int, ...], dropped: int | None, is_load: bool
) -> Fields | None:
    """The fields of an encoding, for blocks of a shape; of a slice, without the dropped dimension.

    Threads with copies of elements load them too, and store nothing. Copies in other warps make
    further requests.
    """
    size, threads, warps, order = numbers
    in_all = math.prod(warps)
    if dropped is not None:
        size, threads, warps = (
            [each for axis, each in enumerate(part) if axis != dropped]
            for part in (size, threads, warps)
        )
        order = [axis - (axis > dropped) for axis in order if axis != dropped]
    if not len(size) == len(threads) == len(warps) == len(order) == len(shape):
        return None
    sizes = zip(shape, size, threads, warps, strict=True)
    at_work = math.prod(
        min(most, max(1, extent // (each * lanes))) for extent, each, lanes, most in sizes
    )
    return {
        "size_per_thread": size,
        "threads_per_warp": threads,
        "warps": warps,
        "order": order,
        "copies": in_all // at_work if is_load else 1,
    }


def _place_of(chain: origins.Chain) -> Place:
    """The line and column in the author's innermost function; (0, 0) for none."""
    _, line, column = origins.by_author(chain) or ("", 0, 0)
    return line, column


# --- LLVM IR --------------------------------------------------------------------------------------


def _lane_bytes(text: str) -> dict[tuple[int, int, str], set[int]]:
    """The bytes that instructions take of a lane, by line, column and kind of access."""
    lines = text.split("\n")
    nodes = origins.llvm_nodes(lines)
    by_place: dict[tuple[int, int, str], set[int]] = {}
    for line in lines:
        if " asm " not in line or (debug := _DEBUG.search(line)) is None:
            continue
        kind, width = _instruction(line.replace("\\09", " "))  # tabs
        if width:
            place = _place_of(origins.llvm_chain(debug[1], nodes))
            by_place.setdefault((*place, kind), set()).add(width)
    return by_place


def _instruction(line: str) -> tuple[str, int]:
    """(kind, bytes of a lane) of the access to global memory in a line; 0 bytes for none."""
    if match := _ASYNC.search(line):
        return "load", int(match[1], 0)
    if match := _INSTRUCTION.search(line):
        elements = int(match[2] or 1) * int(match[4] or 1)
        return _OF_INSTRUCTION[match[1]], elements * int(match[3]) // 8
    return "", 0
