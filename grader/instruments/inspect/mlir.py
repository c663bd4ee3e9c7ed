"""TTIR and TTGIR as statements: locations are resolved, and left out of the text."""

from __future__ import annotations

import re

from grader.instruments.inspect.statements import Files, Statement, lines_of, resolved

_MOST_STEPS = 200  # from a location to all that it is made of
_DEFINED = re.compile(r"#(loc\d*) = loc\((.*)\)\s*")
_AT_END = re.compile(r" loc\(#(loc\d*)\)\s*$")
_HIDDEN = re.compile(r'\s*loc\((?:#loc\d*|unknown|"[^"]*"\(#loc\d*\))\)')
_FILE = re.compile(r'"([^"]*)":(\d{1,8}):\d+')
_NAMED = re.compile(r'"[^"]*"\(#(loc\d*)\)')
_CALL = re.compile(r"callsite\(#(loc\d*) at #(loc\d*)\)")
_FUSED = re.compile(r"fused(?:<[^\[]*>)?\[(.*)\]")
_ONE = re.compile(r"#(loc\d*)")


def read(text: str, files: Files) -> list[Statement]:
    """The statements of a module."""
    written = {m[1]: m[2] for line in lines_of(text) if (m := _DEFINED.fullmatch(line))}
    return resolved(text, files, "#loc", _AT_END, lambda name: _chain(name, written), _HIDDEN)


def _chain(name: str, written: dict[str, str]) -> list[tuple[str, int]]:
    """The files and lines of a location, the innermost call first."""
    chain: list[tuple[str, int]] = []
    waiting = [name]
    for _ in range(_MOST_STEPS):  # locations may lead to each other
        if not waiting:
            break
        text = written.get(waiting.pop(), "")
        if match := _FILE.match(text):
            chain.append((match[1], int(match[2])))
        elif match := _CALL.match(text):
            waiting += [match[2], match[1]]
        elif match := _NAMED.match(text):
            waiting.append(match[1])
        elif (match := _FUSED.match(text)) and (first := _ONE.search(match[1])):
            waiting.append(first[1])
    return chain
