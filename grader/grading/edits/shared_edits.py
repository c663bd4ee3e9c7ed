"""Changes of CUDA C++ by which the threads of a block exchange values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from grader.grading.edits.edit_scope import Edit, Scope, shared_arrays
from grader.grading.edits.source_text import Change

_LOCAL = re.compile(
    r"(?m)^[ \t]*((?:float|double|int|unsigned|half|__half|__nv_bfloat16|T)[234]? "
    r"\w+(?:\s*\[[^\[\]\n]+\])*);"
)


def _not_shared(scope: Scope) -> Iterator[Edit]:
    """A local that each thread has for itself, where the threads of a block wait for each other."""
    if not scope.function.is_kernel or "__syncthreads" not in scope.code:
        return
    for match in scope.matches(_LOCAL):
        name = re.split(r"\W+", match[1])[1]
        mistake = f"`{name}` isn't shared: each thread has its own, and no other thread can read it"
        change = Change(match.start(1), match.start(1), "__shared__ ")
        yield scope.edit("not_shared", [change], mistake, f"Write `__shared__ {match[1]}`.", 0)


_PAIRS = re.compile(r"(\w+(?:\.x)?) % (\w+) == 0\)\s*\{?\s*(\w+)\[\1\] \+= \3\[\1 \+ \2\]")


def _pairs(scope: Scope) -> Iterator[Edit]:
    """A reduction in which twice as many threads add as there are pairs of partial results."""
    for match in scope.matches(_PAIRS):
        thread, distance = match.group(1, 2)
        mistake = f"Every `{distance}`-th thread adds here, and only half of them begin a pair"
        advice = f"A pair begins at each multiple of 2 * {distance}: {thread} % (2 * {distance})."
        change = Change(*match.span(2), f"(2 * {distance})")
        yield scope.edit("pairs", [change], mistake, advice, 0)


_OPERAND = r"\w+(?:\.\w+)?"
# An element of a tile by row and column: `tile[row * LENGTH + column]` or `tile[row][column]`.
_ELEMENT = re.compile(
    rf"\b(?P<tile>\w+)\[(?P<row>{_OPERAND})(?: \* \w+ \+ |\]\[)(?P<column>{_OPERAND})\]"
)


def _swizzles(scope: Scope) -> Iterator[Edit]:
    """An access to a tile that leaves out the order of columns in which others use its rows."""
    swizzled = re.findall(r"\b(\w+)(?:\[[^\[\]\n]*\])?\[[^\[\]\n]*\^[^\[\]\n]*\]", scope.code)
    tiles = {*swizzled} & {*shared_arrays(scope.code)}
    for match in scope.matches(_ELEMENT):
        tile, row, column = match.group("tile", "row", "column")
        if tile in tiles:
            mistake = (
                f"`{tile}` is swizzled in another access and not here: the elements of its "
                "row lie in another order"
            )
            advice = f"Use the same order wherever it is stored and loaded: {column} ^ {row}."
            change = Change(*match.span("column"), f"({column} ^ {row})")
            yield scope.edit("swizzle", [change], mistake, advice, 0)


RULES: Sequence[Callable[[Scope], Iterator[Edit]]] = (_not_shared, _pairs, _swizzles)
