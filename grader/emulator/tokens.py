"""C++ source to tokens: what is code, and where; comments, texts and directives set apart.

A lexer, not a parser: what the rewriter needs (launches, declarations of shared memory) can be
found among tokens, inside the bodies of macros too, and no construct that a grammar doesn't know
can hide them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["name", "number", "text", "punctuation"]

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\r\f\v]|\\\r?\n)+)
  | (?P<newline>\n)
  | (?P<comment>//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?(?:\)(?P=mark)"|\Z))
  | (?P<text>(?:u8|[uUL])?(?:"(?:\\\r?\n|\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[0-9A-Za-z_]|\.)*)
  | (?P<name>[^\W\d]\w*)
  | (?P<punctuation><<<|>>>|<<|>>|->|::|\#\#|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"\#[ \t]*(?P<word>\w*)")
_DIRECTIVE_END = re.compile(
    r"""(?:\\\r?\n|"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//(?:\\\r?\n|[^\n])*|[^\n])*""", re.DOTALL
)
_SKIPPED_LINE = re.compile(r"[ \t]*(?P<directive>\#)?")
_DEFINE = re.compile(r"\#[ \t]*define[ \t]+\w+(?P<parameters>\([^()]*\))?")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    """One token; `start` and `end` are offsets in the whole source."""

    kind: Kind
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Directive:
    """A preprocessor line, with its continuation lines."""

    word: str  # "include", "define", ...
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Run:
    """Tokens that follow one another: the code of the file, or the body of one macro."""

    tokens: tuple[Token, ...]
    parameters: tuple[str, ...] = ()  # of the macro, if it is one's body


@dataclass(frozen=True)
class Source:
    """A file's code, its macros' bodies and its directives."""

    text: str
    code: Run
    macros: tuple[Run, ...]
    directives: tuple[Directive, ...]

    def runs(self) -> tuple[Run, ...]:
        return (self.code, *self.macros)

    def line(self, offset: int) -> int:
        """The line, from 1, of an offset."""
        return self.text.count("\n", 0, offset) + 1


def read(text: str) -> Source:
    """Splits C++ source. Never fails: what isn't C++ becomes tokens too, and g++ says so."""
    code: list[Token] = []
    macros: list[Run] = []
    directives: list[Directive] = []
    position, fresh_line, skipping = 0, True, 0
    while position < len(text):
        if skipping:
            position = _next_directive(text, position)
        directive = _DIRECTIVE.match(text, position) if fresh_line or skipping else None
        if directive:
            end = _end_of_directive(text, directive.end())
            word = directive["word"]
            skipping = _skipping(skipping, word, text[directive.end() : end])
            if not skipping:
                directives.append(Directive(word, text[position:end], position, end))
                if word == "define":
                    macros.append(_macro(text, position, end))
            position, fresh_line = end, False
            continue
        found = _TOKEN.match(text, position)
        if not found:  # only at the end: every character is some token
            break
        token = _token(found)
        if token:
            code.append(token)
        # What stands before a directive on its line is space or a comment.
        fresh_line = found["newline"] is not None or (fresh_line and token is None)
        position = found.end()
    return Source(text, Run(_joined(code)), tuple(macros), tuple(directives))


def _next_directive(text: str, position: int) -> int:
    """From inside what is skipped: where the next line that is a directive has its `#`."""
    while True:
        newline = text.find("\n", position)
        if newline < 0:
            return len(text)
        found = _SKIPPED_LINE.match(text, newline + 1)
        if found and found["directive"]:
            return found.start("directive")
        position = newline + 1


def _skipping(depth: int, word: str, rest: str) -> int:
    """How many conditionals deep we are inside one that is off for good (`#if 0`)."""
    if depth:
        if word in ("if", "ifdef", "ifndef"):
            return depth + 1
        if word == "endif" or (depth == 1 and word in ("else", "elif")):
            return depth - 1
        return depth
    return 1 if word == "if" and rest.split("//")[0].split("/*")[0].strip() == "0" else 0


def _end_of_directive(text: str, position: int) -> int:
    found = _DIRECTIVE_END.match(text, position)
    return found.end() if found else position


def _macro(text: str, start: int, end: int) -> Run:
    head = _DEFINE.match(text, start, end)
    if not head:
        return Run(())
    names = re.findall(r"\w+|\.\.\.", head["parameters"] or "")
    return Run(_joined(_tokens(text, head.end(), end)), tuple(names))


def _tokens(text: str, position: int, end: int) -> list[Token]:
    tokens = []
    while position < end:
        found = _TOKEN.match(text, position, end)
        assert found is not None
        token = _token(found)
        if token:
            tokens.append(token)
        position = found.end()
    return tokens


def _token(found: re.Match[str]) -> Token | None:
    kinds: dict[str | None, Kind] = {"number": "number", "name": "name", "text": "text"}
    if found["space"] or found["newline"] or found["comment"]:
        return None
    group = next(name for name in ("raw", "text", "number", "name", "punctuation") if found[name])
    kind = "text" if group == "raw" else kinds.get(group, "punctuation")
    return Token(kind, found[0], found.start(), found.end())


def _joined(found: list[Token]) -> tuple[Token, ...]:
    """The tokens, `<< <` and the `>> >` that ends a launch as one each: nvcc takes them so."""
    result: list[Token] = []
    in_launch = False
    for token in found:
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


def _one(first: Token, last: Token) -> Token:
    return Token("punctuation", first.text + last.text, first.start, last.end)


def closing(tokens: tuple[Token, ...], opening: int) -> int | None:
    """The index of the bracket that closes the one at `opening`; None where there is none."""
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


def opening(tokens: tuple[Token, ...], closing_at: int) -> int | None:
    """The index of the bracket that the one at `closing_at` closes; None where there is none."""
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
