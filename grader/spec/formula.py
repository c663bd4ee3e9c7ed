"""Arithmetic written in a spec: `2 * rows * cols * itemsize`, `ceil_div(n, 64)`.

A formula is read by a small recursive-descent parser and evaluated over the tree that gives; no
text from a spec ever reaches Python's own evaluator. The grammar, loosest binding first:

    sum      = product {("+" | "-") product}
    product  = unary {("*" | "/" | "//" | "%") unary}
    unary    = "-" unary | power
    power    = atom ["**" unary]
    atom     = number | name | function "(" sum {"," sum} ")" | "(" sum ")"

Operators bind and round as in Python: `-2 ** 2` is -4, `7 // -2` is -4, `/` gives a float.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic_core import core_schema

MAX_LENGTH = 200  # characters
MAX_DEPTH = 20  # nested brackets, signs and powers
MAX_EXPONENT = 64
MAX_VALUE = 2**64  # more bytes or operations than any exercise has

Number = int | float


class FormulaError(ValueError):
    """A formula can't be read or has no value; `position` is the character it's about, from 0."""

    def __init__(self, message: str, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class _Node(NamedTuple):
    """One operation of the tree: `what` is a number, a name, an operator or a function."""

    kind: str  # number | name | call
    what: Any
    operands: tuple[_Node, ...]
    position: int


class _Token(NamedTuple):
    kind: str  # number | name | symbol | end
    text: str
    position: int


def _ceil_div(a: Number, b: Number) -> Number:
    return -(-a // b)


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > MAX_EXPONENT:
        raise ArithmeticError(f"the exponent {exponent}, more than {MAX_EXPONENT}")
    result = base**exponent
    if isinstance(result, complex):
        raise ArithmeticError("a root of a negative number")
    return result


_OPERATORS: dict[str, Callable[..., Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
    "negate": operator.neg,
    "min": min,
    "max": max,
    "ceil_div": _ceil_div,
}

# name -> (fewest arguments, most arguments or None)
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "min": (2, None),
    "max": (2, None),
    "ceil_div": (2, 2),
}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol>\*\*|//|[-+*/%(),]))",
    re.ASCII,
)


@dataclass(frozen=True, init=False)
class Formula:
    """Parsed arithmetic over names. Frozen and hashable; equal when written the same.

    `Formula("ceil_div(n, 64)")`, `Formula(8)`. Raises FormulaError, which says what was expected
    at which character, when the text isn't a formula or is longer or deeper than the limits above.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    _tree: _Node = field(compare=False, repr=False)

    def __init__(self, source: str | int | float) -> None:
        if isinstance(source, float) and not math.isfinite(source):
            raise FormulaError(f"expected a finite number, got {source}")
        text = str(source).strip()
        tree = _Parser(text).parse()
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "names", frozenset(_names(tree)))
        object.__setattr__(self, "_tree", tree)

    def __str__(self) -> str:
        return self.text

    def evaluate(self, env: Mapping[str, Number]) -> Number:
        """The value with each name replaced by env's.

        An int as long as every operand is one and there is no `/`. Raises FormulaError for a name
        env lacks, a division by zero, and results that are not finite or beyond MAX_VALUE.
        """
        return _evaluate(self._tree, env, self.text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Models take a Formula, a number or text; they give back the text."""
        return core_schema.no_info_plain_validator_function(
            cls._from_field, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def _from_field(cls, value: object) -> Formula:
        if isinstance(value, Formula):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise FormulaError(f"expected a number, a name or a formula, got {_shown(value)}")
        return cls(value)


class _Parser:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        if len(text) > MAX_LENGTH:
            raise FormulaError(
                f"expected a formula of at most {MAX_LENGTH} characters, got {len(text)}",
                MAX_LENGTH,
            )
        self.tokens = list(_tokens(text))
        self.at = 0

    def parse(self) -> _Node:
        tree = self._sum()
        if self._peek().kind != "end":
            raise self._unexpected("an operator or the end")
        return tree

    def _sum(self) -> _Node:
        return self._left_to_right(self._product, ("+", "-"))

    def _product(self) -> _Node:
        return self._left_to_right(self._unary, ("*", "/", "//", "%"))

    def _left_to_right(self, operand: Callable[[], _Node], operators: tuple[str, ...]) -> _Node:
        left = operand()
        while self._peek().text in operators:
            token = self._next()
            left = _Node("call", token.text, (left, operand()), token.position)
        return left

    def _unary(self) -> _Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise FormulaError(
                f"expected at most {MAX_DEPTH} levels of nesting", self._peek().position
            )
        if self._peek().text == "-":
            token = self._next()
            node = _Node("call", "negate", (self._unary(),), token.position)
        else:
            node = self._power()
        self.depth -= 1
        return node

    def _power(self) -> _Node:
        base = self._atom()
        if self._peek().text != "**":
            return base
        token = self._next()
        return _Node("call", "**", (base, self._unary()), token.position)

    def _atom(self) -> _Node:
        token = self._peek()
        if token.kind == "number":
            self._next()
            return _Node("number", _number(token), (), token.position)
        if token.kind == "name":
            self._next()
            if self._peek().text == "(":
                return self._call(token)
            return _Node("name", token.text, (), token.position)
        if token.text == "(":
            self._next()
            inner = self._sum()
            self._expect(")")
            return inner
        raise self._unexpected("a number, a name or '('")

    def _call(self, function: _Token) -> _Node:
        if function.text not in FUNCTIONS:
            raise FormulaError(
                f"expected one of the functions {', '.join(FUNCTIONS)}, got {function.text!r} "
                f"in {self.text!r}",
                function.position,
            )
        self._expect("(")
        operands = [self._sum()]
        while self._peek().text == ",":
            self._next()
            operands.append(self._sum())
        self._expect(")")
        fewest, most = FUNCTIONS[function.text]
        if len(operands) < fewest or (most is not None and len(operands) > most):
            wanted = f"{fewest}" if most == fewest else f"{fewest} or more"
            raise FormulaError(
                f"expected {wanted} arguments of {function.text}, got {len(operands)} "
                f"in {self.text!r}",
                function.position,
            )
        return _Node("call", function.text, tuple(operands), function.position)

    def _peek(self) -> _Token:
        return self.tokens[self.at]

    def _next(self) -> _Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def _expect(self, symbol: str) -> None:
        if self._peek().text != symbol:
            raise self._unexpected(f"{symbol!r}")
        self._next()

    def _unexpected(self, wanted: str) -> FormulaError:
        token = self._peek()
        came = "the end" if token.kind == "end" else repr(token.text)
        return FormulaError(
            f"expected {wanted} at character {token.position + 1} of {self.text!r}, got {came}",
            token.position,
        )


def _tokens(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise FormulaError(
                f"expected a number, a name or an operator at character {position + 1} "
                f"of {text!r}, got {text[position]!r}",
                position,
            )
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match.group(kind), match.start(kind)))
        position = match.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


def _number(token: _Token) -> Number:
    value = int(token.text) if token.text.isdigit() else float(token.text)
    if value > MAX_VALUE:
        raise FormulaError(f"expected at most 2**64, got {token.text!r}", token.position)
    return value


def _names(node: _Node) -> set[str]:
    own = {node.what} if node.kind == "name" else set()
    return own.union(*(_names(operand) for operand in node.operands))


def _evaluate(node: _Node, env: Mapping[str, Number], text: str) -> Number:
    if node.kind == "number":
        return node.what
    if node.kind == "name":
        if node.what not in env:
            known = ", ".join(env) or "no names"
            raise FormulaError(
                f"expected {known} in {text!r}, got the name {node.what!r}", node.position
            )
        return env[node.what]
    operands = [_evaluate(operand, env, text) for operand in node.operands]
    try:
        value = _OPERATORS[node.what](*operands)
    except ZeroDivisionError:
        raise _no_value("a division by zero", node, text) from None
    except OverflowError:
        value = math.inf
    except ArithmeticError as error:
        raise _no_value(str(error), node, text) from None
    if not abs(value) <= MAX_VALUE:  # written so that nan fails too
        raise _no_value("a number beyond 2**64", node, text)
    return value


def _no_value(came: str, node: _Node, text: str) -> FormulaError:
    return FormulaError(f"expected a value from {text!r}, got {came}", node.position)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return repr(value)[:60]
