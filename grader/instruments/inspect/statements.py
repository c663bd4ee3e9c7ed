"""A stage's code as statements, each with the line of the submission that it comes from.

TTIR, TTGIR and LLVM IR are read here; ptx.py and sass.py read the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grader.executors.cuda.joining import Joined
from grader.worker.compile import origins

_FOLDER = "submission"  # the one that a sandbox holds a submission's files in
_MOST_LINES = 200_000  # of a text, and characters of a line: what is read takes time
_LONGEST = 20_000


def lines_of(text: str) -> list[str]:
    """The lines of a stage's text, cut where they are long; of a long text the first ones."""
    return [line[:_LONGEST] for line in text.splitlines()[:_MOST_LINES]]


@dataclass(frozen=True, order=True)
class Place:
    """A line of one of the submission's files."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Statement:
    """One statement or instruction. `number` is its line in the stage's text."""

    text: str
    place: Place | None = None
    number: int = 0


@dataclass(frozen=True)
class Files:
    """The submission's files, by which places are recognised in what compilers write.

    Compilers see a lab of several files as one text, `lab`: its lines are those of the files.
    """

    names: Collection[str]
    lab: Joined | None = None

    def place(self, path: str, line: int) -> Place | None:
        """The place of a path and a line; None where the file isn't the submission's."""
        known = PurePosixPath(path)
        is_ours = known.name in self.names and known.parent.name in (_FOLDER, "")
        if not is_ours or line <= 0:
            return None
        if self.lab is not None and known.name == self.lab.file:
            return Place(*self.lab.place(line))
        return Place(known.name, line)

    def innermost(self, chain: Sequence[tuple[str, int]]) -> Place | None:
        """The first place of a chain of calls, innermost first, that is the submission's."""
        places = (self.place(path, line) for path, line in chain)
        return next((each for each in places if each is not None), None)


def resolved(
    text: str,
    files: Files,
    definition: str,
    at: re.Pattern[str],
    chain_of: Callable[[str], origins.Chain],
    hidden: re.Pattern[str] | None = None,
) -> list[Statement]:
    """The statements of a text whose lines name a location, which other lines define.

    `at` matches the name, of which `chain_of` gives the files and lines, the innermost first.
    Lines that begin with `definition` and empty lines are left out, and of the others what `hidden`
    matches, or what `at` does.
    """
    places: dict[str, Place | None] = {}
    statements = []
    for number, line in enumerate(lines_of(text), 1):
        if line.startswith(definition) or not line.strip():
            continue
        match = at.search(line)
        if match and match[1] not in places:
            chain = chain_of(match[1])
            places[match[1]] = files.innermost([(path, line) for path, line, _ in chain])
        place = places[match[1]] if match else None
        statements.append(Statement((hidden or at).sub("", line).rstrip(), place, number))
    return statements


# --- MLIR ----------------------------------------------------------------------------------------

_AT_END = re.compile(r" loc\((#loc\w*)\)\s*$")
_HIDDEN = re.compile(r'\s*loc\((?:#loc\d*|unknown|"[^"]*"\(#loc\d*\))\)')


def read_mlir(text: str, files: Files) -> list[Statement]:
    """The statements of TTIR or TTGIR: locations are resolved, and left out of the text."""
    known = origins.mlir_locations(lines_of(text))
    return resolved(text, files, "#loc", _AT_END, lambda n: origins.mlir_chain(n, known), _HIDDEN)


# --- LLVM IR -------------------------------------------------------------------------------------

_DEBUG = re.compile(r",? !dbg (!\d+)")


def read_llvm(text: str, files: Files) -> list[Statement]:
    """The statements of LLVM IR; debug information is resolved, and left out of the text."""
    nodes = origins.llvm_nodes(lines_of(text))
    return resolved(text, files, "!", _DEBUG, lambda name: origins.llvm_chain(name, nodes))
