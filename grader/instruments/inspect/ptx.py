"""PTX as statements, each with its kernel; and what its control flow says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.instruments.inspect.statements import Files, Place, Statement, lines_of

_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(
    r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+[^,]+,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_BEGINS = re.compile(r"\s*(?:\.\w+\s+)*\.(?:entry|func)\b(?:\s*\([^)]*\))?\s*([\w$]+)")
_LABEL = re.compile(r"\s*(\$?[\w$]+):")
_BRANCH = re.compile(r"(?:@(!?%\w+)\s+)?bra(?:\.uni)?\s+(\$?[\w$]+)")
_SECTION = re.compile(r"\s*\.section\b")
_SHOWN = re.compile(r"\s*//.*$")
_Spot = tuple[int, int, int]  # file, line and column


@dataclass(frozen=True)
class Instruction(Statement):
    """One statement of PTX. `function` is the kernel's name, or that of a function it calls."""

    function: str = ""

    @property
    def guard(self) -> str:
        """The predicate that it is executed under, as in %p1; "" for none."""
        match = re.match(r"@!?(%\w+)\s", self.text)
        return match[1] if match else ""

    @property
    def opcode(self) -> str:
        """Its name with all modifiers: ld.global.v4.b32."""
        words = self.text.split(None, 2)
        name = words[1] if words and words[0].startswith("@") and len(words) > 1 else words[0]
        return name.rstrip(";")

    @property
    def operands(self) -> str:
        """The operands, as text."""
        return self.text.partition(self.opcode)[2].strip(" ;\t")


@dataclass(frozen=True)
class Loop:
    """Statements from a label to the branch back to it, by their lines in the text."""

    first: int
    last: int

    def has(self, number: int) -> bool:
        """Whether the statement on a line is in it."""
        return self.first <= number <= self.last


@dataclass(frozen=True)
class Program:
    """A text of PTX. `places` has the source's line for each line of the text."""

    instructions: tuple[Instruction, ...]
    places: dict[int, Place]
    in_assembly: frozenset[int]  # lines of the text that the source of the compiler wrote out

    def of(self, function: str) -> list[Instruction]:
        """The statements of one kernel."""
        return [each for each in self.instructions if each.function == function]


def read(text: str, files: Files) -> Program:
    """The statements of a text. What only describes it to a debugger is left out."""
    lines = lines_of(text)
    paths = {int(match[1]): match[2] for line in lines if (match := _FILE.match(line))}
    known: dict[_Spot, Place | None] = {}
    place: Place | None = None
    function, is_inside, assembly = "", False, False
    made: list[Instruction] = []
    places: dict[int, Place] = {}
    written_out: set[int] = set()
    for number, line in enumerate(lines, 1):
        if _SECTION.match(line):
            break
        if "// begin inline asm" in line or "// end inline asm" in line:
            assembly = "begin" in line
            continue
        if match := _LOC.match(line):
            if not assembly:  # inside, LLVM counts lines of the assembly on from the source's
                place = _place(match, paths, known, files)
            continue
        if not is_inside and (match := _BEGINS.match(line)):
            function, place = match[1], None
        is_inside = (is_inside or line.startswith("{")) and not line.startswith("}")
        if assembly:
            written_out.add(number)
        if place is not None:
            places[number] = place
        shown = _SHOWN.sub("", line).strip()
        if shown and not shown.startswith((".file", "$L__tmp", "$L__func")):
            made.append(Instruction(" ".join(shown.split()), place, number, function))
    return Program(tuple(made), places, frozenset(written_out))


def _place(
    match: re.Match[str], paths: dict[int, str], known: dict[_Spot, Place | None], files: Files
) -> Place | None:
    """The submission's line of a .loc; of a call that was inlined, the caller's."""
    file, line, column = (int(match[index]) for index in (1, 2, 3))
    place = files.place(paths.get(file, ""), line)
    if place is None and match[4]:
        caller = (int(match[4]), int(match[5]), int(match[6]))
        place = known.get(caller) or files.place(paths.get(caller[0], ""), caller[1])
    known[file, line, column] = place
    return place


def loops(instructions: Sequence[Instruction]) -> list[Loop]:
    """The loops of a kernel, by their beginnings: labels that a later branch goes back to."""
    labels = {match[1]: each.number for each in instructions if (match := _LABEL.match(each.text))}
    ends: dict[int, int] = {}
    for each, target in branches(instructions):
        start = labels.get(target)
        if start is not None and start <= each.number:
            ends[start] = max(ends.get(start, 0), each.number)
    return [Loop(*pair) for pair in sorted(ends.items())]


def innermost(loop_list: Sequence[Loop]) -> list[Loop]:
    """Those of `loops` that have no other inside of them: the next one begins behind their end."""
    following = [*(each.first for each in loop_list[1:]), math.inf]
    return [each for each, after in zip(loop_list, following, strict=False) if after > each.last]


def branches(instructions: Sequence[Instruction]) -> Iterator[tuple[Instruction, str]]:
    """Each branch with the label that it goes to."""
    for each in instructions:
        if match := _BRANCH.match(each.text):
            yield each, match[2]
