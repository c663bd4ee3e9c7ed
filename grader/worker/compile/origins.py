"""Where compiled code comes from: locations of MLIR and LLVM IR, followed through inlined calls.

A chain has the file, line and column of each call, the innermost first. Texts are untrusted, so
locations may lead to each other.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping

_MOST_STEPS = 200  # from a location to all that it is made of
_MAX_DEPTH = 64  # of inlined calls, and of scopes
_LOCATION = re.compile(r"(#loc\w*) = loc\((.{1,2000})\)\s*")
# In a location's text: a place, or the name of another location.
_PART = re.compile(r'"((?:[^"\\]|\\.){0,1000})":(\d{1,9}):(\d{1,9})|#loc\w*')
_NODE = re.compile(r"(!\d+) = (?:distinct )?!DI\w+\((.{1,2000})\)\s*")
_FIELD = re.compile(r'(\w+): (?:"((?:[^"\\]|\\.)*)"|(!?\d{1,9}\b))')

# In the path of functions that aren't the kernel's author's.
_LIBRARY = ("/triton/language/", "/triton/tools/", "/triton/experimental/")

Place = tuple[str, int, int]  # file, line and column
Chain = list[Place]
Fields = dict[str, str]  # of a node: numbers, references as `!7`, texts without their quotes
Parts = list[Place | str]  # of a location, the callee before its caller; a text is another's name


def mlir_locations(lines: Iterable[str]) -> dict[str, Parts]:
    """What lines of MLIR define as locations, by name: `#loc7`."""
    defined = filter(None, map(_LOCATION.fullmatch, lines))
    return {match[1]: mlir_parts(match[2]) for match in defined}


def mlir_parts(text: str) -> Parts:
    """The parts of a location's text."""
    matches = itertools.islice(_PART.finditer(text), _MOST_STEPS)
    return [(each[1], int(each[2]), int(each[3])) if each[2] else each[0] for each in matches]


def mlir_chain(location: str, locations: Mapping[str, Parts]) -> Chain:
    """The chain of a location, given by its name or its text."""
    chain: Chain = []
    pending = mlir_parts(location)[::-1]
    for _ in range(_MOST_STEPS):
        if not pending:
            break
        part = pending.pop()
        if isinstance(part, str):
            pending += locations.get(part, [])[::-1]
        else:
            chain.append(part)
    return chain


def by_author(chain: Chain) -> Place | None:
    """The innermost call that isn't in Triton's own library; None where there is none."""
    own = (each for each in chain if not any(part in each[0] for part in _LIBRARY))
    return next(own, None)


def llvm_nodes(lines: Iterable[str]) -> dict[str, Fields]:
    """What lines of LLVM IR define as debug information, by name: `!7`."""
    defined = filter(None, map(_NODE.fullmatch, lines))
    return {match[1]: _fields(match[2]) for match in defined}


def _fields(node: str) -> Fields:
    return {match[1]: match[2] or match[3] or "" for match in _FIELD.finditer(node)}


def llvm_chain(name: str, nodes: Mapping[str, Fields]) -> Chain:
    """The chain of a debug location by its name."""
    chain: Chain = []
    for _ in range(_MAX_DEPTH):
        fields = nodes.get(name)
        if not fields:
            break
        given = (fields.get(each, "") for each in ("line", "column"))
        line, column = (int(each) if each.isdigit() else 0 for each in given)
        chain.append((_file(fields.get("scope", ""), nodes), line, column))
        name = fields.get("inlinedAt", "")
    return chain


def _file(scope: str, nodes: Mapping[str, Fields]) -> str:
    """The path of the file that a scope lies in; "" for none."""
    for _ in range(_MAX_DEPTH):
        fields = nodes.get(scope, {})
        if "filename" in fields:
            return f"{fields.get('directory', '')}/{fields['filename']}"
        scope = fields.get("file") or fields.get("scope", "")
    return ""
