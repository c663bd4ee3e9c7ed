"""Loops in a submission's source, and the one that a program is in when its time is over.

The source and the places that the program names are untrusted: a loop explains a failure, and
decides nothing. What would take long on a contrived source is bounded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from grader.executors.source_text import Function, SourceText

MOST_PLACES = 200  # loops that are looked at
MOST_OF_LOOP = 5000  # characters
MOST_CHARACTERS = 100_000  # of a source

_LOOP = re.compile(r"\b(while|for)\s*\(|\b(do)\s*\{")


@dataclass(frozen=True)
class Loop:
    """A loop of a CUDA C++ source: its lines, and its text."""

    keyword: str  # while, for or do
    line: int
    last: int
    head: str  # what stands in its parentheses; "" of `do`
    body: str


def of_cpp(code: str) -> list[Loop]:
    """The loops of a CUDA source without comments."""
    loops = []
    for match in islice(_LOOP.finditer(code), MOST_PLACES):
        head, behind = "", match.end() - 1
        if match[1]:
            head = _up_to(code, match.end(), "(", ")")
            behind = match.end() + len(head) + 1
            behind += len(code[behind:]) - len(code[behind:].lstrip())
        if code[behind : behind + 1] == "{":
            body = _up_to(code, behind + 1, "{", "}")
            end = behind + 1 + len(body)
        else:
            body = code[behind : behind + MOST_OF_LOOP].split(";")[0]
            end = behind + len(body)
        if code[behind : behind + 1] == ";":
            body = ";"
        first, last = (code.count("\n", 0, at) + 1 for at in (match.start(), end))
        loops.append(Loop(match[1] or match[2], first, last, head, body))
    return loops


def innermost(source: str, lines: Collection[int]) -> int | None:
    """The line of the loop of a CUDA source that goes through all of the lines.

    Lines in other functions, which it calls, don't count.
    """
    if len(source) > MOST_CHARACTERS or not lines:
        return None
    text = SourceText(source, is_triton=False)
    spans = {each: (text.line_at(each.start), text.line_at(each.end - 1)) for each in text.blocks}

    def has(function: Function, line: int) -> bool:
        return spans[function][0] <= line <= spans[function][1]

    def goes_through(loop: Loop) -> bool:
        home = next((each for each in spans if has(each, loop.line)), None)
        if home is None:
            return False
        own = [line for line in lines if has(home, line)]
        if not own or not all(loop.line <= line <= loop.last for line in own):
            return False
        # Where a caller of its function is passed too, it is left again and again.
        passed = (e for e in spans if e is not home and any(has(e, line) for line in lines))
        called = re.compile(rf"\b{home.name}\b")
        return not any(called.search(text.code, each.start, each.end) for each in passed)

    fitting = [loop for loop in of_cpp(text.code) if goes_through(loop)]
    return min(fitting, key=lambda each: each.last - each.line).line if fitting else None


def around(source: str, line: int) -> list[int]:
    """The lines of the loops around a line of a Python source, innermost first."""
    if len(source) > MOST_CHARACTERS:
        return []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.While | ast.For))
    known = [each.lineno for each in loops if each.lineno <= line <= (each.end_lineno or 0)]
    return sorted(known, reverse=True)


def common(samples: Sequence[Sequence[int]]) -> int | None:
    """The innermost loop that a program was in each time; a sample has the innermost first."""
    if not samples:
        return None
    return next((each for each in samples[0] if all(each in other for other in samples)), None)


def _up_to(code: str, start: int, opening: str, closing: str) -> str:
    """The text from `start`, just after an opening bracket, to the one that closes it."""
    depth = 1
    for at in range(start, min(len(code), start + MOST_OF_LOOP)):
        depth += (code[at] == opening) - (code[at] == closing)
        if not depth:
            return code[start:at]
    return ""
