"""Reads kernels from nvcc's cubins: the layout of their parameters, and their resources.

A cubin is a 64-bit ELF file. Its sections `.nv.info*` are lists of attributes: a format, a number,
and a value of two bytes or one with an explicit size. A kernel has a section `.nv.constant0.NAME`,
with its parameters at the end.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .elf import Elf, ElfError, Section

_SHORT, _SIZED = 3, 4  # formats: the value replaces its size; the size is explicit
_MOST_THREADS, _FRAME, _MIN_STACK, _REQUIRED_THREADS = 0x05, 0x11, 0x12, 0x10
_PARAMETER, _LARGE_PARAMETER, _PARAMETER_BYTES = 0x17, 0x45, 0x19
_REGISTERS = 0x2F
_SIZE_SHIFT, _SIZE_MASK = 18, 0x3FFF  # of a parameter, in the attribute for small ones
_RESERVED_SHARED = 1024  # the driver's bytes, before a kernel's own
_RESERVES = ".nv.shared.reserved"


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
    """The file is not a cubin that can be read here."""


def kernels(path: Path) -> list[Kernel]:
    """The kernels of a cubin, in its order. Raises CubinError."""
    try:
        elf = Elf(path)
        return list(_kernels(elf))
    except (ElfError, struct.error, IndexError) as error:
        raise CubinError(f"{path.name}: {error}") from None


def table(listed_kernels: Sequence[Kernel]) -> str:
    """The C++ of the table that worker/native/cubin_kernels.h declares."""
    lines = ["#include <warpgrade/cubin_kernels.h>", ""]
    rows = []
    for number, each in enumerate(listed_kernels):
        listed = ", ".join(f"{{{p.offset}, {p.bytes}}}" for p in each.parameters) or "{0, 0}"
        lines.append(f"static const warpgrade_parameter parameters_{number}[] = {{{listed}}};")
        numbers = (
            *(each.registers, each.most_threads, each.static_shared, each.local_bytes),
            *(each.constant_bytes, each.parameter_bytes, len(each.parameters)),
        )
        fields = ", ".join([json.dumps(each.name), *map(str, numbers), f"parameters_{number}"])
        rows.append(f"    {{{fields}}},")
    rows = rows or ["    {nullptr, 0, 0, 0, 0, 0, 0, 0, nullptr},"]
    lines += ["", "const warpgrade_kernel warpgrade_kernels[] = {", *rows, "};"]
    return "\n".join(
        [*lines, f"const unsigned warpgrade_kernel_count = {len(listed_kernels)};", ""]
    )


def _kernels(elf: Elf) -> Iterator[Kernel]:
    sections = {each.name: each for each in elf.sections}
    used = _of_symbols(elf, sections.get(".nv.info"))
    has_reserved = any(name.startswith(_RESERVES) for name in sections)
    constants = sections.get(".nv.constant3")
    for section_name in sections:
        if not section_name.startswith(".nv.constant0."):
            continue
        name = section_name.removeprefix(".nv.constant0.")
        places: dict[int, Parameter] = {}
        size = most = 0
        for attribute, value in _attributes(elf, sections.get(f".nv.info.{name}")):
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
        shared = sections.get(f".nv.shared.{name}")
        static = shared.size - _RESERVED_SHARED * has_reserved if shared else 0
        yield Kernel(
            name,
            tuple(places[number] for number in sorted(places)),
            size,
            used.get((name, _REGISTERS), 0),
            most,
            max(0, static),
            max(used.get((name, _FRAME), 0), used.get((name, _MIN_STACK), 0)),
            constants.size if constants else 0,
        )


def _of_symbols(elf: Elf, section: Section | None) -> dict[tuple[str, int], int]:
    """The values of symbols in the cubin's general section, by name and attribute."""
    values = {}
    for attribute, value in _attributes(elf, section):
        if attribute in (_REGISTERS, _FRAME, _MIN_STACK) and len(value) == 8:
            symbol, number = struct.unpack("<II", value)
            values[elf.symbols[symbol].name, attribute] = number
    return values


def _attributes(elf: Elf, section: Section | None) -> Iterator[tuple[int, bytes]]:
    data = elf.data[section.offset : section.offset + section.size] if section else b""
    at = 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            yield attribute, data[at : at + size]
            at += size
        elif form == _SHORT:
            yield attribute, data[at - 2 : at]
