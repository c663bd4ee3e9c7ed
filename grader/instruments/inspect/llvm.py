"""LLVM IR as statements: debug information is resolved, and left out of the text."""

from __future__ import annotations

import re

from grader.instruments.inspect.statements import Files, Statement, lines_of, resolved

_MAX_DEPTH = 40  # of inlined calls, and of scopes
_NODE = re.compile(r"!(\d+) = (?:distinct )?!DI(\w+)\((.*)\)\s*")
_DEBUG = re.compile(r",? !dbg !(\d+)")
_FIELD = re.compile(r'(\w+): (?:!(\d+)|"([^"]*)"|(\d+))')

_Node = dict[str, str]


def read(text: str, files: Files) -> list[Statement]:
    """The statements of a module; what only describes it to a debugger is left out."""
    matches = map(_NODE.fullmatch, lines_of(text))
    nodes = {match[1]: _fields(match[3]) for match in matches if match}
    return resolved(text, files, "!", _DEBUG, lambda number: _chain(number, nodes))


def _fields(text: str) -> _Node:
    return {match[1]: next(filter(None, match.groups()[1:]), "") for match in _FIELD.finditer(text)}


def _chain(number: str, nodes: dict[str, _Node]) -> list[tuple[str, int]]:
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
