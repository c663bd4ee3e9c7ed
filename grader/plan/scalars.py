"""Scalar arguments of Triton launches: little-endian bytes and Triton's names of their types."""

from __future__ import annotations

import struct

from grader.plan.model import ScalarArgument

_FORMATS = {"fp16": "<e", "fp32": "<f", "fp64": "<d"}
SIZES = {"i1": 1, "u1": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8} | {
    f"{sign}{8 * size}": size for sign in "iu" for size in (1, 2, 4, 8)
}  # bytes


def value_of(argument: ScalarArgument) -> int | float:
    """The number that the bytes encode; 0 where they don't fit the type."""
    data = bytes.fromhex(argument.scalar)
    kind = argument.type
    try:
        if kind in _FORMATS:
            return float(struct.unpack(_FORMATS[kind], data)[0])
        if kind == "bf16":
            return float(struct.unpack("<f", b"\0\0" + data)[0])
    except struct.error:
        return 0
    return int.from_bytes(data, "little", signed=kind.startswith("i") and kind != "i1")
