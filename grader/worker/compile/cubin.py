"""What a cubin says of its kernel: registers, and the local memory that registers spill to.

A cubin is a 64-bit ELF file. Its sections `.nv.info*` list attributes: a format, a number and, for
those wanted here, a symbol and a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_REGISTERS, _FRAME = 0x2F, 0x11  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE
_SIZED = 4  # the format whose size is written out
_MAX_SECTIONS = 4096


@dataclass(frozen=True)
class Resources:
    """Per thread: registers, and bytes of local memory."""

    registers: int = 0
    local_bytes: int = 0

    @property
    def spills(self) -> int:
        """Registers' worth of local memory, as Triton counts it."""
        return self.local_bytes // 4


def resources(cubin: bytes) -> Resources:
    """What the kernel of a cubin uses; zeros where that can't be read."""
    registers = local = 0
    try:
        for section in _info_sections(cubin):
            for attribute, value in _attributes(section):
                if attribute == _REGISTERS:
                    registers = max(registers, value)
                elif attribute == _FRAME:
                    local = max(local, value)
    except (struct.error, ValueError, IndexError):
        return Resources()
    return Resources(registers, local)


def _info_sections(cubin: bytes) -> Iterator[bytes]:
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    if count > _MAX_SECTIONS or size < 64:
        raise ValueError("a section table that can't be")
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + size * i) for i in range(count)]
    start, length = headers[names][4:6]
    texts = cubin[start : start + length]
    for name, _, _, _, offset, length in headers:
        if texts[name : texts.index(b"\0", name)].startswith(b".nv.info"):
            yield cubin[offset : offset + length]


def _attributes(section: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form != _SIZED:
            continue  # the value is in the place of the size
        if attribute in (_REGISTERS, _FRAME) and size == 8:
            yield attribute, struct.unpack_from("<II", section, at)[1]
        at += size
