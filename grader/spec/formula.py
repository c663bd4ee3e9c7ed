"""Arithmetic in a spec: `2 * rows * cols * itemsize`, `ceil_div(n, 64)`.

A formula has numbers, names, brackets, a leading minus, the operators of _BINDS and the functions
of FUNCTIONS. They bind and round as in Python: `-2 ** 2` is -4, `7 // -2` is -4, `/` gives a float.
Python's own parser is not used: its language is larger, and the position in its errors depends on
the version.
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
    """A formula can't be read or has no value."""


class _Token(NamedTuple):
    kind: str  # a group of _TOKEN
    text: str
    position: int


class _Node(NamedTuple):
    """An operation of the tree; without operands, a number or a name."""

    symbol: Number | str  # a number, a name, or a key of _OPERATORS
    operands: tuple[_Node, ...]


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
    "ceil_div": lambda a, b: -(-a // b),
}

# name -> (fewest arguments, most arguments or None)
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "min": (2, None),
    "max": (2, None),
    "ceil_div": (2, 2),
}

# Precedence of operators. A leading minus binds more tightly than a product, less than a power.
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 3}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<symbol>\*\*|//|[-+*/%(),])"
    r"|(?P<foreign>\S)|(?P<end>\Z))",
    re.ASCII,
)


@dataclass(frozen=True, init=False)
class Formula:
    """Parsed arithmetic over names. Frozen and hashable; equal when written the same.

    `Formula("ceil_div(n, 64)")`, `Formula(8)`. Raises FormulaError, with what was expected at which
    character, when the text isn't a formula or exceeds the limits above.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    _tree: _Node = field(compare=False, repr=False)

    def __init__(self, source: str | int | float) -> None:
        if isinstance(source, float) and not math.isfinite(source):
            raise FormulaError(f"expected a finite number, got {source}")
        text = str(source).strip()
        reader = _Reader(text)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "names", frozenset(reader.names))
        object.__setattr__(self, "_tree", reader.tree)

    def __str__(self) -> str:
        return self.text

    def evaluate(self, env: Mapping[str, Number]) -> Number:
        """The value with names replaced by env's; an int if all operands are and there is no `/`.

        Raises FormulaError for a name that env lacks, a division by zero, and a result that is not
        finite or beyond MAX_VALUE.
        """
        return _evaluate(self._tree, env, self.text)

    def with_definitions(self, definitions: Mapping[str, Formula]) -> Formula:
        """The formula with some names replaced by what they stand for; its text stays."""
        if not self.names & definitions.keys():
            return self
        same = object.__new__(Formula)
        tree = _replaced(self._tree, {name: each._tree for name, each in definitions.items()})
        object.__setattr__(same, "text", self.text)
        object.__setattr__(same, "names", frozenset(_names_in(tree)))
        object.__setattr__(same, "_tree", tree)
        return same

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Models accept a Formula, a number or text; they dump the text."""
        return core_schema.no_info_plain_validator_function(
            cls.of, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def of(cls, value: object) -> Formula:
        """A formula from a value of YAML. Raises FormulaError where it can't be one."""
        if isinstance(value, Formula):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise FormulaError(f"expected a number, a name or a formula, got {as_written(value)}")
        return cls(value)


_COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@dataclass(frozen=True)
class Relation:
    """Two formulas and how they compare: `Relation.read("H >= R")`."""

    left: Formula
    comparison: str
    right: Formula

    @classmethod
    def read(cls, text: object) -> Relation:
        """The relation that a text has. Raises FormulaError where it isn't one."""
        parts = re.split("(<=|>=|==|!=|<|>)", text) if isinstance(text, str) else ()
        if len(parts) != 3:
            known = " ".join(_COMPARISONS)
            raise FormulaError(
                f"expected two formulas and one of {known} between them, got {as_written(text)}"
            )
        return cls(Formula(parts[0]), parts[1], Formula(parts[2]))

    def __str__(self) -> str:
        return f"{self.left} {self.comparison} {self.right}"

    @property
    def names(self) -> frozenset[str]:
        """The names on both sides."""
        return self.left.names | self.right.names

    def holds(self, env: Mapping[str, Number]) -> bool:
        """Whether it is true with names replaced by env's; raises what `evaluate` does."""
        return _COMPARISONS[self.comparison](self.left.evaluate(env), self.right.evaluate(env))

    def with_definitions(self, definitions: Mapping[str, Formula]) -> Relation:
        """The relation with some names replaced by what they stand for."""
        left, right = (each.with_definitions(definitions) for each in (self.left, self.right))
        return Relation(left, self.comparison, right)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Models accept a Relation or its text; they dump the text."""
        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, Relation) else cls.read(value),
            serialization=core_schema.to_string_ser_schema(),
        )


class _Reader:
    """The tree of one text and its names, read by precedence climbing."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise FormulaError(
                f"expected a formula of at most {MAX_LENGTH} characters, got {len(text)}"
            )
        self.text = text
        self.names: set[str] = set()
        matches = [(str(match.lastgroup), match) for match in _TOKEN.finditer(text)]
        tokens = [_Token(kind, match[kind], match.start(kind)) for kind, match in matches]
        for token in tokens:
            if token.kind == "foreign":
                raise self._unexpected("a number, a name or an operator", token)
        self.tokens = tokens[::-1]  # the last is the next
        self.tree = self._expression(1)
        self._expect("", "an operator or the end")

    def _expression(self, depth: int, outside: int = 0) -> _Node:
        """An operand, with the operators behind it that bind more tightly than those `outside`."""
        left = self._operand(depth)
        while (binds := _BINDS.get(self.tokens[-1].text, 0)) > outside:
            token = self.tokens.pop()
            if token.text == "**":  # right-associative, and a sign may follow
                right = self._expression(depth + 1, _BINDS["*"])
            else:
                right = self._expression(depth, binds)
            left = _Node(token.text, (left, right))
        return left

    def _operand(self, depth: int) -> _Node:
        kind, text, _ = token = self.tokens.pop()
        if depth > MAX_DEPTH:
            raise FormulaError(f"expected at most {MAX_DEPTH} levels of nesting")
        if kind == "number":
            number = int(text) if text.isdigit() else float(text)
            if number > MAX_VALUE:
                raise FormulaError(f"expected at most 2**64, got {text!r}")
            return _Node(number, ())
        if kind == "name" and self.tokens[-1].text == "(":
            return self._call(text, depth)
        if kind == "name":
            self.names.add(text)
            return _Node(text, ())
        if text == "-":
            return _Node("negate", (self._expression(depth + 1, _BINDS["*"]),))
        if text == "(":
            inner = self._expression(depth + 1)
            self._expect(")")
            return inner
        raise self._unexpected("a number, a name or '('", token)

    def _call(self, name: str, depth: int) -> _Node:
        if name not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise FormulaError(
                f"expected one of the functions {known}, got {name!r} in {self.text!r}"
            )
        operands: list[_Node] = []
        while not operands or self.tokens[-1].text == ",":
            self.tokens.pop()  # the bracket or the comma
            operands.append(self._expression(depth + 1))
        self._expect(")")
        fewest, most = FUNCTIONS[name]
        if len(operands) < fewest or (most is not None and len(operands) > most):
            wanted = f"{fewest}" if most == fewest else f"{fewest} or more"
            raise FormulaError(
                f"expected {wanted} arguments of {name}, got {len(operands)} in {self.text!r}"
            )
        return _Node(name, tuple(operands))

    def _expect(self, text: str, wanted: str = "") -> None:
        token = self.tokens.pop()
        if token.text != text:
            raise self._unexpected(wanted or repr(text), token)

    def _unexpected(self, wanted: str, token: _Token) -> FormulaError:
        came = "the end" if token.kind == "end" else repr(token.text)
        return FormulaError(
            f"expected {wanted} at character {token.position + 1} of {self.text!r}, got {came}"
        )


