"""A stage's code as statements, each with the line of the submission that it comes from.

TTIR, TTGIR and LLVM IR are read here; ptx.py and sass.py read the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grader.executors.cuda.joining import Joined

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
    chain_of: Callable[[str], Sequence[tuple[str, int]]],
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
            places[match[1]] = files.innermost(chain_of(match[1]))
        place = places[match[1]] if match else None
        statements.append(Statement((hidden or at).sub("", line).rstrip(), place, number))
    return statements


# --- MLIR ----------------------------------------------------------------------------------------

_MOST_STEPS = 200  # from a location to all that it is made of
_DEFINED = re.compile(r"#(loc\d*) = loc\((.*)\)\s*")
_AT_END = re.compile(r" loc\(#(loc\d*)\)\s*$")
_HIDDEN = re.compile(r'\s*loc\((?:#loc\d*|unknown|"[^"]*"\(#loc\d*\))\)')
_MLIR_FILE = re.compile(r'"([^"]*)":(\d{1,8}):\d+')
_NAMED = re.compile(r'"[^"]*"\(#(loc\d*)\)')
_CALL = re.compile(r"callsite\(#(loc\d*) at #(loc\d*)\)")
_FUSED = re.compile(r"fused(?:<[^\[]*>)?\[(.*)\]")
_ONE = re.compile(r"#(loc\d*)")


def read_mlir(text: str, files: Files) -> list[Statement]:
    """The statements of TTIR or TTGIR: locations are resolved, and left out of the text."""
    written = {m[1]: m[2] for line in lines_of(text) if (m := _DEFINED.fullmatch(line))}
    return resolved(text, files, "#loc", _AT_END, lambda name: _mlir_chain(name, written), _HIDDEN)


def _mlir_chain(name: str, written: dict[str, str]) -> list[tuple[str, int]]:
    """The files and lines of a location, the innermost call first."""
    chain: list[tuple[str, int]] = []
    waiting = [name]
    for _ in range(_MOST_STEPS):  # locations may lead to each other
        if not waiting:
            break
        text = written.get(waiting.pop(), "")
        if match := _MLIR_FILE.match(text):
            chain.append((match[1], int(match[2])))
        elif match := _CALL.match(text):
            waiting += [match[2], match[1]]
        elif match := _NAMED.match(text):
            waiting.append(match[1])
        elif (match := _FUSED.match(text)) and (first := _ONE.search(match[1])):
            waiting.append(first[1])
    return chain


# --- LLVM IR -------------------------------------------------------------------------------------

_MAX_DEPTH = 40  # of inlined calls, and of scopes
_NODE = re.compile(r"!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)\s*")
_DEBUG = re.compile(r",? !dbg !(\d+)")
_FIELD = re.compile(r'(\w+): (?:!(\d+)|"([^"]*)"|(\d+))')

_Node = dict[str, str]


def read_llvm(text: str, files: Files) -> list[Statement]:
    """The statements of LLVM IR; debug information is resolved, and left out of the text."""
    matches = map(_NODE.fullmatch, lines_of(text))
    nodes = {match[1]: _fields(match[3]) for match in matches if match}
    return resolved(text, files, "!", _DEBUG, lambda number: _llvm_chain(number, nodes))


def _fields(text: str) -> _Node:
    return {match[1]: next(filter(None, match.groups()[1:]), "") for match in _FIELD.finditer(text)}


def _llvm_chain(number: str, nodes: dict[str, _Node]) -> list[tuple[str, int]]:
    chain: list[tuple[str, int]] = []
    for _ in range(_MAX_DEPTH):
        node = nodes.get(number)
        if node is None:
            break
        line = node.get("line", "0")
        chain.append((_file(node.get("scope", ""), nodes), int(line) if line.isdigit() else 0))
        number = node.get("inlinedAt", "")
    return chain


def _file(scope: str, nodes: dict[str, _Node]) -> str:
    """The path of the file that a scope lies in."""
    for _ in range(_MAX_DEPTH):
        node = nodes.get(scope, {})
        if "filename" in node:
            return f"{node.get('directory', '')}/{node['filename']}"
        scope = node.get("file") or node.get("scope", "")
    return ""
