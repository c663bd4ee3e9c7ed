"""C++ source for the rewriter: the code of the file, and the body of each macro.

It is tokens, not a parse tree. Launches and declarations of shared memory can be found in tokens,
also in macros' bodies, and unknown constructs can't hide them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .lexer import Directive, Token, lex

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ANGLES = ("<", ">")


@dataclass(frozen=True)
class Run:
    """Consecutive tokens: the code of the file, or the body of one macro."""

    tokens: tuple[Token, ...]
    parameters: tuple[str, ...] = ()  # of the macro, if it is one's body


@dataclass(frozen=True)
class Source:
    """A file's code, its macros' bodies and its directives, which count the tokens of `code`."""

    text: str
    code: Run
    macros: tuple[Run, ...]
    directives: tuple[Directive, ...]

    def runs(self) -> tuple[Run, ...]:
        """The code and the macros' bodies."""
        return (self.code, *self.macros)

    def line(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        return self.text.count("\n", 0, offset) + 1


def read(text: str) -> Source:
    """Split C++ source. Never fails: text that isn't C++ becomes tokens too, for g++ to refuse."""
    lexed = lex(text)
    macros = [Run(_joined(each.body), each.parameters) for each in lexed.directives if each.macro]
    code = Run(_joined(lexed.tokens))
    starts = [token.start for token in code.tokens]
    directives = (
        replace(each, before=bisect_left(starts, each.at.start)) for each in lexed.directives
    )
    return Source(text, code, tuple(macros), tuple(directives))


def _joined(tokens: Iterable[Token]) -> tuple[Token, ...]:
    """The tokens, with `<<`, `>>`, `<< <` and the `>> >` that ends a launch as one each, as for
    nvcc.
    """
    result: list[Token] = []
    in_launch = False
    for token in _with_shifts(tokens):
        previous = [each.text for each in result[-2:]]
        if token.text == "<" and previous[-1:] == ["<<"] and previous[:-1] != ["operator"]:
            result.append(_one(result.pop(), token))
        elif token.text == "(" and in_launch and previous == [">>", ">"]:
            last = result.pop()
            result += [_one(result.pop(), last), token]
        else:
            result.append(token)
        ends = result[-1].text in (";", "{", "}") or ">>>" in [t.text for t in result[-2:]]
        in_launch = result[-1].text == "<<<" or (in_launch and not ends)
    return tuple(result)


def _with_shifts(tokens: Iterable[Token]) -> list[Token]:
    """The tokens, with adjacent pairs of angle brackets as one."""
    result: list[Token] = []
    for token in tokens:
        is_second = token.is_glued and result and token.text == result[-1].text in _ANGLES
        result.append(_one(result.pop(), token) if is_second else token)
    return result


def _one(first: Token, last: Token) -> Token:
    return first._replace(text=first.text + last.text, end=last.end)


def closing(tokens: Sequence[Token], opening: int) -> int | None:
    """The index of the bracket that closes the one at `opening`, or None."""
    wanted: list[str] = []
    for i in range(opening, len(tokens)):
        if tokens[i].kind != "punctuation":
            continue
        text = tokens[i].text
        if text in _CLOSING:
            wanted.append(_CLOSING[text])
        elif wanted and text in (")", "]", "}"):
            if wanted.pop() != text:
                return None
            if not wanted:
                return i
    return None


def statement_start(tokens: Sequence[Token], i: int) -> int:
    """The index of the first token of the statement, or of the function's head, that has this."""
    while i > 0 and tokens[i - 1].text not in (";", "{", "}"):
        i -= 1
    return i


def opening(tokens: tuple[Token, ...], closing_at: int) -> int | None:
    """The index of the bracket that the one at `closing_at` closes, or None."""
    depth = 0
    for i in range(closing_at, -1, -1):
        if tokens[i].kind != "punctuation":
            continue
        if tokens[i].text in (")", "]", "}"):
            depth += 1
        elif tokens[i].text in _CLOSING:
            depth -= 1
            if depth == 0:
                return i
    return None