def _replaced(node: _Node, trees: Mapping[str, _Node]) -> _Node:
    """The tree with names replaced by other trees."""
    if node.operands:
        return node._replace(operands=tuple(_replaced(each, trees) for each in node.operands))
    return trees.get(node.symbol, node) if isinstance(node.symbol, str) else node


def _names_in(node: _Node) -> set[str]:
    if node.operands:
        return {name for each in node.operands for name in _names_in(each)}
    return {node.symbol} if isinstance(node.symbol, str) else set()


def _evaluate(node: _Node, env: Mapping[str, Number], text: str) -> Number:
    symbol, operands = node
    if not isinstance(symbol, str):
        return symbol
    if not operands:
        if symbol not in env:
            known = ", ".join(env) or "no names"
            raise FormulaError(f"expected {known} in {text!r}, got the name {symbol!r}")
        return env[symbol]
    values = [_evaluate(operand, env, text) for operand in operands]
    came = "a number beyond 2**64"
    try:
        value = _OPERATORS[symbol](*values)
        if abs(value) <= MAX_VALUE:  # False for nan, too
            return value
    except OverflowError:
        pass
    except ZeroDivisionError:
        came = "a division by zero"
    except ArithmeticError as error:
        came = str(error)
    raise FormulaError(f"expected a value from {text!r}, got {came}")


def as_written(value: object) -> str:
    """A value as its author wrote it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
