"""Keeps `__launch_bounds__` of kernels: a mark at the start of the body, which the runtime reads.

The compiler computes the number, so that it may be a constant, a macro or a template's parameter.
Bounds of a declaration without a body hold for the kernel's definition, as they do for nvcc. Those
of a template's declaration don't: its parameters may have other names there.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import kernels, tokens
from .edits import Edit
from .lexer import Token

_ATTRIBUTE = "__launch_bounds__"


def marks(run: tuple[Token, ...]) -> Iterator[Edit]:
    """A mark in the body of each kernel with bounds; see include/warpgrade/qualifiers.h."""
    bodies = []
    promised = {}
    for i, token in enumerate(run):
        declared = kernels.declared_function(run, i) if token.text == "__global__" else None
        if declared is None:
            continue
        name, opening, closing = declared
        body = closing + 1
        while body < len(run) and run[body].text not in ("{", ";", "}", "="):
            body += 1
        if body == len(run) or run[body].text not in ("{", ";"):
            continue
        kernel = name, kernels.types(run[opening + 1 : closing])
        start = tokens.statement_start(run, i)
        threads = _threads(run, start, body)
        if run[body].text == "{":
            bodies.append((run[body].end, kernel, threads))
        elif threads and run[start].text != "template":
            promised[kernel] = threads
    for end, kernel, threads in bodies:
        if threads := threads or promised.get(kernel, ""):
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
