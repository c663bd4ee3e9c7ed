"""Rules on attributes: __attribute__((...)), [[...]] and __declspec(...)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grader.emulator.lexer import Directive, Token
from grader.policy.cuda.directives import Report
from grader.policy.cuda.names import ATTRIBUTES, GNU, UNOBSERVED

ATTRIBUTE_WORDS = frozenset({"__attribute__", "__attribute", "__declspec"})
Macros = Mapping[str, Sequence[Directive]]  # the definitions of each
_NAMESPACES = frozenset({"gnu", "__gnu__", "nv", "clang", "using"})


def check_attributes(tokens: Sequence[Token], macros: Macros, report: Report) -> None:
    """Report every attribute that kernels don't need; `macros` are the file's, by name.

    A list's brackets may come from macros. So two kinds of words are refused outside of lists, too:
    the compiler's namespace, and what takes a function's accesses from the observer.
    """
    index = 0
    while index < len(tokens):
        token = tokens[index]
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.kind == "name" and token.text in ATTRIBUTE_WORDS:
            if following != "(":
                report("attribute", token, f"{token.text} doesn't show what it asks for")
            index = _check_list(tokens, index + 1, macros, report)
        elif token.text == "[" and following == "[" and token.kind == "punctuation":
            index = _check_list(tokens, index, macros, report)
        else:
            if token.kind == "name" and token.text in GNU | UNOBSERVED:
                report("attribute", token, f"the attribute {token.text} is not for kernels")
            index += 1


def _check_list(tokens: Sequence[Token], start: int, macros: Macros, report: Report) -> int:
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
        elif token.text in macros and _may_be_more(tokens[index : index + 2], macros, depth):
            report("attribute", token, f"the macro {token.text[:60]} hides an attribute")
        index += 1
    return index


def _may_be_more(tokens: Sequence[Token], macros: Macros, depth: int) -> bool:
    """Whether a macro in a list may be more than an allowed attribute, or than an argument."""
    is_called = [each.text for each in tokens[1:]] == ["("]
    if not any(is_called or not each.parameters for each in macros[tokens[0].text]):
        return False  # it stays the word that it is
    if depth > 2:
        return not _stays_in_parentheses(tokens[0].text, macros)
    words = (word for each in macros[tokens[0].text] for word in each.body)
    return any(word.kind != "name" or not _is_allowed(word.text) for word in words)


def _stays_in_parentheses(name: str, macros: Macros) -> bool:
    """Whether parentheses are paired in each macro that one leads to."""
    known, following = {name}, [name]
    while following:
        for macro in macros[following.pop()]:
            depth = 0
            for each in macro.body:
                depth += (each.text == "(") - (each.text == ")")
                if depth < 0:
                    return False
                if each.text in macros and each.text not in known:
                    known.add(each.text)
                    following.append(each.text)
            if depth:
                return False
    return True


def _is_allowed(name: str) -> bool:
    bare = name[2:-2] if name.startswith("__") and name.endswith("__") and len(name) > 4 else name
    return bare in ATTRIBUTES or name in _NAMESPACES
