"""Statements and definitions, and the fixed point over everything that can run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from grader.policy import allowed
from grader.policy.calls import Arguments, Calls
from grader.policy.findings import instead_of_import
from grader.policy.scopes import MODULE, bound_names, is_main_test, parameters
from grader.policy.state import TooInvolved
from grader.policy.values import (
    NOTHING,
    OTHER,
    UNKNOWN,
    Class,
    Code,
    Object,
    Path,
    Values,
    box,
    elements,
    has_tensor,
    tensor,
    union,
)

_SCALARS = frozenset({"int", "float", "bool", "str"})
_SCALAR_NAMES = frozenset(
    {"eps", "epsilon", "scale", "sm_scale", "alpha", "beta", "causal", "is_causal"}
)
_STEERING = frozenset({"__torch_function__", "__torch_dispatch__"})
_MOST_ROUNDS = 200

Env = dict[str, Values]
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Reader(Calls):
    """Reads a file: its top level, the entry, and what they reach."""

    def read(self, entry: str, tensors: Sequence[bool] | None) -> None:
        """Read until nothing new is learned. Raises TooInvolved."""
        for _ in range(_MOST_ROUNDS):
            self.changed = False
            self.found.clear()  # the last round knows most
            self._read_module()
            self._start(entry, tensors)
            for scope, as_kernel in list(self.running):
                self._read_function(scope, as_kernel)
            if not self.changed:
                return
        raise TooInvolved

    def _read_module(self) -> None:
        self.number, self.env, self.in_kernel = MODULE, {}, False
        self.block(self.scopes[MODULE].node.body)

    def _start(self, entry: str, tensors: Sequence[bool] | None) -> None:
        """The grader calls the entry, with tensors."""
        self.number = MODULE
        values = self.ever.get((MODULE, entry), NOTHING)
        self.run(values)
        for atom in values:
            if isinstance(atom, Object):
                atom = Code(self.scopes[atom.scope].methods.get("__call__", MODULE), 1)
            elif isinstance(atom, Class):
                atom = Code(self.scopes[atom.scope].methods.get("__init__", MODULE), 1)
            if isinstance(atom, Code) and self.scopes[atom.scope].is_function:
                self._start_code(atom, tensors)

    def _start_code(self, code: Code, tensors: Sequence[bool] | None) -> None:
        node = self.scopes[code.scope].node
        given = [p for p in [*node.args.posonlyargs, *node.args.args] if p.arg not in code.given]
        given = given[code.skip :]
        if tensors is None:
            tensors = [not _looks_scalar(parameter) for parameter in given] or [True]
        values = [tensor("whole") if one else OTHER for one in tensors]
        self.call_code(code, Arguments(node, values))

    def _read_function(self, scope: int, as_kernel: bool) -> None:
        node = self.scopes[scope].node
        self.number, self.in_kernel = scope, as_kernel
        self.env = {}
        for parameter in parameters(node):
            known = UNKNOWN if as_kernel else self.ever.get((scope, parameter.arg), UNKNOWN)
            self.env[parameter.arg] = known
            self.remember(scope, parameter.arg, known)
        if isinstance(node, ast.Lambda):
            self.remember_result(scope, self.value(node.body))
        else:
            self.remember_result(scope, OTHER)
            self.block(node.body)
        self.number, self.in_kernel = MODULE, False

    # --- blocks ---------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> bool:
        """Read statements in order; whether what follows them is reached."""
        reached = True
        for statement in statements:
            self.step()
            read = _STATEMENTS.get(type(statement))
            if read is None:
                self._any(statement)
            elif read(self, statement) is False:
                reached = False
        return reached

    def _branches(self, blocks: list[list[ast.stmt]], before: Env) -> bool:
        """Read blocks of which one runs; names then are what any that goes on made them."""
        after: list[Env] = []
        for statements in blocks:
            self.env = dict(before)
            if self.block(statements):
                after.append(self.env)
        self.env = _joined(after) if after else dict(before)
        return bool(after)

    def _if(self, node: ast.If) -> bool:
        if is_main_test(node.test):
            return self.block(node.orelse)
        self.truth(self.value(node.test), node.test)
        return self._branches([node.body, node.orelse], self.env)

    def _while(self, node: ast.While) -> None:
        self._widen(node.body)
        self.truth(self.value(node.test), node.test)
        self._loop(node)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        values = self.iterate(self.value(node.iter))
        self._widen([node])
        before = dict(self.env)
        self.assign(node.target, values, self.assign_name)
        self._loop(node)
        self.env = _joined([before, self.env])

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        before = dict(self.env)
        self.block(node.body)
        self._widen(node.body)
        self.env = _joined([before, self.env])
        self.block(node.orelse)

    def _widen(self, statements: list[ast.stmt]) -> None:
        """A block that may have run before, up to any of its statements."""
        key = (id(statements[0]), len(statements))
        if key not in self.bound:
            self.bound[key] = bound_names(statements)
        for name in self.bound[key]:
            ever = self.ever.get((self.number, name), NOTHING)
            if ever:
                self.env[name] = self.env.get(name, NOTHING) | ever

    def _try(self, node: ast.Try) -> bool:
        before = dict(self.env)
        goes_on = self.block(node.body) and self.block(node.orelse)
        after = [self.env] if goes_on else []
        self.env = dict(before)
        self._widen(node.body)
        failed = self.env
        for handler in node.handlers:
            self.env = dict(failed)
            if handler.type is not None:
                self.value(handler.type)
            if handler.name:
                self.assign_name(handler.name, UNKNOWN, handler)
            if self.block(handler.body):
                after.append(self.env)
        self.env = _joined([*after, failed] if node.finalbody else after) if after else failed
        return self.block(node.finalbody) and bool(after)

    def _with(self, node: ast.With | ast.AsyncWith) -> bool:
        for item in node.items:
            values = self.value(item.context_expr)
            if item.optional_vars is not None:
                entered = values | elements(values) | self._entered(values)
                self.assign(item.optional_vars, entered, self.assign_name)
        before = dict(self.env)
        reached = self.block(node.body)
        if not reached:  # contextlib.suppress
            self.env = _joined([before, self.env])
        return True

    def _entered(self, values: Values) -> Values:
        found = NOTHING
        for atom in values:
            method = (
                self.scopes[atom.scope].methods.get("__enter__")
                if isinstance(atom, Object)
                else None
            )
            if method is not None:
                found |= self.call_code(Code(method, 1), Arguments(self.scopes[method].node))
        return found

    # --- match ----------------------------------------------------------------------------------

    def _match(self, node: ast.Match) -> bool:
        subject = self.value(node.subject)
        before, after = dict(self.env), []
        for case in node.cases:
            self.env = dict(before)
            self._pattern(case.pattern, subject)
            if case.guard is not None:
                self.truth(self.value(case.guard), case.guard)
            if self.block(case.body):
                after.append(self.env)
        self.env = _joined([*after, before])
        return True

    def _pattern(self, pattern: ast.pattern, subject: Values) -> None:
        self.step()
        if isinstance(pattern, ast.MatchValue):
            self.operate(ast.Eq(), [subject, self.value(pattern.value)], pattern)
        elif isinstance(pattern, ast.MatchAs | ast.MatchStar):
            if pattern.name:
                star = isinstance(pattern, ast.MatchStar)
                self.assign_name(pattern.name, box(subject) if star else subject, pattern)
            if isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
                self._pattern(pattern.pattern, subject)
        elif isinstance(pattern, ast.MatchClass):
            self._class_pattern(pattern, subject)
        elif isinstance(pattern, ast.MatchOr):
            for inner in pattern.patterns:
                self._pattern(inner, subject)
        elif isinstance(pattern, ast.MatchSequence | ast.MatchMapping):
            if isinstance(pattern, ast.MatchMapping) and pattern.rest:
                self.assign_name(pattern.rest, subject, pattern)
            for inner in pattern.patterns:
                self._pattern(inner, self.iterate(subject))

    def _class_pattern(self, pattern: ast.MatchClass, subject: Values) -> None:
        """A class pattern reads attributes by name."""
        self.value(pattern.cls)
        for inner in pattern.patterns:
            self._pattern(inner, subject | self.iterate(subject))
        for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            text = ast.Attribute(ast.Name("subject", ast.Load()), name, ast.Load())
            ast.copy_location(text, pattern)
            self._pattern(inner, self._member(subject, text))

    # --- simple statements ----------------------------------------------------------------------

    def _assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Tuple) and not any(
            isinstance(element, ast.Starred) for element in node.value.elts
        ):
            parts = [self.value(element) for element in node.value.elts]
            whole = box(union(parts))
        else:
            parts, whole = [], self.value(node.value)
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple | ast.List) else []
            starred = any(isinstance(name, ast.Starred) for name in names)
            if names and len(names) == len(parts) and not starred:
                for name, values in zip(names, parts, strict=True):
                    self.assign(name, values, self.assign_name)
            else:
                self.assign(target, whole, self.assign_name)

    def _annotated(self, node: ast.AnnAssign) -> None:
        self.annotation(node.annotation)
        if node.value is not None:
            self.assign(node.target, self.value(node.value), self.assign_name)
        elif not isinstance(node.target, ast.Name):
            self.value(node.target)

    def _augmented(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript) and has_tensor(self.value(target.value)):
            self.store_item(target, self.value(node.value))
            return
        values = self.operate(node.op, [self.value(target), self.value(node.value)], node)
        self.assign(target, values, self.assign_name)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                self.store_attribute(target, OTHER)
            elif isinstance(target, ast.Subscript):
                self.value(target)
                self.store_item(target, NOTHING)

    def _return(self, node: ast.Return) -> bool:
        if node.value is not None:
            self.remember_result(self.number, self.value(node.value))
        return False

    def _raise(self, node: ast.Raise) -> bool:
        self.talking += not self.catches
        for part in (node.exc, node.cause):
            if part is not None:
                self.value(part)
        self.talking -= not self.catches
        return False

    def _assert(self, node: ast.Assert) -> None:
        self.truth(self.value(node.test), node.test)
        if node.msg is not None:
            self.talking += not self.catches
            self.value(node.msg)
            self.talking -= not self.catches

    # --- imports --------------------------------------------------------------------------------

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_module(alias.name, node)
            if alias.asname:
                self.assign_name(alias.asname, frozenset({Path(alias.name)}), node)
            else:
                root = alias.name.split(".")[0]
                self.assign_name(root, frozenset({Path(root)}), node)

    def _check_module(self, module: str, node: ast.AST) -> None:
        """Parts of torch and Triton are judged where they are used."""
        known = module.split(".")[0] in {"torch", "triton"} or module in allowed.MODULES
        if not known and not self.may_import(module):
            self.report(
                "import",
                node,
                f"the module {module} may not be imported",
                instead_of_import(module),
            )

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level:
            self.report(
                "import",
                node,
                f"{'.' * node.level}{module}: another file may not be imported",
                "Hand in one file; copy what you need into it.",
            )
            module = "submission"
        else:
            self._check_module(module, node)
        for alias in node.names:
            if alias.name == "*":
                self.report(
                    "import",
                    node,
                    f"from {module} import * hides which names are meant",
                    f"import {module}, or the names you need.",
                )
                continue
            path = f"{module}.{alias.name}"
            judged_later = module.split(".")[0] in {"torch", "triton"}
            if not node.level and not judged_later and module in allowed.MODULES:
                self.check_path(path, node)
            self.assign_name(alias.asname or alias.name, frozenset({Path(path)}), node)

    # --- definitions ----------------------------------------------------------------------------

    def _function(self, node: Definition) -> None:
        scope = self.scopes.of.get(node)
        if scope is None:
            return
        decorators = [self.value(decorator) for decorator in node.decorator_list]
        self.defaults(node, scope)
        for part in (*(p.annotation for p in parameters(node)), node.returns):
            if part is not None:
                self.annotation(part)
        values: Values = frozenset({Code(scope)})
        for decorator in reversed(decorators):
            values = self.apply(decorator, Arguments(node, [values]))
        if isinstance(self.scopes[self.number].node, ast.ClassDef):
            values = self._method(node, scope, values)
        self.assign_name(node.name, values, node)

    def _method(self, node: Definition, scope: int, values: Values) -> Values:
        """A function in a class: its first parameter is the object."""
        if node.name in _STEERING:
            self.report("tensor_subclass", node, f"{node.name} steers what PyTorch does")
        kinds = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        kinds |= {d.attr for d in node.decorator_list if isinstance(d, ast.Attribute)}
        if kinds & {"property", "cached_property"}:
            self.properties.add(scope)
        if "staticmethod" in kinds:
            self.static.add(scope)
            return values
        first = [*node.args.posonlyargs, *node.args.args][:1]
        if first:
            own: Values = frozenset({Class(self.number)})
            if "classmethod" not in kinds:
                own = frozenset({Object(self.number)})
            self.remember(scope, first[0].arg, own)
        return frozenset(
            Code(a.scope, 1, a.given, a.cached) if isinstance(a, Code) else a for a in values
        )

    def _class(self, node: ast.ClassDef) -> None:
        scope = self.scopes.of.get(node)
        if scope is None:
            return
        decorators = [self.value(decorator) for decorator in node.decorator_list]
        self._bases(node)
        number, env = self.number, self.env
        self.number, self.env = scope, {}
        self.block(node.body)
        self.number, self.env = number, env
        values: Values = frozenset({Class(scope)})
        for decorator in reversed(decorators):
            values = self.apply(decorator, Arguments(node, [values]))
        self.assign_name(node.name, values, node)

    def _bases(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            for atom in self.value(base):
                if isinstance(atom, Path) and atom.name.split(".")[0] in {"torch", "triton"}:
                    self.report(
                        "tensor_subclass", base, f"class {node.name} derives from {atom.name}"
                    )
        for word in node.keywords:
            self.value(word.value)
            if word.arg == "metaclass" or word.arg is None:
                self.report("tensor_subclass", node, f"class {node.name} has a metaclass")

    def annotation(self, node: ast.expr) -> None:
        """Types may be any of torch's and Triton's: they are named, not used."""
        if isinstance(node, ast.Name | ast.Attribute):
            for atom in self.chain(node):
                if isinstance(atom, Path) and atom.name.split(".")[0] not in {"torch", "triton"}:
                    self.check_path(atom.name, node)
        elif isinstance(node, ast.Subscript):
            self.annotation(node.value)
            self.annotation(node.slice)
        elif isinstance(node, ast.Tuple | ast.List):
            for element in node.elts:
                self.annotation(element)
        elif isinstance(node, ast.BinOp):
            self.annotation(node.left)
            self.annotation(node.right)
        elif not isinstance(node, ast.Constant):
            self.value(node)


def _joined(several: list[Env]) -> Env:
    """What names may be after any one of several ways."""
    found: Env = {}
    for env in several:
        for name, values in env.items():
            found[name] = found.get(name, NOTHING) | values
    return found


def _looks_scalar(parameter: ast.arg) -> bool:
    annotation = parameter.annotation
    if annotation is None:
        return parameter.arg in _SCALAR_NAMES
    return isinstance(annotation, ast.Name) and annotation.id in _SCALARS


_STATEMENTS: dict[type, Callable[[Reader, ast.stmt], bool | None]] = {
    ast.If: Reader._if,
    ast.While: Reader._while,
    ast.For: Reader._for,
    ast.AsyncFor: Reader._for,
    ast.Try: Reader._try,
    ast.With: Reader._with,
    ast.AsyncWith: Reader._with,
    ast.Match: Reader._match,
    ast.Assign: Reader._assign,
    ast.AnnAssign: Reader._annotated,
    ast.AugAssign: Reader._augmented,
    ast.Delete: Reader._delete,
    ast.Return: Reader._return,
    ast.Raise: Reader._raise,
    ast.Assert: Reader._assert,
    ast.Import: Reader._import,
    ast.ImportFrom: Reader._import_from,
    ast.FunctionDef: Reader._function,
    ast.AsyncFunctionDef: Reader._function,
    ast.ClassDef: Reader._class,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Reader._try
