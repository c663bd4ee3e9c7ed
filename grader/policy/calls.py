"""Calls of everything that can be called: what comes out, and which of them break a rule."""

from __future__ import annotations

import ast
import string
from dataclasses import dataclass, field

from grader.policy import allowed
from grader.policy.expressions import Expressions
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
    Plain,
    Tensor,
    Values,
    box,
    callables,
    deep,
    elements,
    has_tensor,
    tensor,
    union,
)

_LAYOUT = (
    "Only a whole tensor may be copied into one piece; pass the strides of this one to your kernel."
)
_COPY = "Have your kernel write to the output itself."


@dataclass
class Arguments:
    """The arguments of one call; `spread` is what * and ** may add anywhere."""

    node: ast.AST
    positional: list[Values] = field(default_factory=list)
    named: dict[str, Values] = field(default_factory=dict)
    spread: Values = NOTHING

    def all(self) -> Values:
        return union([*self.positional, *self.named.values(), self.spread])


class Calls(Expressions):
    """Evaluates calls."""

    def call(self, node: ast.Call) -> Values:
        called = self.value(node.func)
        talks = Path("builtins.print") in called
        self.talking += talks
        arguments = self._arguments(node)
        self.talking -= talks
        if talks and any(word.arg in {"file", None} for word in node.keywords):
            self._prints_elsewhere(node)
        if isinstance(node.func, ast.Attribute):
            self._check_format(node.func, arguments)
            if node.func.attr in allowed.ADDING:
                self.absorb(node.func.value, _inner(arguments))
        return self.touch(self.apply(called, arguments))

    def _prints_elsewhere(self, node: ast.AST) -> None:
        self.report("dynamic", node, "print(..., file=...) writes elsewhere than to the output")

    def apply(self, called: Values, arguments: Arguments) -> Values:
        """What calling any of `called` may give."""
        self.step(1 + len(called) * len(arguments.all()) // 4)
        return union(self._apply(atom, arguments) for atom in called)

    def _arguments(self, node: ast.Call) -> Arguments:
        found = Arguments(node)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                found.spread |= self.iterate(self.value(argument.value))
            elif found.spread:
                found.spread |= self.value(argument)
            else:
                found.positional.append(self.value(argument))
        for word in node.keywords:
            if word.arg is None:
                found.spread |= elements(self.value(word.value))
            else:
                found.named[word.arg] = self.value(word.value)
        return found

    def _apply(self, atom: object, arguments: Arguments) -> Values:
        if isinstance(atom, Path):
            return self._call_library(atom.name, arguments)
        if isinstance(atom, Method):
            return self._call_method(atom, arguments)
        if isinstance(atom, Code):
            return self.call_code(atom, arguments)
        if isinstance(atom, Kernel):
            return self._call_kernel(atom, arguments)
        if isinstance(atom, Class):
            return self._make(atom, arguments)
        if isinstance(atom, Object):
            method = self.scopes[atom.scope].methods.get("__call__")
            return NOTHING if method is None else self.call_code(Code(method, 1), arguments)
        if isinstance(atom, Box):
            self.hand_over(arguments, atom.items)
            return atom.items | {atom}
        return self._call_unknown(atom, arguments)

    # --- code of the file -----------------------------------------------------------------------

    def call_code(self, code: Code, arguments: Arguments) -> Values:
        """A function of the file: its parameters may be what it is called with."""
        node = self.scopes[code.scope].node
        if code.cached and has_tensor(arguments.all()):
            self.report(
                "replay",
                arguments.node,
                f"{self.quote(arguments.node)}: a cache keyed by a tensor tells which one came",
            )
        self.run(frozenset({code}))
        names = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
        names = [name for name in names[code.skip :] if name not in code.given]
        keywords = [argument.arg for argument in node.args.kwonlyargs]
        for name, values in zip(names, arguments.positional, strict=False):
            self.remember(code.scope, name, values)
        if node.args.vararg:
            rest = union(arguments.positional[len(names) :]) | arguments.spread
            self.remember(code.scope, node.args.vararg.arg, box(rest))
        others = NOTHING
        for name, values in arguments.named.items():
            if name in names or name in keywords:
                self.remember(code.scope, name, values)
            else:
                others |= values
        if node.args.kwarg:
            self.remember(code.scope, node.args.kwarg.arg, box(others | arguments.spread))
        if arguments.spread:
            for name in [*names[len(arguments.positional) :], *keywords]:
                self.remember(code.scope, name, arguments.spread)
        return self.returned.get(code.scope, NOTHING)

    def _call_kernel(self, kernel: Kernel, arguments: Arguments) -> Values:
        self.run(arguments.all() | {kernel})
        if not kernel.launcher and not self.in_kernel:
            name = self.quote(getattr(arguments.node, "func", arguments.node))
            self.report(
                "kernel", arguments.node, f"{name}(...) calls a kernel as a Python function"
            )
        return UNKNOWN if self.in_kernel else OTHER

    def _make(self, made: Class, arguments: Arguments) -> Values:
        self.run(frozenset({made}))
        scope = self.scopes[made.scope]
        initialiser = scope.methods.get("__init__")
        if initialiser is not None:
            self.call_code(Code(initialiser, 1), arguments)
        else:
            for name, values in zip(self.fields(made.scope), arguments.positional, strict=False):
                self.remember_attribute(name, values)
            for name, values in arguments.named.items():
                self.remember_attribute(name, values)
            if scope.node.bases or arguments.spread:
                self._make_as_bases_do(made, arguments)
        return frozenset({Object(made.scope)})

    def _make_as_bases_do(self, made: Class, arguments: Arguments) -> None:
        """A class with bases and no `__init__` of its own: what its bases do with the arguments."""
        given = arguments.all()
        for scope in self.scopes.all:
            if isinstance(scope.node, ast.ClassDef) and "__init__" in scope.methods:
                self.call_code(Code(scope.methods["__init__"], 1), arguments)
        if has_tensor(given):
            self.remember_attribute("args", box(given))  # of exceptions
        for name in self.fields(made.scope) if arguments.spread else []:
            self.remember_attribute(name, arguments.spread)

    def hand_over(self, arguments: Arguments, beside: Values = NOTHING) -> None:
        """Functions given to a library run there, on what else is given, or `beside`."""
        given = arguments.all()
        functions = callables(given)
        self.run(functions)
        loose = deep(given | beside) - functions
        if has_tensor(loose):
            loose = frozenset(atom for atom in loose if not isinstance(atom, Box))
            for atom in functions:
                if isinstance(atom, Code):
                    self.call_code(atom, Arguments(arguments.node, spread=loose))

    def _call_unknown(self, atom: object, arguments: Arguments) -> Values:
        self.hand_over(arguments)
        if isinstance(atom, Plain) and atom.known:
            return OTHER
        given = arguments.all()
        kept = frozenset(a for a in deep(given) if isinstance(a, Tensor))
        return UNKNOWN | callables(given) | (box(kept) if kept else NOTHING)

    # --- tensors' methods -----------------------------------------------------------------------

    def _call_method(self, method: Method, arguments: Arguments) -> Values:
        name, origin = method.name, method.origin
        if name == "copy_":
            return self._copy(method, arguments)
        if name in allowed.COPYING and origin == "part":
            text = self.quote(getattr(arguments.node, "func", arguments.node))
            self.computes(
                arguments.node,
                f"{text}() copies a part of a tensor with PyTorch",
                name,
                instead=_LAYOUT,
            )
            return tensor("whole")
        if name in allowed.NEW:
            self._no_tensors(arguments, f"x.{name}")
            return tensor("fresh")
        if name in allowed.VIEWS | allowed.FILLING:
            if name in allowed.FILLING:
                self._no_tensors(arguments, f"x.{name}")
            return tensor(origin)
        if name in {"unbind", "chunk", "split", "tensor_split"}:
            return box(tensor("part"))
        return tensor("part" if name in allowed.PARTS else "whole")

    def _copy(self, method: Method, arguments: Arguments) -> Values:
        """`out.copy_(y)`: fine for a whole y allocated by the submission, so kernels filled it."""
        source = union(arguments.positional[:1]) or arguments.all()
        fresh = all(atom == Tensor("fresh") for atom in source)
        if not fresh or method.origin == "part" or arguments.spread:
            text = self.quote(arguments.node)
            self.computes(arguments.node, f"{text} copies with PyTorch", "copy_", instead=_COPY)
        return tensor(method.origin)

    def _no_tensors(self, arguments: Arguments, name: str) -> None:
        if not self.in_kernel and has_tensor(arguments.all()):
            short = name.removeprefix("builtins.").removeprefix("torch.Tensor.")
            self.computes(
                arguments.node, f"{short}(...) on a tensor reads or computes with its values", name
            )

    # --- libraries ------------------------------------------------------------------------------

    def _call_library(self, name: str, arguments: Arguments) -> Values:
        root, _, rest = name.partition(".")
        if root == "torch":
            return self._call_torch(rest, arguments)
        if name in allowed.JIT:
            return self._jit(name, arguments)
        if name in {"functools.lru_cache", "functools.cache"}:
            return self._cache(name, arguments)
        if name == "functools.partial" and arguments.positional:
            return self._partial(arguments)
        self.hand_over(arguments)
        given = arguments.all()
        passes = allowed.BUILTINS_FOR_TENSORS | {"classmethod", "staticmethod", "property"}
        if root == "builtins":
            if rest == "hash":
                self.as_key(given, arguments.node)
            elif rest not in passes:
                self._no_tensors(arguments, name)
            return self._call_builtin(rest, arguments)
        if root == "triton":
            if name not in allowed.DESCRIBING:
                self._no_tensors(arguments, name)
            return UNKNOWN
        if not self.may_import(name) and name not in allowed.LIBRARY_FOR_TENSORS:
            self._no_tensors(arguments, name)
        if root == "math":
            return OTHER
        if name in {"dataclasses.asdict", "dataclasses.astuple"}:
            return box(self.iterate(given))
        found = UNKNOWN | callables(given)
        inner = elements(given)
        return found | (given | inner | box(inner) if has_tensor(given) else NOTHING)

    def _call_builtin(self, name: str, arguments: Arguments) -> Values:
        given = arguments.all()
        if name in {"len", "isinstance", "issubclass", "print", "callable", "hasattr"}:
            return OTHER
        if name in {"int", "float", "bool", "str", "repr", "round", "abs", "range", "hash", "ord"}:
            return OTHER
        if name in {"classmethod", "staticmethod", "property"}:
            return callables(given)
        if name == "super":
            return UNKNOWN | self._self()
        if name in {"max", "min"}:
            return given | self.iterate(given)
        if name == "next":
            return self.iterate(given)
        if name == "dict":
            return box(union([*arguments.named.values(), elements(given)]))
        results = union(
            self.returned.get(atom.scope, NOTHING) for atom in given if isinstance(atom, Code)
        )
        found = self.iterate(given) | results
        return box(found | box(found) if name in {"zip", "enumerate"} else found)

    def _self(self) -> Values:
        """`self` of the method around."""
        node = self.scopes[self.number].node
        first = node.args.args[:1] if isinstance(node, ast.FunctionDef) else []
        return self.env.get(first[0].arg, NOTHING) if first else NOTHING

    def _call_torch(self, name: str, arguments: Arguments) -> Values:
        self.run(arguments.all())
        allows = name not in allowed.TORCH and allowed.torch_name(name, self.rules.torch)
        if name in allowed.VIEWING:
            source = union(arguments.positional[:1]) | arguments.named.get("input", NOTHING)
            found = NOTHING
            for atom in source:
                if isinstance(atom, Tensor):
                    found |= self._call_method(Method(name, atom.origin), arguments)
            return found or UNKNOWN
        if name not in allowed.LOOKING and name in allowed.TORCH:
            self._no_tensors(arguments, f"torch.{name}")
        if name == "full_like" and has_tensor(union(arguments.positional[1:])):
            self._no_tensors(arguments, f"torch.{name}")
        if name in allowed.ALLOCATIONS:
            return tensor("part" if name == "empty_strided" else "fresh")
        if name in {"no_grad", "inference_mode"}:
            return callables(arguments.all()) | UNKNOWN
        if allows or name not in allowed.TORCH:
            return tensor("whole") | callables(arguments.all())
        return OTHER

    def _jit(self, name: str, arguments: Arguments) -> Values:
        given = union(arguments.positional[:1]) | arguments.named.get("fn", NOTHING)
        self.run(union(v for k, v in arguments.named.items() if k != "fn"))
        if not given:
            return frozenset({Path(name)})
        return frozenset(Kernel(a.scope) if isinstance(a, Code) else a for a in given)

    def _cache(self, name: str, arguments: Arguments) -> Values:
        functions = [a for a in callables(arguments.all()) if isinstance(a, Code)]
        if not functions:
            return frozenset({Path(name)})
        return frozenset(Code(a.scope, a.skip, a.given, True) for a in functions)

    def _partial(self, arguments: Arguments) -> Values:
        function, *first = arguments.positional
        found = NOTHING
        for atom in function:
            if not isinstance(atom, Code):
                if atom == Path("builtins.print") and arguments.named:
                    self._prints_elsewhere(arguments.node)
                found |= (
                    {atom} if isinstance(atom, Kernel | Class | Object | Path | Method) else UNKNOWN
                )
                continue
            call = Arguments(arguments.node, first, arguments.named, arguments.spread)
            self.call_code(atom, call)
            given = atom.given | frozenset(arguments.named)
            found |= {Code(atom.scope, atom.skip + len(first), given, atom.cached)}
        return found

    # --- text -----------------------------------------------------------------------------------

    def _check_format(self, function: ast.Attribute, arguments: Arguments) -> None:
        """`str.format` reads attributes and values by text."""
        if function.attr != "format":
            return
        if has_tensor(arguments.all()) and not self.talking:
            self._no_tensors(arguments, "format")
        text = function.value.value if isinstance(function.value, ast.Constant) else None
        if isinstance(text, str) and any("._" in one or "[_" in one for one in _fields(text)):
            self.report("dunder", function, f"{text[:40]!r} reads a private attribute")


def _inner(arguments: Arguments) -> Values:
    """What a container holds after `append`, `extend` or the like."""
    given = arguments.all()
    return given | (elements(frozenset(a for a in given if isinstance(a, Box))))


def _fields(text: str) -> list[str]:
    try:
        return [name or "" for _, name, _, _ in string.Formatter().parse(text)]
    except ValueError:
        return []
