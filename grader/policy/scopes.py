"""Which names belong to which function, class or module, found in one walk over the tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
MODULE = 0


@dataclass
class Scope:
    """A module, function or class, and the names bound in it."""

    number: int
    node: ast.Module | ast.ClassDef | Function
    parent: int  # of the module: -1
    names: set[str] = field(default_factory=set)
    borrowed: dict[str, str] = field(default_factory=dict)  # name -> "global" or "nonlocal"
    inner_names: set[str] = field(default_factory=set)  # of comprehensions
    shared: set[str] = field(default_factory=set)  # names that another scope may bind anew
    methods: dict[str, int] = field(default_factory=dict)  # of a class: name -> scope

    @property
    def is_function(self) -> bool:
        return isinstance(self.node, Function)


class Scopes:
    """Every scope of a module that grading can run."""

    def __init__(self, module: ast.Module) -> None:
        self.all: list[Scope] = [Scope(MODULE, module, -1)]
        self.of: dict[ast.AST, int] = {module: MODULE}
        self._fill(MODULE)
        self._share()

    def __getitem__(self, number: int) -> Scope:
        return self.all[number]

    def _fill(self, number: int) -> None:
        """Collect names and inner scopes; without recursion, since depth is the student's."""
        waiting = [number]
        while waiting:
            scope = self.all[waiting.pop()]
            for node in _own_nodes(scope.node):
                if isinstance(node, _SCOPES):
                    inner = Scope(len(self.all), node, scope.number)
                    self.all.append(inner)
                    self.of[node] = inner.number
                    waiting.append(inner.number)
                    if not isinstance(node, ast.Lambda):
                        scope.names.add(node.name)
                    if isinstance(scope.node, ast.ClassDef) and not isinstance(node, ast.Lambda):
                        scope.methods[node.name] = inner.number
                _bind(scope, node)
            if scope.is_function:
                scope.names |= {argument.arg for argument in parameters(scope.node)}
            scope.names -= scope.borrowed.keys()

    def _share(self) -> None:
        for scope in self.all:
            for name, kind in scope.borrowed.items():
                self.all[self.owner(scope.number, name, kind)].shared.add(name)

    def owner(self, number: int, name: str, kind: str) -> int:
        """The scope that a `global` or `nonlocal` name of scope `number` belongs to."""
        if kind == "global":
            return MODULE
        parent = self.all[number].parent
        while parent > MODULE:
            scope = self.all[parent]
            if scope.is_function and name in scope.names:
                return parent
            parent = scope.parent
        return MODULE


def is_main_test(test: ast.expr) -> bool:
    """Whether `test` can only hold in a script: `__name__ == "__main__"`, maybe `and` more."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return is_main_test(test.values[0])
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    sides = (test.left, test.comparators[0])
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    main = any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)
    return isinstance(test.ops[0], ast.Eq) and named and main


def parameters(node: Function) -> list[ast.arg]:
    """Every parameter, positional ones first, then keyword-only, then *args and **kwargs."""
    given = node.args
    starred = [argument for argument in (given.vararg, given.kwarg) if argument]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *starred]


def bound_names(statements: list[ast.stmt]) -> set[str]:
    """The names that `statements` may bind in their own scope."""
    scope = Scope(-1, ast.Module(statements, []), -1)
    for node in _own_nodes(scope.node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            scope.names.add(node.name)
        _bind(scope, node)
    return scope.names


def _bind(scope: Scope, node: ast.AST) -> None:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        scope.names.add(node.id)
    elif isinstance(node, ast.alias):
        scope.names.add((node.asname or node.name).split(".")[0])
    elif isinstance(node, ast.Global | ast.Nonlocal):
        kind = "global" if isinstance(node, ast.Global) else "nonlocal"
        scope.borrowed.update(dict.fromkeys(node.names, kind))
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        scope.names.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        scope.names.add(node.rest)
    elif isinstance(node, ast.comprehension):
        scope.inner_names |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}


def _own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run in the scope of `root`, and the scopes begun in it (not their insides).

    A function's decorators, defaults and annotations run outside it; a comprehension's targets are
    its own.
    """
    waiting = list(_inside(root))
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _SCOPES):
            waiting += _outside(node)
        elif isinstance(node, ast.If) and is_main_test(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.comprehension):
            waiting += [node.iter, *node.ifs]
        else:
            waiting += ast.iter_child_nodes(node)


def _inside(root: ast.AST) -> list[ast.AST]:
    if isinstance(root, ast.Lambda):
        return [root.body]
    return list(root.body)


def _outside(node: ast.AST) -> list[ast.AST]:
    """What of a function or class definition runs in the scope around it."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *(word.value for word in node.keywords)]
    found: list[ast.AST | None] = [*node.args.defaults, *node.args.kw_defaults]
    found += [argument.annotation for argument in parameters(node)]
    if not isinstance(node, ast.Lambda):
        found += [*node.decorator_list, node.returns]
    return [part for part in found if part is not None]
