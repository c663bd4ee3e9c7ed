"""The statements of a C++ function, and the expressions in them whose value can be chosen.

A reader without a compiler, for submissions' text: it knows blocks, branches, loops and
declarations, and takes everything else for an expression. Text that it can't follow is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from grader.executors.source_text import Token

MOST_DEPTH = 40  # of statements in statements
MOST_OF_TEMPLATE = 40  # tokens, of its arguments
_STORAGE, _BUILTIN, _QUALIFIERS, _NO_TYPES, _OPAQUE = (
    frozenset(words.split())
    for words in (
        "static constexpr extern thread_local __shared__ __device__",
        "unsigned signed long short int char float double bool auto void",
        "const volatile __restrict__ __restrict",
        "return break continue goto throw delete new asm __asm__ sizeof else operator",
        "using typedef struct class union enum template namespace typename",
    )
)
_BRACKETS = {"(": ")", "[": "]", "{": "}"}

Kind = Literal["plain", "compound", "block", "declaration", "label"]


class NotRead(Exception):
    """The text is no sequence of statements, as far as this reader can tell."""


@dataclass(frozen=True)
class Slot:
    """An expression in whose place another one may stand, and the type that both become."""

    start: int
    end: int
    type: str  # "" where the expression's own type is what counts


@dataclass(frozen=True)
class Statement:
    """A statement with the expressions and the statements in it.

    `name` is that of a declaration which declares one variable, without a first value.
    """

    kind: Kind
    start: int
    end: int  # behind the semicolon or the brace
    slots: tuple[Slot, ...] = ()
    children: tuple[Statement, ...] = ()
    name: str = ""


def read(tokens: Sequence[Token], constants: frozenset[str] = frozenset()) -> list[Statement]:
    """The statements that tokens make up. Raises NotRead.

    First values of the names `constants` can't be chosen when the program runs.
    """
    return _Reader(tokens, constants).sequence(0, len(tokens), 0)


def declares(statements: Sequence[Statement]) -> bool:
    """Whether names of these statements are known behind them."""
    return any(each.kind == "declaration" for each in statements)


def is_expression(tokens: Sequence[Token], may_have_commas: bool) -> bool:
    """Whether tokens may stand between parentheses as one value. Raises NotRead."""
    outer = {tokens[at].text for at in _Reader(tokens, frozenset()).outer(0, len(tokens))}
    return bool(tokens) and not outer & {";", "{"} and (may_have_commas or "," not in outer)


def behind_template(tokens: Sequence[Token], at: int, end: int) -> int:
    """The token behind a template's arguments; `at` itself where none begin there."""
    depth = 0
    for index in range(at, min(end, at + MOST_OF_TEMPLATE)):
        text = tokens[index].text
        depth += (text == "<") - (text == ">") - 2 * (text == ">>")
        if depth <= 0:
            return index + 1 if index > at else at
        if text in ("(", ")", ";", "&&", "||", "="):
            break
    return at


_DIMENSIONS = re.compile(
    r"\b([A-Za-z_][\w:]{0,80})\s{1,80}\w{1,80}\s{0,80}((?:\[[^\[\]\n]{1,80}\]\s{0,80})+)"
)
_TEMPLATE = re.compile(r"\w<([\w\s,+*/:-]{1,80})>\s*(?:\(|<<<|::)")
_CASE = re.compile(r"\bcase\s+([^:;]{1,80}):")
_CONSTANT = re.compile(r"\b(?:constexpr\b[^;{}()=]{1,80}=|static_assert\b)([^;]{1,300})")
_NAME = re.compile(r"[A-Za-z_]\w*")


def constants_of(code: str) -> frozenset[str]:
    """Names that stand where only a constant may: an array's size, a template's argument."""
    sizes = [match[2] for match in _DIMENSIONS.finditer(code) if match[1] not in _NO_TYPES]
    patterns = (_TEMPLATE, _CASE, _CONSTANT)
    given = [match[1] for pattern in patterns for match in pattern.finditer(code)]
    return frozenset(_NAME.findall(" ".join([*sizes, *given])))


