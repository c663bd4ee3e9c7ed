"""SASS, a GPU's machine code, as instructions: nvdisasm's text read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.instruments.inspect.ptx import Program
from grader.instruments.inspect.statements import Files, Place, Statement, lines_of

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_LABEL = re.compile(r"(\.L_x_\d+|\.L_\d+|\$?[\w$.]+):\s*$")
_FILE = re.compile(r'\s*//## File "([^"]*)", line (\d{1,9})(?: inlined at "([^"]*)", line (\d+))?')
_CODE = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_GUARD = re.compile(r"@(!?U?P\w+)\s+")
_TARGET = re.compile(r"`\(([^)]+)\)")
_PTX = ".nv_debug_ptx_txt"
_SETTLED = frozenset({"NOP"})


@dataclass(frozen=True)
class Instruction(Statement):
    """One instruction. `number` is its address; `ptx` the line of PTX that it comes from, or 0."""

    ptx: int = 0
    target: int = -1  # of a branch

    @property
    def guard(self) -> str:
        """The predicate that it is executed under: P0, !P0, UP1; "" for none."""
        match = _GUARD.match(self.text)
        return match[1] if match else ""

    @property
    def opcode(self) -> str:
        """Its name with all modifiers: LDG.E.128."""
        return _GUARD.sub("", self.text, count=1).split(None, 1)[0]

    @property
    def parts(self) -> list[str]:
        """The name's parts: LDG, E and 128."""
        return self.opcode.split(".")


def read(text: str, function: str, files: Files, program: Program) -> list[Instruction]:
    """The instructions of one kernel, without the padding behind its end.

    An instruction's line is that of its line of PTX where an assembly statement was written out
    there: in those the compiler's own table of lines counts on from the source's.
    """
    lines = _of_function(lines_of(text), function)
    labels: dict[str, int] = {}
    waiting: list[str] = []
    read: list[tuple[int, str, Place | None, int]] = []
    chain: list[tuple[str, int]] = []
    place: Place | None = None
    ptx = 0
    for line in lines:
        if match := _FILE.match(line):
            if match[1] == _PTX:
                ptx = int(match[2])
            else:
                chain.append((match[1], int(match[2])))
            continue
        if match := _LABEL.match(line):
            waiting.append(match[1])
        elif match := _CODE.match(line):
            if chain:
                place, chain = files.innermost(chain), []
            address = int(match[1], 16)
            labels |= dict.fromkeys(waiting, address)
            waiting.clear()
            at = program.places.get(ptx, place) if ptx in program.in_assembly else place
            read.append((address, match[2], at, ptx))
    made = [
        Instruction(" ".join(text.split()), at, address, ptx, _target(text, labels))
        for address, text, at, ptx in read
    ]
    return _without_padding(made)


def _of_function(lines: Sequence[str], function: str) -> Iterator[str]:
    is_inside = False
    for line in lines:
        if match := _SECTION.match(line):
            is_inside = match[1].strip('"') == function
        elif is_inside:
            yield line


def _target(text: str, labels: dict[str, int]) -> int:
    match = _TARGET.search(text)
    return labels.get(match[1], -1) if match else -1


def _without_padding(made: list[Instruction]) -> list[Instruction]:
    """The instructions without the padding behind a kernel's end: a branch to itself and NOPs."""
    while made and (made[-1].opcode in _SETTLED or made[-1].target == made[-1].number):
        made.pop()
    return made


def in_loops(instructions: Sequence[Instruction]) -> set[int]:
    """The addresses of the instructions that are in a loop: from where a branch back goes to it."""
    ends: dict[int, int] = {}
    for each in instructions:
        if each.parts[0] in ("BRA", "BRX") and 0 <= each.target < each.number:
            ends[each.target] = max(ends.get(each.target, 0), each.number)
    inside: set[int] = set()
    end = -1
    for each in instructions:
        end = max(end, ends.get(each.number, -1))
        if each.number <= end:
            inside.add(each.number)
    return inside
