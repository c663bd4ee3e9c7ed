"""Maps the return addresses of calls to lines and functions of the student's file.

The executable keeps its relocations (`--emit-relocs`), so calls of functions by name are found
without disassembling. One run of `addr2line` resolves their addresses.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .elf import Elf

_CODE = ".text"  # the student's and the glue's; prebuilt objects use another name
_CALL_RELOCATIONS = {62: (2, 4)}  # x86-64: PC32, PLT32
_CALL_INSTRUCTION = 0xE8  # with a relocated displacement of four bytes
_DISCRIMINATOR = re.compile(r" \(discriminator \d+\)$")
# Added to the address of an instruction that is not a call's return address.
INSTRUCTIONS = 1 << 40
_ROW = re.compile(r"(?m)^\S.*?\s\d+\s+(0x[0-9a-f]+)\b")
_SECONDS = 30.0
MOST_CHARACTERS = 1000  # of a function's name: templates of templates have longer ones


@dataclass(frozen=True)
class Site:
    """A place in the student's file. `line` from 1; `function` as C++ writes it, no parameters."""

    line: int
    function: str


def table(executable: Path, file: str) -> dict[int, Site]:
    """The sites of an executable's calls, by return address relative to its load base.

    `file` is the student's file as `#line` names it. A call inlined from a header has the line in
    the student's file into which it was inlined.
    """
    addresses = sorted(set(_calls(Elf(executable))))
    if not addresses:
        return {}
    # The address before the return address belongs to the call itself.
    text = _addr2line(executable, [address - 1 for address in addresses])
    return {
        address + 1: site for address, frames in _frames(text) if (site := _student(frames, file))
    }


def instructions(executable: Path, file: str) -> dict[int, Site | None]:
    """The starts of runs of instructions from one line; None for lines that aren't the student's.

    The addresses have INSTRUCTIONS added. They are for faults, which happen at instructions.
    """
    text = _output(["objdump", "--dwarf=decodedline", executable.name], executable.parent)
    addresses = sorted({int(digits, 16) for digits in _ROW.findall(text)})
    runs: dict[int, Site | None] = {}
    last: Site | None = None
    for address, frames in _frames(_addr2line(executable, addresses) if addresses else ""):
        if (site := _student(frames, file)) != last:
            runs[INSTRUCTIONS + address] = last = site
    return runs


def _calls(elf: Elf) -> Iterator[int]:
    kinds = _CALL_RELOCATIONS.get(elf.machine, ())
    for section, relocation in elf.relocations(lambda section: section.name == _CODE):
        if relocation.kind not in kinds:
            continue
        if elf.byte_at(relocation.offset - 1, section) == _CALL_INSTRUCTION:
            yield relocation.offset + 4


def _addr2line(executable: Path, addresses: Sequence[int]) -> str:
    command = ["addr2line", "-a", "-f", "-i", "-C", "-e", executable.name]
    return _output(command, executable.parent, "\n".join(f"{each:#x}" for each in addresses))


def _output(command: Sequence[str], folder: Path, given: str = "") -> str:
    done = subprocess.run(
        command,
        input=given,
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stdout


def _frames(text: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """The frames of each address, innermost first: (function, "file:line")."""
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        address = int(lines[i], 16)
        i += 1
        frames = []
        while i + 1 < len(lines) and not lines[i].startswith("0x"):
            frames.append((lines[i], _DISCRIMINATOR.sub("", lines[i + 1])))
            i += 2
        yield address, frames


def _student(frames: Sequence[tuple[str, str]], file: str) -> Site | None:
    for function, place in frames:
        path, _, line = place.rpartition(":")
        if (path == file or path.endswith("/" + file)) and line.isdigit() and int(line):
            return Site(int(line), _without_parameters(function)[:MOST_CHARACTERS])
    return None


def _without_parameters(function: str) -> str:
    """`void gemm<32>(float*, int)` -> `gemm<32>`."""
    depth = 0
    for i, character in enumerate(function):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "(" and depth == 0 and i:
            function = function[:i]
            break
    return function.rpartition(" ")[2] if "<" not in function else _after_return_type(function)


def _after_return_type(function: str) -> str:
    start = function.index("<")
    return function[function.rfind(" ", 0, start) + 1 :]
