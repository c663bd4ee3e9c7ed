"""Reads g++'s messages: errors with the student's file and lines, without our own names.

The format is g++'s text (`FILE:LINE:COLUMN: error: MESSAGE`), which has been stable for decades.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from . import glue

MOST_ERRORS = 20
_LONGEST = 400  # characters of a message

_MESSAGE = re.compile(
    r"(?P<file>[^\n:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal error|error): (?P<text>.*)"
)
_PLACE = re.compile(r"^(?:In file included from |\s+from )?(?P<file>[^\n:]+):(?P<line>\d+)[:,]")
_LACKS = re.compile(r"(expected [‘'][,;][’'][^\n]*?) (before [^\n]*)")
_FOLDER = re.compile(r"(?:/[\w.+@~-]+)+/(?=[\w.+-])")
_LAUNCH = re.compile(
    r"no match for call to [‘'].*?warpgrade::Kernel<(?P<types>.*?)>\)? \((?P<given>.*)\)[’']"
)
_UNKNOWN_NAME = re.compile(
    r"[‘'](?P<name>\w+)(?:<.*>)?[’'] "
    r"(?:was not declared|has not been declared|does not name a type)"
)
_ROUNDABOUT = (
    (re.compile(r"::?warpgrade::|warpgrade::"), ""),
    (re.compile(r"\bstatic __thread\b"), "__shared__"),
)


@dataclass(frozen=True)
class CompileError:
    """One error. `line` is in the student's file; None where it is unknown."""

    line: int | None
    message: str
    in_check: int = 0  # its line in the appended check (glue.py); 0: it isn't there


def read(output: str, file: str, lines: Sequence[str]) -> list[CompileError]:
    """The errors in g++'s output, in order, each once; at most MOST_ERRORS.

    Errors in the appended check count only where there are no others. `file` is the student's file
    as `#line` names it, `lines` its text.
    """
    errors: list[CompileError] = []
    place: int | None = None  # the last place in the student's file in g++'s output
    for text in output.splitlines():
        match = _MESSAGE.match(text)
        if not match:
            named = _PLACE.match(text)
            if named and named["file"] == file:
                place = int(named["line"])
            continue
        line: int | None
        if match["file"] == file:
            line = int(match["line"])
            line = min(line, len(lines)) if lines else None
            line, message = _at_end(lines, line, int(match["column"] or 0), match["text"])
        else:
            line, message = place, match["text"]
        in_check = int(match["line"]) if match["file"] == glue.CHECK_FILE else 0
        error = CompileError(line, plain(message), in_check)
        if error not in errors:
            errors.append(error)
        place = None
    if all(error.in_check for error in errors):
        return errors
    return [error for error in errors if not error.in_check][:MOST_ERRORS]


def _at_end(lines: Sequence[str], line: int | None, at: int, text: str) -> tuple[int | None, str]:
    """The line and the text of an error in column `at`.

    g++ tells a missing `;` at the start of the next line. The line that lacks it is returned.
    """
    lacks = _LACKS.fullmatch(text)
    above = [n for n in range(1, line or 1) if lines[n - 1].partition("//")[0].strip()]
    if line is None or not lacks or not above or lines[line - 1][: at - 1].strip():
        return line, text
    return above[-1], f"{lacks[1]} at the end of this line, {lacks[2]} at line {line}"


def unknown_name(message: str) -> str:
    """The name that g++ reports as unknown; "" for other messages."""
    match = _UNKNOWN_NAME.search(message)
    return match["name"] if match else ""


def plain(message: str) -> str:
    """A message without our own names and without folders."""
    launch = _LAUNCH.search(message)
    if launch:
        return (
            f"the launch's arguments ({launch['given']}) don't fit the kernel's parameters "
            f"({launch['types']})"
        )
    for pattern, plain in _ROUNDABOUT:
        message = pattern.sub(plain, message)
    return _FOLDER.sub("", message)[:_LONGEST]


def excerpt(lines: Sequence[str], line: int | None) -> str:
    """The student's line, as reports show it: '  12 | code'."""
    if line is None or not 1 <= line <= len(lines):
        return ""
    return f"{line:4d} | {lines[line - 1].rstrip()[:200]}"
