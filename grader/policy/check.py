"""The one question asked: which rules does this text break?"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

from grader.policy.findings import Rules, Violation, instead_of
from grader.policy.reader import Reader
from grader.policy.state import TooInvolved

_DEEPEST = 100  # levels of the tree; an honest file has 20
_LARGEST = 256 * 1024  # characters
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")  # as PEP 263 has it
_SAME_AS_READ = frozenset({"utf-8", "utf8", "utf_8", "ascii", "us-ascii"})


def check(
    source: str, entry: str, rules: Rules | None = None, tensors: Sequence[bool] | None = None
) -> list[Violation]:
    """Which rules the Python text `source` breaks, with `entry` as what the grader calls.

    `tensors` says of each of the entry's parameters, in order, whether it is a tensor; without it,
    every parameter is but those annotated `int`, `float`, `bool` or `str`, or called eps, scale and
    the like. In the order of the source. Empty for a text that isn't Python: running it says more.
    """
    rules = rules or Rules()
    found = [v for v in _check(source, entry, rules, tensors) if v.rule not in rules.lifted]
    return sorted(found, key=lambda v: (v.line, v.column, v.rule))


def _check(
    source: str, entry: str, rules: Rules, tensors: Sequence[bool] | None
) -> list[Violation]:
    if len(source) > _LARGEST:
        return [_unreadable(f"the file has more than {_LARGEST} characters")]
    # As Python's tokenizer ends lines: splitlines() knows more ends, behind which a cookie hides.
    for line in re.split(r"\r\n|\r|\n", source)[:2]:
        cookie = _COOKIE.match(line)
        if cookie and cookie[1].lower() not in _SAME_AS_READ:
            # Python would run other text than the one that is read here.
            return [_unreadable(f"the file says that it is encoded in {cookie[1]}")]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of escapes and the like: the student's own run shows them
            module = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    except (RecursionError, MemoryError):
        return [_unreadable("an expression is nested too deeply")]
    if _depth(module) > _DEEPEST:
        return [_unreadable("an expression or block is nested too deeply")]
    reader = Reader(source, module, rules)
    try:
        reader.read(entry, tensors)
    except RecursionError:
        return [_unreadable("an expression is nested too deeply")]
    except TooInvolved:
        return [_unreadable("too much in it depends on too much else")]
    return list(reader.found.values())


def _depth(module: ast.Module) -> int:
    """Levels of the tree, where a chain such as a + b + c counts once."""
    deepest = 0
    waiting: list[tuple[ast.AST, int]] = [(module, 0)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        for child in ast.iter_child_nodes(node):
            chained = isinstance(node, ast.BinOp) and child is node.left
            waiting.append((child, depth if chained else depth + 1))
    return deepest


def _unreadable(message: str) -> Violation:
    return Violation("unreadable", 1, 1, message, instead_of("unreadable"))
