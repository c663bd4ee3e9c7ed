"""TTIR and TTGIR as statements: locations are resolved, and left out of the text."""

from __future__ import annotations

import re

from grader.instruments.inspect.statements import Files, Place, Statement

_MAX_DEPTH = 40  # of inlined calls
_DEFINED = re.compile(r"#(loc\d*) = loc\((.*)\)\s*")
_AT_END = re.compile(r" loc\(#(loc\d*)\)\s*$")
_SHOWN = re.compile(r'\s*loc\((?:#loc\d*|unknown|"[^"]*"\(#loc\d*\))\)')
_FILE = re.compile(r'"([^"]*)":(\d{1,8}):\d+')
_NAMED = re.compile(r'"[^"]*"\(#(loc\d*)\)')
_CALL = re.compile(r"callsite\(#(loc\d*) at #(loc\d*)\)")
_FUSED = re.compile(r"fused(?:<[^\[]*>)?\[(.*)\]")
_ONE = re.compile(r"#(loc\d*)")


def read(text: str, files: Files) -> list[Statement]:
    """The statements of a module."""
    lines = text.splitlines()
    written = {match[1]: match[2] for line in lines if (match := _DEFINED.fullmatch(line))}
    places: dict[str, Place | None] = {}
    statements = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#loc") or not line.strip():
            continue
        at = _AT_END.search(line)
        place = None
        if at is not None:
            if at[1] not in places:
                places[at[1]] = files.innermost(_chain(at[1], written))
            place = places[at[1]]
        statements.append(Statement(_SHOWN.sub("", line).rstrip(), place, number))
    return statements


def _chain(name: str, written: dict[str, str], depth: int = 0) -> list[tuple[str, int]]:
    """The files and lines of a location, the innermost call first."""
    text = written.get(name, "")
    if depth > _MAX_DEPTH:
        return []
    if match := _FILE.match(text):
        return [(match[1], int(match[2]))]
    if match := _CALL.match(text):
        inner = _chain(match[1], written, depth + 1)
        return [*inner, *_chain(match[2], written, depth + 1)]
    if match := _NAMED.match(text):
        return _chain(match[1], written, depth + 1)
    if match := _FUSED.match(text):
        first = _ONE.search(match[1])
        return _chain(first[1], written, depth + 1) if first else []
    return []
