"""Reads cubins: what each kernel uses, its parameters in nvcc's, and global variables.

A cubin is a 64-bit ELF file. Its sections `.nv.info*` are lists of attributes: a format, a number,
and a value of two bytes or one with an explicit size. nvcc has a section `.nv.constant0.NAME` for
each kernel.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Attributes: of functions; of a kernel's launch; of its parameters.
_REGISTERS, _FRAME, _MIN_STACK = 0x2F, 0x11, 0x12
_MOST_THREADS, _REQUIRED_THREADS = 0x05, 0x10
_PARAMETER, _LARGE_PARAMETER, _PARAMETER_BYTES = 0x17, 0x45, 0x19
_SIZE_SHIFT, _SIZE_MASK = 18, 0x3FFF  # of a parameter, in the attribute for small ones
_SHORT, _SIZED = 3, 4  # formats: the value replaces its size; the size is explicit
_MAX_SECTIONS = 4096
_MAX_NAME = 4096  # bytes
_MAX_SYMBOLS = 4096
_SYMBOLS, _NO_BITS, _OBJECT = 2, 8, 1  # SHT_SYMTAB, SHT_NOBITS, STT_OBJECT
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION, _SHARED = 2, ".nv.shared."  # STT_FUNC; begins the name of a section
_RESERVES, _RESERVED = ".nv.shared.reserved", 1024  # section, and bytes in front of a kernel's own
_OF_KERNEL = ".nv.constant0."  # begins a section's name, too
_VARIABLE_SECTIONS = (".nv.global", ".nv.constant3")
_UNREADABLE = (struct.error, ValueError, IndexError)
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
        return _usage(sections, _of_functions(sections))
    except _UNREADABLE:
        return {}


def _usage(
    sections: Sequence[_Section], numbers: Mapping[tuple[str, int], int]
) -> dict[str, Usage]:
    sizes = {name: header[5] for name, header, _ in sections}
    reserved = _RESERVED * any(name.startswith(_RESERVES) for name in sizes)
    used = {}
    for name in sorted(name for name, attribute in numbers if attribute == _REGISTERS):
        shared = sizes.get(_SHARED + name, 0)
        own = numbers[name, _REGISTERS], numbers.get((name, _FRAME), 0)
        used[name] = Usage(*own, shared, min(reserved, shared))
    return used


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter's place among the bytes of all parameters."""

    offset: int
    bytes: int


@dataclass(frozen=True)
class Kernel:
    """A kernel. `most_threads` is from `__launch_bounds__`; 0 without it."""

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    registers: int = 0
    most_threads: int = 0
    static_shared: int = 0
    local_bytes: int = 0
    constant_bytes: int = 0


class CubinError(ValueError):
    """The bytes are no cubin that can be read here."""


def kernels(cubin: bytes) -> list[Kernel]:
    """The kernels of a cubin of nvcc's, in its order. Raises CubinError."""
    try:
        return list(_kernels(list(_sections(cubin))))
    except _UNREADABLE as error:
        raise CubinError(f"a cubin that can't be read: {error}") from None


def _kernels(sections: Sequence[_Section]) -> Iterator[Kernel]:
    bodies = {name: body for name, _, body in sections}
    numbers = _of_functions(sections)
    used = _usage(sections, numbers)
    for section in bodies:
        if not section.startswith(_OF_KERNEL):
            continue
        name = section.removeprefix(_OF_KERNEL)
        places: dict[int, Parameter] = {}
        size = most = 0
        for attribute, value in _attributes(bodies.get(f".nv.info.{name}", b"")):
            if attribute in (_PARAMETER, _LARGE_PARAMETER):
                place, word = struct.unpack_from("<II", value, 4)
                small = (word >> _SIZE_SHIFT) & _SIZE_MASK
                length = word if attribute == _LARGE_PARAMETER else small
                places[place & 0xFFFF] = Parameter(place >> 16, length)
            elif attribute == _PARAMETER_BYTES:
                (size,) = struct.unpack("<H", value)
            elif attribute in (_MOST_THREADS, _REQUIRED_THREADS):
                x, y, z = struct.unpack_from("<III", value)
                most = x * y * z
        own = used.get(name, Usage())
        yield Kernel(
            name,
            tuple(places[number] for number in sorted(places)),
            size,
            own.registers,
            most,
            own.shared - own.reserved,
            max(own.stack, numbers.get((name, _MIN_STACK), 0)),
            len(bodies.get(".nv.constant3", b"")),
        )


def table(listed: Sequence[Kernel]) -> str:
    """The C++ of the table that ../native/cubin_kernels.h declares."""
    lines = ["#include <warpgrade/cubin_kernels.h>", ""]
    rows = []
    for number, each in enumerate(listed):
        places = ", ".join(f"{{{p.offset}, {p.bytes}}}" for p in each.parameters) or "{0, 0}"
        lines.append(f"static const warpgrade_parameter parameters_{number}[] = {{{places}}};")
        numbers = (
            *(each.registers, each.most_threads, each.static_shared, each.local_bytes),
            *(each.constant_bytes, each.parameter_bytes, len(each.parameters)),
        )
        fields = ", ".join([json.dumps(each.name), *map(str, numbers), f"parameters_{number}"])
        rows.append(f"    {{{fields}}},")
    rows = rows or ["    {nullptr, 0, 0, 0, 0, 0, 0, 0, nullptr},"]
    lines += ["", "const warpgrade_kernel warpgrade_kernels[] = {", *rows, "};"]
    return "\n".join([*lines, f"const unsigned warpgrade_kernel_count = {len(listed)};", ""])


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
    except _UNREADABLE:
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


def _of_functions(sections: Sequence[_Section]) -> dict[tuple[str, int], int]:
    """What the general section says of functions, by their names and the attributes."""
    names = {number: name for number, name, *_ in _symbols(sections, _FUNCTION)}
    numbers = {}
    for section, _, body in sections:
        for attribute, value in _attributes(body) if section == ".nv.info" else ():
            if attribute in (_REGISTERS, _FRAME, _MIN_STACK) and len(value) == 8:
                symbol, number = struct.unpack("<II", value)
                if symbol in names:
                    numbers[names[symbol], attribute] = number
    return numbers


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Each attribute with its value, of the formats that what is read here has."""
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == _SIZED:
            yield attribute, section[at : at + size]
            at += size
        elif form == _SHORT:
            yield attribute, section[at - 2 : at]
