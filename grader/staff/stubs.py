"""Makes the students' files from the staff's: reference/silu.py -> assignment/silu.py.

A reference file marks the code that students have to write, and the text that replaces it:

    # BEGIN SOLUTION
    #| # TODO: load x           the lines of the stub, after "#| ", indented as the region is
    #| pass
    x = tl.load(x_ptr + offs)   the solution: gone from the stub
    # END SOLUTION

In CUDA files the same with `//` and `//|`. A file without a region ships as it is, solved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grader.mistakes import Mistake
from grader.spec import Exercise

_COMMENT = {".py": "#", ".cu": "//", ".cuh": "//", ".h": "//"}
# Whatever looks like a marker must be one: a misspelt marker would ship the solution.
_LIKE_A_MARKER = re.compile(r"(#|//|/\*)\W*(begin|end)\W*(of\W*)?solutions?\b", re.IGNORECASE)


@dataclass
class _Region:
    """The marked region being read, from its BEGIN line on."""

    line: int
    indent: str
    stub: list[str] = field(default_factory=list)
    solved: bool = False  # a line of the solution was seen


def make_stub(text: str, source: str) -> str:
    """The stub for a reference file.

    `text` is the file's content, `source` its path: it is named in messages, and its suffix tells
    the language. Raises Mistake for regions that are nested, unbalanced, without a solution or
    without stub lines, and for a Python stub that would not parse.
    """
    comment = _comment(source)
    lines: list[str] = []
    region: _Region | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{source}:{number}"
        stripped = line.strip()
        if stripped == f"{comment} BEGIN SOLUTION":
            if region is not None:
                raise Mistake(
                    f"{place}: expected END SOLUTION for the region begun in line {region.line}, "
                    "got another BEGIN SOLUTION"
                )
            region = _Region(number, _indent(line))
        elif stripped == f"{comment} END SOLUTION":
            lines += _closed(region, line, place)
            region = None
        elif _LIKE_A_MARKER.search(line):
            raise Mistake(
                f"{place}: expected '{comment} BEGIN SOLUTION' or '{comment} END SOLUTION' alone "
                f"on the line, got {stripped!r}"
            )
        elif region is not None:
            _read_line(region, line, comment, place)
        elif stripped.startswith(f"{comment}|"):
            raise Mistake(
                f"{place}: expected stub lines ({comment}|) inside a region only, got {stripped!r}"
            )
        else:
            lines.append(line)
    if region is not None:
        raise Mistake(f"{source}:{region.line}: BEGIN SOLUTION without END SOLUTION")
    stub = "\n".join(lines) + "\n" if lines else ""
    _check_syntax(stub, source)
    return stub


def headers_of(exercises: Mapping[str, Exercise]) -> tuple[str, ...]:
    """The names of the headers that a course gives for these exercises."""
    variants = [v for each in exercises.values() for v in each.variants.values()]
    return tuple(dict.fromkeys(name for each in variants for name in each.compile.headers))


def make_stubs(reference: Path, exercises: Mapping[str, Exercise]) -> dict[str, str]:
    """The stubs by file name, of every file that a variant names, in order of first mention.

    Headers that a course gives are among them as they are.

    Raises Mistake where a reference file is missing or its regions are wrong.
    """
    variants = [v for each in exercises.values() for v in each.variants.values()]
    names = dict.fromkeys(name for v in variants for name in (*v.files, *v.compile.headers))
    texts = {name: _read(reference / name) for name in names}
    if not any(texts.values()) and (reference / "oracles.py").exists():  # a students' release
        raise Mistake(
            f"{reference}: expected the solutions, from which stubs are made; the students' "
            "release has none. To begin again with a file, take it from there"
        )
    stubs = {}
    for name, text in texts.items():
        path = reference / name
        if text is None:
            raise Mistake(f"{path}: expected the solution that the spec names, got no such text")
        stubs[name] = make_stub(text, str(path))
    return stubs


def write_stubs(
    reference: Path, assignment: Path, exercises: Mapping[str, Exercise], *, force: bool = False
) -> list[Path]:
    """Write the stub of every file the specs name; returns the paths that changed.

    A file already there that is not the stub may be a student's work: unless `force`, nothing
    is written then. Raises Mistake, which names all such files, and as `make_stubs` does.
    """
    stubs = make_stubs(reference, exercises)
    files = {assignment / name: stub for name, stub in stubs.items()}
    changed = {path: stub for path, stub in files.items() if _read(path) != stub}
    edited = [path for path in changed if path.exists()]
    if edited and not force:
        them = {path.name for path in edited}
        names = [
            name
            for name, each in exercises.items()
            if any(them & {*v.files, *v.compile.headers} for v in each.variants.values())
        ]
        raise Mistake(
            f"{', '.join(map(str, edited))}: expected no file or the stub itself, got other text; "
            "nothing was written. If it is an older stub, and nobody's work: "
            f"grader stubs {' '.join(names)} --force"
        )
    assignment.mkdir(parents=True, exist_ok=True)
    for path, stub in changed.items():
        path.write_text(stub, encoding="utf-8", newline="\n")
    return list(changed)


def _read_line(region: _Region, line: str, comment: str, place: str) -> None:
    stripped = line.strip()
    if not stripped.startswith(f"{comment}|"):
        region.solved = region.solved or bool(stripped)
        return
    if region.solved:
        raise Mistake(
            f"{place}: expected the stub lines ({comment}|) first in the region, "
            "got one after the solution began"
        )
    text = stripped[len(comment) + 1 :]
    region.stub.append((region.indent + text.removeprefix(" ")).rstrip())


def _closed(region: _Region | None, line: str, place: str) -> list[str]:
    """The stub lines of a region that ends with `line`."""
    if region is None:
        raise Mistake(f"{place}: END SOLUTION without BEGIN SOLUTION")
    if _indent(line) != region.indent:
        raise Mistake(
            f"{place}: expected END SOLUTION indented as its BEGIN SOLUTION in line "
            f"{region.line} ({len(region.indent)} characters), got {len(_indent(line))}"
        )
    if not region.stub:
        raise Mistake(f"{place}: the region begun in line {region.line} has no stub lines")
    if not region.solved:
        raise Mistake(f"{place}: the region begun in line {region.line} has no solution")
    return region.stub


def _check_syntax(stub: str, source: str) -> None:
    if Path(source).suffix != ".py":
        return
    try:
        ast.parse(stub)
    except SyntaxError as error:
        raise Mistake(
            f"{source}: the stub would not parse: {error.msg} in its line {error.lineno}, "
            f"{(error.text or '').strip()!r}; does every region leave a statement?"
        ) from None


def _comment(source: str) -> str:
    suffix = Path(source).suffix
    if suffix not in _COMMENT:
        raise Mistake(f"{source}: expected a file ending in .py, .cu, .cuh or .h, got {suffix!r}")
    return _COMMENT[suffix]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _read(path: Path) -> str | None:
    """The file's text with the line endings it has; None where there is none, or none in UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
