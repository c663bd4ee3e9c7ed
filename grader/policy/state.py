"""What a reading has found out so far, and the breaches it has met."""

from __future__ import annotations

import ast
from collections.abc import Collection

from grader.policy.findings import Rules, Violation, instead_of
from grader.policy.scopes import MODULE, Scopes
from grader.policy.values import (
    NOTHING,
    Class,
    Code,
    Kernel,
    Object,
    Values,
    callables,
)

MAX_STEPS = 300_000  # an honest file of 1000 lines needs a fifth
_LONGEST = 60  # characters of the source that a message quotes


class TooInvolved(Exception):
    """The file takes more steps to read than is sensible."""


class State:
    """Grows only: what a name, an attribute or a result may be is never taken back."""

    def __init__(self, source: str, module: ast.Module, rules: Rules) -> None:
        self.lines = source.splitlines()
        self.rules = rules
        self.scopes = Scopes(module)
        self.own_attributes = _attributes_of_own(module, self.scopes)
        self.found: dict[tuple[int, int, str], Violation] = {}
        self.ever: dict[tuple[int, str], Values] = {}  # what a name of a scope may be at any time
        self.attributes: dict[str, Values] = {}  # by name, whatever the object
        self.returned: dict[int, Values] = {}
        self.running: dict[tuple[int, bool], None] = {}  # (scope, as a kernel), in order
        self.properties: set[int] = set()
        self.static: set[int] = set()  # static methods
        classes = [one for one in self.scopes.all if isinstance(one.node, ast.ClassDef)]
        self.class_names = frozenset().union(*(one.names for one in classes))
        # Whether a message that is raised may be read again, by the file itself.
        self.catches = "__exit__" in self.class_names or _has_try(module)
        self.bound: dict[tuple[int, int], set[str]] = {}  # names that a block binds
        self.changed = False
        self.steps = 0
        # Where the reading is.
        self.number = MODULE
        self.env: dict[str, Values] = {}
        self.overlays: list[dict[str, Values]] = []  # names of comprehensions around
        self.in_kernel = False
        self.talking = 0  # inside a message: print, raise, assert

    def report(self, rule: str, node: ast.AST, message: str, instead: str = "") -> None:
        """Note a breach of `rule` at `node`."""
        line = getattr(node, "lineno", 1)
        column = self._column(line, getattr(node, "col_offset", 0))
        self.found.setdefault(
            (line, column, rule),
            Violation(rule, line, column, message, instead or instead_of(rule)),
        )

    def _column(self, line: int, offset: int) -> int:
        """From 1 and in characters, where the tree counts bytes."""
        if not 0 < line <= len(self.lines):
            return offset + 1
        return (
            len(self.lines[line - 1].encode(errors="replace")[:offset].decode(errors="ignore")) + 1
        )

    def quote(self, node: ast.AST) -> str:
        """The source of `node` in one short line."""
        try:
            text = " ".join(ast.unparse(node).split())
        except RecursionError:
            return "this expression"
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

    def step(self, weight: int = 1) -> None:
        """Count the work done. Raises TooInvolved."""
        self.steps += weight
        if self.steps > MAX_STEPS:
            raise TooInvolved

    # --- what is known --------------------------------------------------------------------------

    def remember(self, scope: int, name: str, values: Values) -> None:
        """`name` of `scope` may be `values` too."""
        known = self.ever.get((scope, name), NOTHING)
        self.step(1 + len(values) // 4)
        if not values <= known:
            self.ever[scope, name] = known | values
            self.changed = True

    def remember_attribute(self, name: str, values: Values) -> None:
        known = self.attributes.get(name, NOTHING)
        self.step(1 + len(values) // 4)
        if not values <= known:
            self.attributes[name] = known | values
            self.changed = True

    def remember_result(self, scope: int, values: Values) -> None:
        known = self.returned.get(scope, NOTHING)
        if not values <= known:
            self.returned[scope] = known | values
            self.changed = True

    def run(self, values: Values) -> None:
        """Whatever code is among `values` may run."""
        found = callables(values)
        self.step(1 + len(found) // 4)
        for atom in found:
            if isinstance(atom, Code):
                self._run_scope(atom.scope, False)
            elif isinstance(atom, Kernel):
                self._run_scope(atom.scope, True)
            elif isinstance(atom, Class | Object):
                for method in self.scopes[atom.scope].methods.values():
                    if self.scopes[method].is_function:
                        self._run_scope(method, False)

    def _run_scope(self, scope: int, as_kernel: bool) -> None:
        if (scope, as_kernel) not in self.running:
            self.running[scope, as_kernel] = None
            self.changed = True

    def touch(self, values: Values) -> Values:
        """`values` read by code that runs for the entry: functions among them may run too."""
        if self.number != MODULE or self.in_kernel:
            self.run(values)
        return values

    def lookup(self, name: str) -> Values:
        """What `name` may be here, as Python resolves it."""
        found = NOTHING
        number, here = self.number, True
        while number >= MODULE:
            scope = self.scopes[number]
            kind = scope.borrowed.get(name) if here else None
            if kind:
                number, here = self.scopes.owner(number, name, kind), False
                continue
            visible = here or scope.is_function or number == MODULE
            if visible and name in scope.names:
                found |= self._known(number, name, here)
                if scope.is_function:
                    return found
            elif not here and name in scope.inner_names:
                found |= self.ever.get((number, name), NOTHING)
            number, here = scope.parent, False
        return found

    def _known(self, number: int, name: str, here: bool) -> Values:
        ever = self.ever.get((number, name), NOTHING)
        if not here or name not in self.env:
            return ever
        now = self.env[name]
        return now | ever if name in self.scopes[number].shared else now

    def owner(self, name: str) -> int:
        """The scope whose `name` is meant here; the module for names bound nowhere."""
        number = self.number
        kind = self.scopes[number].borrowed.get(name)
        if kind:
            return self.scopes.owner(number, name, kind)
        while number > MODULE:
            scope = self.scopes[number]
            if name in scope.names and (scope.is_function or number == self.number):
                return number
            number = scope.parent
        return MODULE

    def is_bound(self, name: str) -> bool:
        """Whether the file binds `name` here at all: if so, what to may come to light later."""
        return name in self.scopes[self.owner(name)].names

    # --- what is allowed ------------------------------------------------------------------------

    def torch_allows(self, *names: str) -> bool:
        """Whether the variant may compute with one of these torch functions or methods."""
        return "*" in self.rules.torch or not self.rules.torch.isdisjoint(names)

    def computes(self, node: ast.AST, message: str, *names: str, instead: str = "") -> None:
        """Report computing with torch, unless the variant may, or this is a kernel."""
        if not self.in_kernel and not self.torch_allows(*names):
            self.report("torch", node, message, instead)

    def may_import(self, module: str) -> bool:
        """Whether the instructor allowed `module`, or a package it is in."""
        parts = module.split(".")
        return any(".".join(parts[:n]) in self.rules.imports for n in range(1, len(parts) + 1))

    def attribute_values(self, name: str) -> Values:
        """What an attribute of the file's own objects may be; a property is what it returns."""
        values = self.attributes.get(name, NOTHING)
        found = {a for a in values if not (isinstance(a, Code) and a.scope in self.properties)}
        for atom in values - found:
            self.run(frozenset({atom}))
            found |= self.returned.get(atom.scope, NOTHING)
        return frozenset(found)


def _has_try(module: ast.Module) -> bool:
    return any(type(node).__name__ in {"Try", "TryStar"} for node in ast.walk(module))


def _attributes_of_own(module: ast.Module, scopes: Scopes) -> Collection[str]:
    """Every attribute name that the file itself gives to an object or a class."""
    names = {
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for scope in scopes.all:
        if isinstance(scope.node, ast.ClassDef):
            names |= scope.names
    return names
