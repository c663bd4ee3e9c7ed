"""Wrong formulas: an oracle's definition with one part left out, exchanged or moved.

An output that equals a wrong formula's shows which mistake the kernel makes. The definition's
source is changed in one place at a time, so an exercise needs no list of its own.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from grader.cases.oracle import Oracle

_SWAPPED_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
_SWAPPED_CALLS = {
    "mean": ("sum",),
    "rsqrt": ("sqrt", "reciprocal"),
    "exp": ("exp2",),
    "sigmoid": ("tanh",),
    "square": ("abs",),
    "logsumexp": ("amax", "sum"),
}
MOST_WORDS = 60  # characters of a formula that a message quotes


@dataclass(frozen=True)
class WrongFormula:
    """A definition with one change; `what` says which, as a sentence without its stop."""

    what: str
    function: Callable[..., Any]


@lru_cache(maxsize=32)
def of(oracle: Oracle) -> tuple[WrongFormula, ...]:
    """The wrong formulas of an oracle; none where its source can't be read."""
    definition = oracle.definition
    try:
        trees = [_tree(function) for function in _with_helpers(definition)]
    except (OSError, SyntaxError):
        return ()
    formulas = []
    for tree in trees:
        for what, changed in _changes(tree):
            namespace = dict(definition.__globals__)
            for other in trees:
                chosen = changed if other is tree else other
                module = ast.fix_missing_locations(ast.Module([chosen], []))
                exec(compile(module, "<wrong formula>", "exec"), namespace)  # the staff's source
            formulas.append(WrongFormula(what, namespace[definition.__name__]))
    return tuple(formulas)


def _with_helpers(definition: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A function and the functions of its file that it calls, directly or not."""
    formulas = [definition]
    for function in formulas:  # grows meanwhile
        known = function.__globals__
        for name in function.__code__.co_names:
            other = known.get(name)
            if inspect.isfunction(other) and other.__globals__ is known and other not in formulas:
                formulas.append(other)
    return formulas


def _tree(function: Callable[..., Any]) -> ast.FunctionDef:
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    texts = [e for e in tree.body if isinstance(e, ast.Expr) and isinstance(e.value, ast.Constant)]
    tree.body = [each for each in tree.body if each not in texts]
    return tree


def _changes(tree: ast.FunctionDef) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Each change of one expression: what it does in words, and the function with it."""
    nodes = [node for statement in tree.body for node in ast.walk(statement)]
    for index, node in enumerate(nodes):
        if not isinstance(node, ast.expr):
            continue
        for what, instead in (*_instead_of(node), *_before_the_mean(node, nodes)):
            changed = copy.deepcopy(tree)
            twins = [each for statement in changed.body for each in ast.walk(statement)]
            yield what, _Replaced(twins[index], copy.deepcopy(instead)).visit(changed)


class _Replaced(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)


def _instead_of(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Expressions that a mistake may have in the place of this one."""
    match node:
        case ast.BinOp():
            yield from _of_operation(node)
        case ast.Call(ast.Attribute(value, name)):
            yield from _of_call(node, value, name)
        case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield f"the minus of {_quoted(node)} is missing", operand
        case ast.Constant(float(number)):
            for wrong in (number * 10, number / 10, -number, 1.0, 0.0):
                if wrong != number:
                    yield f"the number is {wrong:.6g} and not {number:g}", ast.Constant(wrong)


def _of_operation(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    left, right = node.left, node.right
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        yield f"{_quoted(right)} is left out of {_quoted(node)}", left
        if not isinstance(node.op, ast.Div):
            yield f"{_quoted(left)} is left out of {_quoted(node)}", right
        swapped = ast.BinOp(left, _SWAPPED_OPERATORS[type(node.op)](), right)
        yield f"{_quoted(swapped)} stands where {_quoted(node)} belongs", swapped
    if isinstance(node.op, (ast.Sub, ast.Div)):
        turned = ast.BinOp(right, node.op, left)
        yield f"{_quoted(turned)} stands where {_quoted(node)} belongs", turned
    if isinstance(node.op, ast.Pow):
        for step in (-1, 1):
            power: ast.expr = ast.BinOp(right, ast.Add(), ast.Constant(step))
            if isinstance(right, ast.Constant) and isinstance(right.value, int):
                power = ast.Constant(right.value + step)
            wrong: ast.expr = ast.BinOp(left, ast.Pow(), power)
            yield f"{_quoted(wrong)} stands where {_quoted(node)} belongs", wrong
    if isinstance(node.op, ast.Sub):  # a bound, such as that of a mask
        for wrong in (
            ast.Constant(0),
            ast.BinOp(node, ast.Sub(), ast.Constant(1)),
            ast.BinOp(node, ast.Add(), ast.Constant(1)),
        ):
            yield f"{_quoted(wrong)} stands where {_quoted(node)} belongs", wrong


def _before_the_mean(node: ast.expr, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """A term that is added to a sum before the division which makes a mean of it."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return
    for each in nodes:
        match each:
            case ast.Assign(
                [ast.Name(name)], ast.Call(ast.Attribute(summed, "mean"), keywords=[*given])
            ) if isinstance(node.left, ast.Name) and node.left.id == name:
                axis = next((word.value for word in given if word.arg == "dim"), None)
                if axis is not None:
                    shape = ast.Attribute(summed, "shape", ast.Load())
                    length = ast.Subscript(shape, axis, ast.Load())
                    divided = ast.BinOp(node.right, ast.Div(), length)
                    what = f"{_quoted(node.right)} is added before the mean's division, not after"
                    yield what, ast.BinOp(node.left, ast.Add(), divided)


def _of_call(node: ast.Call, value: ast.expr, name: str) -> Iterator[tuple[str, ast.expr]]:
    """Changes of the call of `value.name`, a method or a function of torch."""
    is_method = not (isinstance(value, ast.Name) and value.id == "torch")

    def called(other: str, operand: ast.expr | None = None) -> ast.Call:
        """The call of another function, with another operand where one is given."""
        of = operand if is_method and operand else value
        given = [operand, *node.args[1:]] if operand and not is_method else node.args
        return ast.Call(ast.Attribute(of, other, ast.Load()), given, node.keywords)

    for other in _SWAPPED_CALLS.get(name, ()):
        yield f"`{other}` stands where `{name}` belongs", called(other)
    operand = value if is_method else node.args[0] if node.args else None
    if operand is None:
        return
    yield f"`{name}` is left out of {_quoted(node)}", operand
    match operand:
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() as sign, right):
            outside = ast.BinOp(called(name, left), sign, right)
            yield f"{_quoted(right)} stands outside `{name}`, not inside", outside
            if name == "rsqrt":
                below = ast.BinOp(called("sqrt", left), sign, right)
                what = f"{_quoted(right)} is added to the root, not under it"
                yield what, ast.BinOp(ast.Constant(1.0), ast.Div(), below)


def _quoted(node: ast.expr) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).replace("torch.", "")
    return f"`{text}`" if len(text) <= MOST_WORDS else f"`{text[: MOST_WORDS - 1]}…`"
