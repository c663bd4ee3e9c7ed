"""Reads symbols, relocations and bytes of a 64-bit ELF object or executable.

The format is that of the System V ABI, chapters 4 and 5; little-endian, as every machine that the
emulator runs on.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_SYMBOLS, _RELOCATIONS, _WITHOUT_BYTES = 2, 4, 8
OBJECT, FUNCTION, THREAD_LOCAL, INDIRECT_FUNCTION = 1, 2, 6, 10  # symbol types


class ElfError(ValueError):
    """The file is not an object that can be read here."""


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True)
class Symbol:
    name: str
    value: int
    size: int
    kind: int
    section: int  # 0: undefined
    is_local: bool
    is_weak: bool

    @property
    def is_defined(self) -> bool:
        return self.section != 0


@dataclass(frozen=True)
class Relocation:
    offset: int  # in the section it applies to (object), or an address (executable)
    symbol: int  # index in the symbol table
    kind: int
    addend: int


class Elf:
    """One file. Raises ElfError for anything but a 64-bit little-endian ELF file."""

    def __init__(self, path: Path) -> None:
        self.data, self._name = path.read_bytes(), path.name
        with self._reading():
            self._read()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (struct.error, ValueError, IndexError, OverflowError) as error:
            raise ElfError(f"{self._name}: {error}") from None

    def _read(self) -> None:
        header = _HEADER.unpack_from(self.data)
        if header[0][:6] != b"\x7fELF\x02\x01":
            raise ElfError("not a 64-bit little-endian ELF file")
        self.machine = header[2]
        offset, size, count, names = header[6], header[11], header[12], header[13]
        raw = [_SECTION.unpack_from(self.data, offset + i * size) for i in range(count)]
        texts = raw[names][4]
        self.sections = [
            Section(self._text(texts + r[0]), r[1], r[2], r[3], r[4], r[5], r[6], r[7]) for r in raw
        ]

    @cached_property
    def symbols(self) -> list[Symbol]:
        """All symbols: most programs are only asked for their calls. Raises ElfError."""
        table = next((s for s in self.sections if s.kind == _SYMBOLS), None)
        with self._reading():
            return list(self._symbols(table)) if table else []

    def _text(self, offset: int) -> str:
        return self.data[offset : self.data.index(b"\0", offset)].decode()

    def _symbols(self, table: Section) -> Iterator[Symbol]:
        texts = self.sections[table.link].offset
        raw = self.data[table.offset : table.offset + table.size]
        for name, info, _other, section, value, size in _SYMBOL.iter_unpack(raw):
            binding = info >> 4
            yield Symbol(
                self._text(texts + name),
                value,
                size,
                info & 15,
                section,
                binding == 0,
                binding == 2,
            )

    def relocations(
        self, wanted: Callable[[Section], bool] = lambda section: True
    ) -> Iterator[tuple[Section, Relocation]]:
        """The relocations of the sections that are `wanted`, each with its section."""
        for table in self.sections:
            if table.kind != _RELOCATIONS or table.info >= len(self.sections):
                continue
            target = self.sections[table.info]
            if not wanted(target):
                continue
            raw = self.data[table.offset : table.offset + table.size]
            for offset, info, addend in _RELOCATION.iter_unpack(raw):
                yield target, Relocation(offset, info >> 32, info & 0xFFFFFFFF, addend)

    def byte_at(self, address: int, section: Section) -> int:
        """The byte at an address of a section of the executable."""
        if section.kind == _WITHOUT_BYTES:
            return 0
        return self.data[section.offset + address - section.address]
