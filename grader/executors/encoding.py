"""Plans written as bytes for a C++ executor: what the encodings for emulator and GPU share."""

from __future__ import annotations

import struct
from collections.abc import Sequence


class NotExecutable(ValueError):
    """A plan asks for what an executor doesn't do; the message names it."""


def sized_text(text: str) -> bytes:
    """A text in UTF-8 behind its length."""
    return sized(text.encode())


def sized(data: bytes) -> bytes:
    """Bytes behind their number."""
    return struct.pack("<I", len(data)) + data


def listed(parts: Sequence[bytes]) -> bytes:
    """Parts behind their number."""
    return struct.pack("<I", len(parts)) + b"".join(parts)


def relocations(pointers: Sequence[tuple[int, int, int]]) -> bytes:
    """Where an address is to be written, and of what: place, buffer and offset of each."""
    return listed([struct.pack("<IIq", *each) for each in pointers])
