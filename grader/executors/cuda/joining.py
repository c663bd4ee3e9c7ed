"""Joins the files of a CUDA variant to the one text that is checked, compiled and run.

A variant may have several files: those that a student hands in, and headers of the course. The .cu
files stand one after the other, the variant's own last. A header stands where it is included first,
once, in the place of the #include. Macros of the spec's -D come first of all. So the source rules,
the emulator and nvcc all see the same text, with no file but this one to be opened.

A line of the text is a line of one of the files: `Joined.place` says of which.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.emulator.lexer import lex
from grader.spec import Exercise, Variant
from grader.spec.compiling import Compile
from grader.spec.values import SpecError

MOST_BYTES = 1 << 20
MOST_LEXED = 256 * 1024  # characters of a file; the rules refuse a longer text
_INCLUDE = re.compile(r'[ \t]*#[ \t]*include[ \t]*"(?P<name>[^"]*)"[ \t]*(//.*)?\r?')
_ONCE = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+once[ \t]*(//.*)?\r?")

Includes = Callable[[str], Sequence[tuple[int, str]]]  # see `included`


@dataclass(frozen=True)
class Lab:
    """What a file is compiled with, and the folder of the course's headers."""

    file: str
    compile: Compile
    reference: Path


@dataclass(frozen=True)
class Joined:
    """A text made of several files; `origins` has the file and the line of each of its lines.

    `texts` are the files as they are, by name, the variant's own first.
    """

    file: str
    data: bytes
    origins: Sequence[tuple[str, int]]
    headers: frozenset[str] = frozenset()  # the course's
    texts: Mapping[str, str] = field(default_factory=dict)

    def place(self, line: int) -> tuple[str, int]:
        """The file and the line in it of a line of the text, all counted from 1."""
        return self.origins[line - 1] if 1 <= line <= len(self.origins) else (self.file, line)

    def is_given(self, line: int) -> bool:
        """Whether a line is of one of the course's headers."""
        return self.place(line)[0] in self.headers


def labs_of(exercises: Mapping[str, Exercise]) -> dict[str, Lab]:
    """The files that are compiled together with others or with macros, by name."""
    variants: list[tuple[Exercise, Variant]] = [
        (exercise, variant)
        for exercise in exercises.values()
        for variant in exercise.variants.values()
    ]
    return {
        each.file: Lab(each.file, each.compile, exercise.reference)
        for exercise, each in variants
        if each.compile.files or each.compile.headers or each.compile.definitions
    }


def included(text: str) -> list[tuple[int, str]]:
    """The lines with a plain #include "..." and its name, or with #pragma once and ""."""
    if len(text) > MOST_LEXED:
        return []
    lines = text.split("\n")
    places = []
    for each in lex(text).directives:
        line = lines[each.at.line - 1]
        if each.name == "include" and (match := _INCLUDE.fullmatch(line)):
            places.append((each.at.line, match["name"]))
        elif each.name == "pragma" and _ONCE.fullmatch(line):
            places.append((each.at.line, ""))
    return places


def text_of(path: Path) -> str:
    """The text of one of the course's headers. Raises SpecError where there is none."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise SpecError(
            [f"{path}: expected the header that a spec names, got no such text"]
        ) from None


def join(
    lab: Lab, read: Callable[[str], bytes | str], includes: Includes = included
) -> Joined | str:
    """The text of a lab; or, as text, why a file can't be read.

    `read` reads a file of the submission in the same way. `includes` is `included`, perhaps in a
    process with limits. Raises SpecError where a header of the course is missing.
    """
    own = (*lab.compile.files, lab.file)
    texts = {name: text_of(lab.reference / name) for name in lab.compile.headers}
    for name in own:
        data = read(name)
        if isinstance(data, str):
            return data
        texts[name] = data.decode("utf-8-sig", "replace")
    joining = _Joining(texts, includes)
    for definition in lab.compile.definitions:
        joining.add(f"#define {definition}", lab.file, 1)
    for name in own:
        if name.endswith(".cu") and name not in joining.done:
            joining.file(name)
    data = "\n".join(joining.lines).encode()
    if len(data) > MOST_BYTES:
        return f"{', '.join(own)}: together they are larger than {MOST_BYTES >> 20} MiB"
    in_order = {name: texts[name] for name in (lab.file, *texts)}
    return Joined(lab.file, data, joining.origins, frozenset(lab.compile.headers), in_order)


def read_trusted(
    folder: Path, labs: Mapping[str, Lab], name: str, changed: Mapping[str, bytes] | None = None
) -> bytes | str:
    """The text to run of a trusted file of `folder`, joined where it is one of `labs`.

    `changed` are contents, by name, that stand in for those of the folder.
    """
    known = changed or {}

    def read(each: str) -> bytes:
        return known[each] if each in known else (folder / each).read_bytes()

    if name not in labs:
        return read(name)
    made = join(labs[name], read)
    return made.data if isinstance(made, Joined) else made


@dataclass
class _Joining:
    texts: Mapping[str, str]
    includes: Includes
    lines: list[str] = field(default_factory=list)
    origins: list[tuple[str, int]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)

    def add(self, line: str, file: str, number: int) -> None:
        self.lines.append(line)
        self.origins.append((file, number))

    def file(self, name: str) -> None:
        """Add a file, and in it each other file at its first #include."""
        self.done.add(name)
        special = dict(self.includes(self.texts[name]))
        for number, line in enumerate(self.texts[name].split("\n"), start=1):
            wanted = special.get(number)
            if wanted is None or (wanted and wanted not in self.texts):
                self.add(line, name, number)
            elif not wanted or wanted in self.done:
                self.add("", name, number)
            else:
                self.file(wanted)
