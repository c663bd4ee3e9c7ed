"""A kernel's source as the interpreter runs it: Python where the compiler has its own meaning.

The compiler gives `and`, `or`, `not`, chained comparisons, `min` and `max` an elementwise meaning
on blocks; Python asks a block for one truth value, and the interpreter answers True. They are
rewritten to calls, as is assignment, which makes a tensor of a number.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import triton.language as tl
from triton.runtime import interpreter as upstream

kernel_code: set[types.CodeType] = set()  # of every rewritten kernel and device function


class Transformer(ast.NodeTransformer):
    """Rewrites the body of one function."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """`a and b` -> `_logical("logical_and", lambda: a, lambda: b)`."""
        self.generic_visit(node)
        method = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        return _logical_call(node, method, node.values)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a < b < c` -> `a < b and b < c`, rewritten; operands have no side effects here."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        terms = [node.left, *node.comparators]
        pairs = [
            ast.copy_location(ast.Compare(terms[i], [op], [terms[i + 1]]), node)
            for i, op in enumerate(node.ops)
        ]
        return _logical_call(node, "logical_and", pairs)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`not a` -> `_logical_not(a)`."""
        self.generic_visit(node)
        return _call("_logical_not", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`min(a, b)` -> `_extremum(min, a, b)`: what `min` is there is seen when it runs."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            return _call("_extremum", node, node.func, *node.args, keywords=node.keywords)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """`x = value` -> `x = _to_tensor(value)`."""
        self.generic_visit(node)
        if len(node.targets) > 1:
            message = ast.Constant("a = b = value is not supported: assign one name at a time")
            return ast.copy_location(ast.Raise(_call("TypeError", node, message), None), node)
        node.value = _call("_to_tensor", node, node.value)
        return node


def _call(name: str, at: ast.AST, *args: ast.expr, keywords: list | None = None) -> ast.Call:
    call = ast.Call(func=ast.Name(name, ast.Load()), args=list(args), keywords=keywords or [])
    return ast.copy_location(call, at)


def _logical_call(at: ast.AST, method: str, operands: list[ast.expr]) -> ast.Call:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    thunks = [ast.Lambda(args=nothing, body=operand) for operand in operands]
    return _call("_logical", at, ast.Constant(method), *thunks)


def _logical(method: str, *operands: Callable[[], Any]) -> Any:
    """`and` or `or` with the compiler's meaning: only compile-time values cut evaluation short."""
    dynamic: list[tl.tensor] = []
    value = None
    for operand in operands:
        value = operand()
        if isinstance(value, tl.tensor):
            dynamic.append(value)
        elif bool(value) is (method == "logical_or"):
            return value
    if not dynamic:
        return value
    return functools.reduce(lambda right, left: getattr(left, method)(right), reversed(dynamic))


def _logical_not(value: Any) -> Any:
    return value.__not__() if isinstance(value, tl.tensor) else not value


def _extremum(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """The built-in min and max by element where a tensor takes part."""
    builtin = function is builtins.min or function is builtins.max
    if not builtin or len(args) < 2 or not any(isinstance(a, tl.tensor) for a in args):
        return function(*args, **kwargs)
    return functools.reduce(tl.minimum if function is builtins.min else tl.maximum, args)


def _to_tensor(value: Any) -> Any:
    return upstream.interpreter_semantic.to_tensor(value, False)


_HELPERS = {
    "_logical": _logical,
    "_logical_not": _logical_not,
    "_extremum": _extremum,
    "_to_tensor": _to_tensor,
}


def definition_offset(lines: list[str]) -> int:
    """How many lines of a function's source, decorators and comments, come before its `def`."""
    return next((i for i, line in enumerate(lines) if line.strip().startswith("def ")), 0)


class Rewriter(upstream.FunctionRewriter):
    """Upstream's rewriter, made not to write into the student's module.

    `shadows` maps the id of an object to what stands for it while a kernel runs: for what the
    student imported from triton.language by name.
    """

    ast_transformer = Transformer()

    def __init__(self, fn: Callable, shadows: Mapping[int, Any]) -> None:
        super().__init__(fn)
        self.shadows = shadows

    def _find_def(self, lines: list[str]) -> int:
        """The line of the first `def`, the one from which line numbers are counted."""
        return definition_offset(lines) + 1

    def _compile_and_exec(self, tree: ast.Module) -> Callable:
        """The rewritten function over the student's own globals and closure.

        What it needs besides is reached through cells of a closure.
        """
        own = dict(zip(self.fn.__code__.co_freevars, self.fn.__closure__ or (), strict=True))
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        given = {name: helper for name, helper in _HELPERS.items() if name in used}
        for name in used - own.keys():
            value = self.fn.__globals__.get(name)
            if id(value) in self.shadows:
                given[name] = self.shadows[id(value)]
        made = self._make(tree, given, own)
        closure = tuple(
            own.get(name, cell)
            for name, cell in zip(made.__code__.co_freevars, made.__closure__ or (), strict=True)
        )
        rewritten = types.FunctionType(
            made.__code__, self.fn.__globals__, made.__name__, self.fn.__defaults__, closure
        )
        rewritten.__kwdefaults__ = self.fn.__kwdefaults__
        rewritten.__annotations__ = self.fn.__annotations__
        kernel_code.add(made.__code__)
        return rewritten

    def _make(self, tree: ast.Module, given: dict, own: dict) -> types.FunctionType:
        function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
        # Defaults and annotations are taken from the original: evaluated again, they might differ.
        function.args.defaults = []
        function.args.kw_defaults = [None] * len(function.args.kwonlyargs)
        function.returns = None
        for argument in ast.walk(function.args):
            if isinstance(argument, ast.arg):
                argument.annotation = None
        names = [*given, *own]
        maker = ast.parse(f"def _make({', '.join(names)}):\n    pass")
        maker.body[0].body = [function, ast.Return(ast.Name(function.name, ast.Load()))]
        ast.fix_missing_locations(maker)
        code = compile(maker, self.filename, "exec", dont_inherit=True)
        namespace: dict[str, Any] = {}
        exec(code, self.fn.__globals__, namespace)
        return namespace["_make"](*given.values(), *([None] * len(own)))