class _Reader:
    def __init__(self, tokens: Sequence[Token], constants: frozenset[str]) -> None:
        self._tokens = tokens
        self._constants = constants
        self._closing: dict[int, int] = {}  # of each opening bracket
        stack: list[int] = []
        for index, token in enumerate(tokens):
            if token.text in _BRACKETS:
                stack.append(index)
            elif token.text in _BRACKETS.values():
                if not stack or _BRACKETS[tokens[stack[-1]].text] != token.text:
                    raise NotRead
                self._closing[stack.pop()] = index
        if stack:
            raise NotRead

    def sequence(self, first: int, end: int, depth: int) -> list[Statement]:
        """The statements between two tokens."""
        statements = []
        while first < end:
            statement, first = self._statement(first, end, depth)
            statements.append(statement)
        return statements

    def _text(self, index: int) -> str:
        return self._tokens[index].text if index < len(self._tokens) else ""

    def _statement(self, first: int, end: int, depth: int) -> tuple[Statement, int]:
        """The statement that begins at a token, and the token behind it."""
        if depth > MOST_DEPTH or first >= end:
            raise NotRead
        text = self._text(first)
        if text == "{":
            last = self._closing[first]
            children = self.sequence(first + 1, last, depth + 1)
            return self._made("block", first, last + 1, (), children), last + 1
        if text in ("if", "for", "while", "switch"):
            return self._headed(first, end, depth)
        if text == "do":
            body, behind = self._statement(first + 1, end, depth + 1)
            last = self._next(";", behind, end)
            if self._text(behind) != "while":
                raise NotRead
            slots = self._condition(behind + 2, last - 1)
            return self._made("compound", first, last + 1, slots, [body]), last + 1
        if text in ("case", "default") or self._text(first + 1) == ":":
            last = self._next(":", first, end)
            return self._made("label", first, last + 1), last + 1
        last = self._next(";", first, end)
        return self._plain(first, last), last + 1

    def _headed(self, first: int, end: int, depth: int) -> tuple[Statement, int]:
        """A branch or a loop, whose head is in parentheses."""
        is_constant = self._text(first + 1) == "constexpr"
        opening = first + 1 + is_constant
        if self._text(opening) != "(":
            raise NotRead
        closing = self._closing[opening]
        slots: tuple[Slot, ...] = ()
        if self._text(first) == "for":
            slots = tuple(self._loop(opening + 1, closing))
        elif self._text(first) != "switch" and not is_constant:
            slots = self._condition(opening + 1, closing)
        body, behind = self._statement(closing + 1, end, depth + 1)
        children = [body]
        if self._text(first) == "if" and behind < end and self._text(behind) == "else":
            other, behind = self._statement(behind + 1, end, depth + 1)
            children.append(other)
        return self._made("compound", first, behind, slots, children), behind

    def _loop(self, first: int, end: int) -> Iterator[Slot]:
        """The expressions in the head of a `for` loop; none of one over a range."""
        stops = [at for at in self.outer(first, end) if self._text(at) == ";"]
        if len(stops) != 2:
            return
        begun = self._declared(first, stops[0])
        yield from self._slot(first, stops[0], "void") if begun is None else begun.slots
        yield from self._condition(stops[0] + 1, stops[1])
        yield from self._slot(stops[1] + 1, end, "void")

    def _condition(self, first: int, end: int) -> tuple[Slot, ...]:
        """The condition between two tokens, unless it declares a name."""
        outer = {self._text(at) for at in self.outer(first, end)}
        is_declared = "=" in outer and self._declared(first, end) is not None
        return () if is_declared or ";" in outer else self._slot(first, end, "bool")

    def _slot(self, first: int, end: int, type_: str) -> tuple[Slot, ...]:
        if first >= end:
            return ()
        return (Slot(self._tokens[first].start, self._tokens[end - 1].end, type_),)

    def _plain(self, first: int, last: int) -> Statement:
        """A statement up to its semicolon."""
        if self._text(first) in _OPAQUE:
            return self._made("declaration", first, last + 1)
        declared = self._declared(first, last)
        if declared is None:
            return self._made("plain", first, last + 1)
        return declared

    # ---- Declarations ----------------------------------------------------------------------------

    def _declared(self, first: int, end: int) -> Statement | None:
        """The declaration between two tokens; None where they make up an expression."""
        at, words, is_fixed = self._type(first, end)
        if not words:
            return None
        slots: list[Slot] = []
        bare, begun = "", at
        while True:
            stars = ""
            while self._text(at) in ("*", "&", "&&") or self._text(at) in _QUALIFIERS:
                stars += self._text(at) if self._text(at) in "*&&" else ""
                at += 1
            named, is_first = at, at == begun + len(stars)
            at += 1
            while at < end and self._text(at) == "[":
                at = self._closing[at] + 1
            is_name = named < end and self._tokens[named].is_name
            if not is_name or (at < end and self._text(at) not in ("=", "(", "{", ",")):
                is_expression = is_first and not is_fixed  # as `a * b` or `f < g`
                return None if is_expression else self._made("declaration", first, end + 1)
            stop = next((i for i in self.outer(at, end) if self._text(i) == ","), end)
            is_constant = self._text(named) in self._constants or "auto" in words
            if not (is_fixed or is_constant or "&" in stars):
                type_ = " ".join(words) + stars
                slots += self._first_values(at, stop, type_, is_array=at > named + 1)
                bare = self._text(named) if is_first and at == named + 1 == end else ""
            if stop >= end:
                return self._made("declaration", first, end + 1, tuple(slots), (), bare)
            at = stop + 1

    def _type(self, first: int, end: int) -> tuple[int, list[str], bool]:
        """The token behind a type, the type's words, and whether a first value is a constant."""
        words: list[str] = []
        is_fixed, has_type, at = False, False, first
        while at < end:
            text = self._text(at)
            if text in _STORAGE:
                is_fixed = True
            elif text in _BUILTIN or text in _QUALIFIERS:
                has_type = has_type or text in _BUILTIN
                words += [text] * (not text.startswith("__"))
            elif self._tokens[at].is_name and not has_type and text not in _NO_TYPES:
                behind = self._qualified(at, end)
                words += [each.text for each in self._tokens[at:behind]]
                has_type, at = True, behind - 1
            else:
                break
            at += 1
        return at, words if has_type and at < end else [], is_fixed

    def _qualified(self, at: int, end: int) -> int:
        """The token behind a name with its namespaces and its template's arguments."""
        while at + 2 < end and self._text(at + 1) == "::":
            at += 2
        return behind_template(self._tokens, at + 1, end)

    def _first_values(self, at: int, stop: int, type_: str, is_array: bool) -> Iterator[Slot]:
        """The expressions behind a declared name: after `=`, in braces or in parentheses."""
        is_assigned = self._text(at) == "="
        if at < stop and is_assigned and self._text(at + 1) != "{":
            yield from self._slot(at + 1, stop, type_)
            return
        at += is_assigned
        if at < stop and self._text(at) in ("(", "{"):
            first, last = at + 1, self._closing[at]
            commas = [each for each in self.outer(first, last) if self._text(each) == ","]
            for comma in (*commas, last):
                if self._text(first) != "{":
                    yield from self._slot(first, comma, type_ if is_array else "")
                first = comma + 1

    # ---- Tokens ----------------------------------------------------------------------------------

    def outer(self, first: int, end: int) -> Iterator[int]:
        """The tokens between two that are in no bracket."""
        at = first
        while at < end:
            yield at
            at = self._closing.get(at, at) + 1

    def _next(self, text: str, first: int, end: int) -> int:
        """The next such token that is in no bracket."""
        for at in self.outer(first, end):
            if self._text(at) == text:
                return at
        raise NotRead

    def _made(
        self,
        kind: Kind,
        first: int,
        behind: int,
        slots: tuple[Slot, ...] = (),
        children: Sequence[Statement] = (),
        name: str = "",
    ) -> Statement:
        start, end = self._tokens[first].start, self._tokens[behind - 1].end
        return Statement(kind, start, end, slots, tuple(children), name)
