"""Plans written as bytes for executors in C++: the parts that emulator and GPU share."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceKernel:
    """A compiled kernel as a GPU takes it, and what a launch of Triton's doesn't say itself.

    `shared` and `scratch` are bytes, of a block and of a program; `descriptors` say of each tensor
    descriptor among the parameters how the kernel reads it.
    """

    cubin: bytes
    name: str
    warps: int = 0
    shared: int = 0
    scratch: int = 0
    descriptors: Sequence[Mapping[str, Any]] = ()


class NotExecutable(ValueError):
    """A plan asks for what an executor doesn't do; the message names it."""


def sized_text(text: str) -> bytes:
    """A text in UTF-8 behind its length."""
    return sized(text.encode())


def sized(data: bytes) -> bytes:
    """Bytes behind their number."""
    return struct.pack("<I", len(data)) + data


def listed(parts: Iterable[bytes]) -> bytes:
    """Parts behind their number."""
    parts = list(parts)
    return struct.pack("<I", len(parts)) + b"".join(parts)


def rows(buffer: int, offset: int, pitch: int, width: int, height: int) -> bytes:
    """Rows of bytes in a buffer."""
    return struct.pack("<IqQQQ", buffer, offset, pitch, width, height)


def relocations(pointers: Sequence[tuple[int, int, int]]) -> bytes:
    """Where an address is to be written, and of what: place, buffer and offset of each."""
    return listed([struct.pack("<IIq", *each) for each in pointers])
