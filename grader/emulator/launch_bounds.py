"""Keeps `__launch_bounds__` of kernels: a mark at the start of the body, which the runtime reads.

The compiler computes the number, so that it may be a constant, a macro or a template's parameter.
A declaration without a body has none: there is no code to mark.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import kernels, tokens
from .edits import Edit
from .lexer import Token

_ATTRIBUTE = "__launch_bounds__"


def marks(run: tuple[Token, ...]) -> Iterator[Edit]:
    """A mark in the body of each kernel with bounds; see include/warpgrade/qualifiers.h."""
    for i, token in enumerate(run):
        declared = kernels.declared_function(run, i) if token.text == "__global__" else None
        if declared is None:
            continue
        body = declared[2] + 1
        while body < len(run) and run[body].text not in ("{", ";", "}", "="):
            body += 1
        if body == len(run) or run[body].text != "{":
            continue
        threads = _threads(run, tokens.statement_start(run, i), body)
        if threads:
            end = run[body].end
            yield Edit(end, end, f" WARPGRADE_LAUNCH_BOUNDS(({threads}))")


def _threads(run: tuple[Token, ...], start: int, end: int) -> str:
    """The first argument of the attribute in this part of the run, or ""."""
    for i in range(start, end):
        if run[i].text != _ATTRIBUTE or i + 1 == end or run[i + 1].text != "(":
            continue
        close = tokens.closing(run, i + 1)
        arguments = kernels.split_arguments(run[i + 2 : close]) if close else []
        return " ".join(token.text for token in arguments[0]) if arguments else ""
    return ""
