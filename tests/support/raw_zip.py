"""Zips written byte by byte, so that they can have wrong fields."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

UTF8 = 0x800
ENCRYPTED = 0x1


@dataclass(frozen=True)
class Raw:
    """A member: `name` as bytes, and its wrong fields."""

    name: bytes
    data: bytes = b""
    method: int = 8
    flags: int = 0
    size: int | None = None  # claimed, of the unpacked bytes
    packed_size: int | None = None
    crc: int | None = None
    extra: bytes = b""
    mode: int = 0o100644
    offset: int | None = None


def raw_zip(
    members: Sequence[Raw], *, directory_size: int | None = None, count: int | None = None
) -> bytes:
    """The zip of `members`, with the size and length that its directory claims."""
    body = bytearray()
    directory = bytearray()
    for member in members:
        packed = member.data
        if member.method == 8:
            packer = zlib.compressobj(wbits=-15)
            packed = packer.compress(member.data) + packer.flush()
        offset = len(body) if member.offset is None else member.offset
        size = len(member.data) if member.size is None else member.size
        packed_size = len(packed) if member.packed_size is None else member.packed_size
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        shared = struct.pack(
            "<HHHHHIIIHH",
            *(45, member.flags, member.method, 0, 33, crc, packed_size, size),
            *(len(member.name), len(member.extra)),
        )
        if member.offset is None:
            body += b"PK\x03\x04" + shared + member.name + member.extra + packed
        directory += b"PK\x01\x02" + struct.pack("<H", 3 << 8 | 45) + shared
        directory += struct.pack("<HHHII", 0, 0, 0, member.mode << 16, offset)
        directory += member.name + member.extra
    number = len(members) if count is None else count
    end = struct.pack(
        "<4sHHHHIIH",
        *(b"PK\x05\x06", 0, 0, number & 0xFFFF, number & 0xFFFF),
        *(len(directory) if directory_size is None else directory_size, len(body), 0),
    )
    return bytes(body + directory + end)
