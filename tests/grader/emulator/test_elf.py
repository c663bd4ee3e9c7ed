"""What isn't an ELF file, or only begins like one, is said to be none."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from grader.emulator.elf import Elf, ElfError

SECTIONS = struct.Struct("<Q")  # of a header, at 40: where the table of sections begins
COUNT = struct.Struct("<HHH")  # at 58: bytes of an entry, entries, the one with the names
IDENTITY = b"\x7fELF\x02\x01"


def header(sections: int, count: int) -> bytearray:
    head = bytearray(64)
    head[: len(IDENTITY)] = IDENTITY
    SECTIONS.pack_into(head, 40, sections)
    COUNT.pack_into(head, 58, 64, count, 0)
    return head


NAMELESS = header(64, 1) + b"\1" * 64  # no byte of it ends the section's name


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF", bytes(64), header(2**64 - 1, 1), header(64, 1), NAMELESS],
    ids=["empty", "short", "zeros", "beyond_every_address", "no_table", "nameless"],
)
def test_bytes_that_are_no_elf_file_are_an_error(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "made.o"
    path.write_bytes(data)
    with pytest.raises(ElfError, match=r"^made\.o: "):
        Elf(path)
