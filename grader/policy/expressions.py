"""Expressions: what each may be, and which of them break a rule."""

from __future__ import annotations

import ast
from collections.abc import Callable

from grader.policy import allowed
from grader.policy.names import Names, is_dunder
from grader.policy.scopes import parameters
from grader.policy.values import (
    NOTHING,
    OTHER,
    UNKNOWN,
    Box,
    Class,
    Code,
    Kernel,
    Method,
    Object,
    Path,
    Tensor,
    Values,
    box,
    deep,
    elements,
    has_tensor,
    tensor,
    tensors,
    union,
)


class Expressions(Names):
    """Evaluates expressions to `Values`."""

    def call(self, node: ast.Call) -> Values:
        raise NotImplementedError  # Calls

    def value(self, node: ast.expr) -> Values:
        """What `node` may be."""
        self.step()
        read = _READERS.get(type(node))
        return read(self, node) if read else self._any(node)

    def values(self, nodes: list[ast.expr]) -> Values:
        return union(map(self.value, nodes))

    def _any(self, node: ast.AST) -> Values:
        """A kind of expression that has no meaning of its own here."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif not isinstance(child, ast.expr_context):
                self._any(child)
        return UNKNOWN

    # --- operators ------------------------------------------------------------------------------

    def operate(self, operator: ast.AST, sides: list[Values], node: ast.AST) -> Values:
        """The result of an operator; report it on tensors."""
        sign, method = allowed.OPERATORS.get(type(operator).__name__, ("", ""))
        formats = isinstance(operator, ast.Mod) and has_tensor(sides[-1])
        if any(map(tensors, sides)) or formats:
            message = f"{self.quote(node)}: {sign} on a tensor computes with PyTorch"
            self.computes(node, message, method)
            return tensor("whole")
        kept = frozenset(a for a in union(sides) if isinstance(a, Box | Object | Class | Path))
        kept = frozenset(a for a in kept if not isinstance(a, Path))
        unknown = UNKNOWN if union(sides) >= UNKNOWN else NOTHING
        return kept | unknown or OTHER

    def truth(self, values: Values, node: ast.AST) -> None:
        """`values` where only their truth counts."""
        if tensors(values):
            self.computes(
                node, f"whether {self.quote(node)} is true reads a tensor's value", "bool"
            )

    def _binary(self, node: ast.BinOp) -> Values:
        # A long chain of one operator is as deep as it is long: not by recursion.
        chained: list[ast.BinOp] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            chained.append(left)
            left = left.left
        values = self.value(left)
        for link in reversed(chained):
            self.step()
            values = self.operate(link.op, [values, self.value(link.right)], link)
        return values

    def _unary(self, node: ast.UnaryOp) -> Values:
        values = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            self.truth(values, node.operand)
            return OTHER
        return self.operate(node.op, [values], node)

    def _compare(self, node: ast.Compare) -> Values:
        sides = [self.value(node.left), *map(self.value, node.comparators)]
        for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
            if not isinstance(operator, ast.Is | ast.IsNot):
                if isinstance(operator, ast.In | ast.NotIn | ast.Eq | ast.NotEq):
                    right = deep(right)
                self.operate(operator, [left, right], node)
        return OTHER

    def _boolean(self, node: ast.BoolOp) -> Values:
        sides = [self.value(side) for side in node.values]
        for values, side in zip(sides[:-1], node.values, strict=False):
            self.truth(values, side)
        return union(sides)

    def _conditional(self, node: ast.IfExp) -> Values:
        self.truth(self.value(node.test), node.test)
        return self.value(node.body) | self.value(node.orelse)

    # --- containers -----------------------------------------------------------------------------

    def _container(self, node: ast.Tuple | ast.List | ast.Set) -> Values:
        return box(union(self._spread(element) for element in node.elts))

    def _spread(self, node: ast.expr) -> Values:
        if isinstance(node, ast.Starred):
            return self.iterate(self.value(node.value))
        return self.value(node)

    def _starred(self, node: ast.Starred) -> Values:
        return box(self.iterate(self.value(node.value)))

    def _dict(self, node: ast.Dict) -> Values:
        found = NOTHING
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                found |= elements(self.value(value))
            else:
                self.as_key(self.value(key), key)
                found |= self.value(value)
        return box(found)

    def as_key(self, values: Values, node: ast.AST) -> None:
        """`values` as the key of a container of Python's: a tensor's identity, or its value."""
        if has_tensor(values) and not self.in_kernel:
            self.report(
                "replay", node, f"{self.quote(node)}: a tensor as a key tells which one came"
            )

    def iterate(self, values: Values) -> Values:
        """What comes out of iterating over `values`."""
        found = elements(values)
        for atom in values:
            if isinstance(atom, Object):
                for name in self.fields(atom.scope):
                    found |= self.attributes.get(name, NOTHING)
                for name in ("__iter__", "__next__", "__getitem__"):
                    method = self.scopes[atom.scope].methods.get(name)
                    result = self.returned.get(method, NOTHING) if method else NOTHING
                    found |= result | elements(result)
        return found

    def fields(self, scope: int) -> list[str]:
        """The annotated names of a class, in order: the fields of a dataclass or NamedTuple."""
        return [
            statement.target.id
            for statement in self.scopes[scope].node.body
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        ]

    def _subscript(self, node: ast.Subscript) -> Values:
        base, index = self.value(node.value), self.value(node.slice)
        found = NOTHING
        for atom in base:
            if isinstance(atom, Kernel):
                self.run(index | {atom})
                found |= {Kernel(atom.scope, True)}
            elif isinstance(atom, Tensor):
                if has_tensor(index):
                    message = f"{self.quote(node)} gathers elements with PyTorch"
                    self.computes(node, message, "index_select", "gather")
                found |= tensor("part")
            elif isinstance(atom, Path | Class):
                found |= {atom}
            elif isinstance(atom, Object):
                found |= self.iterate(frozenset({atom}))
            else:
                found |= elements(frozenset({atom}))
        if not any(isinstance(atom, Kernel | Tensor) for atom in base):
            self.as_key(index, node.slice)
        slice_of_box = isinstance(node.slice, ast.Slice)
        kept = frozenset(a for a in base if isinstance(a, Box)) if slice_of_box else NOTHING
        return self.touch(found | kept or UNKNOWN)

    def _slice(self, node: ast.Slice) -> Values:
        return self.values([part for part in (node.lower, node.upper, node.step) if part]) or OTHER

    # --- the rest -------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> Values:
        return OTHER

    def _lambda(self, node: ast.Lambda) -> Values:
        scope = self.scopes.of.get(node)
        if scope is None:
            return UNKNOWN
        self.defaults(node, scope)
        return self.touch(frozenset({Code(scope)}))

    def defaults(
        self, node: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef, scope: int
    ) -> None:
        """Read the defaults of a function: they run where it is defined."""
        for parameter in parameters(node):
            if is_dunder(parameter.arg):
                message = f"{parameter.arg} is one of the interpreter's own names"
                self.report("dunder", parameter, message)
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        names = positional[len(positional) - len(given.defaults) :] + given.kwonlyargs
        for argument, default in zip(names, [*given.defaults, *given.kw_defaults], strict=True):
            if default is not None:
                self.remember(scope, argument.arg, self.value(default))

    def _named(self, node: ast.NamedExpr) -> Values:
        values = self.value(node.value)
        self.assign_name(node.target.id, values, node.target)
        return values

    def assign_name(self, name: str, values: Values, node: ast.AST) -> None:
        """Bind `name` here."""
        in_class = isinstance(self.scopes[self.number].node, ast.ClassDef)
        usual = allowed.DUNDER_NAMES_SET
        if in_class and isinstance(node, ast.FunctionDef):
            usual |= allowed.DUNDER_METHODS
        if is_dunder(name) and name not in usual:
            self.report("dunder", node, f"{name} is one of the interpreter's own names")
        owner = self.owner(name)
        self.remember(owner, name, values)
        if owner == self.number:
            self.env[name] = values
        if in_class:
            self.remember_attribute(name, values)

    def assign(
        self, target: ast.expr, values: Values, bind: Callable[[str, Values, ast.AST], None]
    ) -> None:
        """Bind `target`, of any form, to `values`; `bind` takes the names in it."""
        if isinstance(target, ast.Name):
            bind(target.id, values, target)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = self.iterate(values)
            for element in target.elts:
                self.assign(element, parts, bind)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, box(values), bind)
        elif isinstance(target, ast.Attribute):
            self.store_attribute(target, values)
        elif isinstance(target, ast.Subscript):
            self.store_item(target, values)

    def store_attribute(self, target: ast.Attribute, values: Values) -> None:
        base = self.chain(target.value)
        self.check_private(base, target)
        foreign = [a for a in base if isinstance(a, Path | Tensor | Kernel | Method)]
        own = [a for a in base if isinstance(a, Object | Class | Code)]
        if foreign or (not own and base and target.attr not in allowed.SETTABLE):
            self.report(
                "monkeypatch", target, f"{self.quote(target)} = ... changes what isn't its own"
            )
        self.remember_attribute(target.attr, values)

    def store_item(self, target: ast.Subscript, values: Values) -> None:
        base, index = self.value(target.value), self.value(target.slice)
        if any(isinstance(atom, Path | Kernel | Code | Class) for atom in base):
            self.report(
                "monkeypatch", target, f"{self.quote(target)} = ... changes what isn't its own"
            )
        slices = any(
            isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...)
            for part in [target.slice, *getattr(target.slice, "elts", [])]
        )
        if tensors(base) or (slices and base <= UNKNOWN):
            message = f"{self.quote(target)} = ... writes to a tensor with PyTorch"
            self.computes(
                target, message, "copy_", instead="Write it in your kernel, with tl.store."
            )
        else:
            self.as_key(index, target.slice)
        self.absorb(target.value, values)

    def absorb(self, container: ast.expr, values: Values) -> None:
        """`values` now lie in `container` too."""
        if isinstance(container, ast.Name):
            owner = self.owner(container.id)
            self.remember(owner, container.id, box(values))
            if owner == self.number:
                self.env[container.id] = self.env.get(container.id, NOTHING) | box(values)
        elif isinstance(container, ast.Attribute):
            self.remember_attribute(container.attr, box(values))
        elif isinstance(container, ast.Subscript):
            self.absorb(container.value, values)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> Values:
        self.overlays.append({})

        def bind(name: str, values: Values, _: ast.AST) -> None:
            self.overlays[-1][name] = self.overlays[-1].get(name, NOTHING) | values
            self.remember(self.number, name, values)

        for generator in node.generators:
            self.assign(generator.target, self.iterate(self.value(generator.iter)), bind)
            for condition in generator.ifs:
                self.truth(self.value(condition), condition)
        if isinstance(node, ast.DictComp):
            self.as_key(self.value(node.key), node.key)
            found = self.value(node.value)
        else:
            found = self.value(node.elt)
        self.overlays.pop()
        return box(found)

    def _text(self, node: ast.JoinedStr) -> Values:
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                continue
            if has_tensor(self.value(part.value)) and not self.talking:
                self.computes(
                    part, f"{self.quote(part.value)} in a text reads a tensor's values", "item"
                )
            if part.format_spec is not None:
                self.value(part.format_spec)
        return OTHER

    def _yield(self, node: ast.Yield) -> Values:
        self.remember_result(self.number, box(self.value(node.value) if node.value else OTHER))
        return UNKNOWN

    def _yield_from(self, node: ast.YieldFrom) -> Values:
        self.remember_result(self.number, box(self.iterate(self.value(node.value))))
        return UNKNOWN

    def _await(self, node: ast.Await) -> Values:
        return self.value(node.value)


_READERS: dict[type, Callable[[Expressions, ast.expr], Values]] = {
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
    ast.BoolOp: Expressions._boolean,
    ast.IfExp: Expressions._conditional,
    ast.Tuple: Expressions._container,
    ast.List: Expressions._container,
    ast.Set: Expressions._container,
    ast.Starred: Expressions._starred,
    ast.Dict: Expressions._dict,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Constant: Expressions._constant,
    ast.Lambda: Expressions._lambda,
    ast.NamedExpr: Expressions._named,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.JoinedStr: Expressions._text,
    ast.Yield: Expressions._yield,
    ast.YieldFrom: Expressions._yield_from,
    ast.Await: Expressions._await,
    ast.Call: lambda self, node: self.call(node),
}
