"""Reads a kernel's resources from a cubin: registers, local and shared memory, global variables.

A cubin is a 64-bit ELF file. Its sections `.nv.info*` are lists of attributes: a format, a number
and, for those read here, a symbol and a value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_REGISTERS, _FRAME = 0x2F, 0x11  # EIATTR_REGCOUNT, EIATTR_FRAME_SIZE
_SIZED = 4  # the format with an explicit size
_MAX_SECTIONS = 4096
_MAX_NAME = 4096  # bytes
_MAX_SYMBOLS = 4096
_SYMBOLS, _NO_BITS, _OBJECT = 2, 8, 1  # SHT_SYMTAB, SHT_NOBITS, STT_OBJECT
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION, _SHARED = 2, ".nv.shared."  # STT_FUNC; begins the name of a section
_RESERVES, _RESERVED = ".nv.shared.reserved", 1024  # section, and bytes in front of a kernel's own
_VARIABLE_SECTIONS = (".nv.global", ".nv.constant3")
_Section = tuple[str, tuple[int, ...], bytes]  # name, header and content


@dataclass(frozen=True)
class Usage:
    """What one kernel of a cubin uses, as `cuobjdump -res-usage` says it.

    Registers and `stack` bytes are of each thread, `shared` bytes of each block, with the
    `reserved` ones that are CUDA's; what a launch asks for on top is in no cubin.
    """

    registers: int = 0
    stack: int = 0
    shared: int = 0
    reserved: int = 0


def usage(cubin: bytes) -> dict[str, Usage]:
    """What each function of a cubin uses, by its name; {} where it can't be read."""
    try:
        sections = list(_sections(cubin))
        names = {number: name for number, name, *_ in _symbols(sections, _FUNCTION)}
        shared = {
            name.removeprefix(_SHARED): header[5]
            for name, header, _ in sections
            if name.startswith(_SHARED)
        }
        reserved = _RESERVED * any(name.startswith(_RESERVES) for name, *_ in sections)
        numbers: dict[tuple[str, int], int] = {}
        for name, _, body in sections:
            if name == ".nv.info":
                for number, attribute, value in _attributes(body):
                    if number in names:
                        numbers[names[number], attribute] = value
    except (struct.error, ValueError, IndexError):
        return {}
    return {
        name: Usage(
            numbers.get((name, _REGISTERS), 0),
            numbers.get((name, _FRAME), 0),
            shared.get(name, 0),
            min(reserved, shared.get(name, 0)),
        )
        for name in sorted(set(names.values()))
        if (name, _REGISTERS) in numbers
    }


def variables(cubin: bytes) -> list[tuple[str, int]]:
    """Names and bytes of the variables that outlive a launch; none where a cubin can't be read.

    Includes `__constant__` memory, but not the compiler's own constants, which have no name.
    """
    try:
        sections = list(_sections(cubin))
        return [
            (name, size)
            for _, name, section, size in _symbols(sections, _OBJECT)
            if size and sections[section][0].startswith(_VARIABLE_SECTIONS)
        ]
    except (struct.error, ValueError, IndexError):
        return []


def _symbols(sections: Sequence[_Section], kind: int) -> Iterator[tuple[int, str, int, int]]:
    """Number, name, section and size of each symbol of a kind that lies in a section.

    Raises what unpacking raises.
    """
    count = 0
    for _, header, body in sections:
        if header[1] != _SYMBOLS:
            continue
        names = sections[header[6]][2]
        for number in range(len(body) // _SYMBOL.size):
            name, info, _, section, _, size = _SYMBOL.unpack_from(body, number * _SYMBOL.size)
            if info & 0xF == kind and section < len(sections):
                yield number, _name(names, name).decode(), section, size
                count += 1
                if count > _MAX_SYMBOLS:
                    raise ValueError("too many symbols")


def _sections(cubin: bytes) -> Iterator[_Section]:
    """Name, header and content of each section. Raises what unpacking raises."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    if count > _MAX_SECTIONS or size < 64 or table > len(cubin):
        raise ValueError("a section table that can't be")
    headers = [struct.unpack_from("<IIQQQQI", cubin, table + size * i) for i in range(count)]
    start, length = headers[names][4:6]
    texts = cubin[start : start + length]
    left = len(cubin)  # of distinct sections, so that overlapping ones can't make this slow
    for header in headers:
        name = _name(texts, header[0]).decode("ascii", "replace")
        body = cubin[header[4] : header[4] + header[5]] if header[1] != _NO_BITS else b""
        left -= len(body)
        if left < 0:
            raise ValueError("sections that overlap")
        yield name, header, body


def _name(names: bytes, at: int) -> bytes:
    """A name in a string table. Raises ValueError where it isn't terminated."""
    return names[at : names.index(b"\0", at, at + _MAX_NAME)]


def _attributes(section: bytes) -> Iterator[tuple[int, int, int]]:
    """The symbol's number, the attribute and its value, of those that are wanted here."""
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form != _SIZED:
            continue  # the format has the value in the place of the size
        if attribute in (_REGISTERS, _FRAME) and size == 8:
            number, value = struct.unpack_from("<II", section, at)
            yield number, attribute, value
        at += size
