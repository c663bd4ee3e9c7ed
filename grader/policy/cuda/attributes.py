"""Rules on attributes: __attribute__((...)), [[...]] and __declspec(...)."""

from __future__ import annotations

from collections.abc import Sequence

from grader.emulator.lexer import Token
from grader.policy.cuda.directives import Report
from grader.policy.cuda.names import ATTRIBUTES

ATTRIBUTE_WORDS = frozenset({"__attribute__", "__attribute", "__declspec"})
_NAMESPACES = frozenset({"gnu", "__gnu__", "nv", "clang", "using"})


def check_attributes(tokens: Sequence[Token], report: Report) -> None:
    """Report every attribute that kernels don't need."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind == "name" and token.text in ATTRIBUTE_WORDS:
            if following != "(":
                report("attribute", token, f"{token.text} doesn't show what it asks for")
            index = _check_list(tokens, index + 1, report)
        elif token.text == "[" and following == "[" and token.kind == "punctuation":
            index = _check_list(tokens, index, report)
        else:
            index += 1


def _check_list(tokens: Sequence[Token], start: int, report: Report) -> int:
    """Check the names in two pairs of brackets from `start` on; returns the place behind them.

    Inner parentheses hold an attribute's own arguments: `aligned(16)`, `format(printf, 1, 2)`.
    """
    depth, index = 0, start
    opening = [each.text for each in tokens[start : start + 2]]
    names_at = 2 if opening in (["(", "("], ["[", "["]) else 1
    while index < len(tokens):
        token = tokens[index]
        if token.kind == "punctuation" and token.text in "([":
            depth += 1
        elif token.kind == "punctuation" and token.text in ")]":
            depth -= 1
            if depth <= 0:
                return index + 1
        elif token.kind == "name" and depth == names_at and not _is_allowed(token.text):
            report("attribute", token, f"the attribute {token.text[:60]} is not for kernels")
        index += 1
    return index


def _is_allowed(name: str) -> bool:
    bare = name[2:-2] if name.startswith("__") and name.endswith("__") and len(name) > 4 else name
    return bare in ATTRIBUTES or name in _NAMESPACES
