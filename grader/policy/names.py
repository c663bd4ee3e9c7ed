"""Names, attributes, and what of torch, Triton and Python they may refer to."""

from __future__ import annotations

import ast
import builtins

from grader.policy import allowed
from grader.policy.findings import instead_of_import
from grader.policy.scopes import MODULE
from grader.policy.state import State
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
    tensor,
)

_READING = frozenset({"item", "tolist", "numpy", "cpu", "data"})
_CONVERTING = frozenset(
    {"to", "float", "half", "bfloat16", "double", "int", "long", "type", "cuda"}
)
_STRIDES = "Pass the strides to your kernel in the order you need: x.stride(0), x.stride(1)."


class Names(State):
    """Resolves names and chains of attributes to `Values`."""

    def value(self, node: ast.expr) -> Values:
        raise NotImplementedError  # Expressions

    # --- names and attributes -------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Values:
        return self._referred(self.chain(node), node)

    def _attribute(self, node: ast.Attribute) -> Values:
        return self._referred(self.chain(node), node)

    def _referred(self, values: Values, node: ast.expr) -> Values:
        for atom in values:
            if isinstance(atom, Path):
                self.check_path(atom.name, node)
        return self.touch(values)

    def chain(self, node: ast.expr) -> Values:
        """A name or a chain of attributes; what it refers to is judged once, at its full length."""
        if isinstance(node, ast.Name):
            return self._resolved(node)
        if isinstance(node, ast.Attribute):
            self.step()
            return self._member(self.chain(node.value), node)
        return self.value(node)

    def _resolved(self, node: ast.Name) -> Values:
        name = node.id
        if is_dunder(name) and name not in allowed.DUNDER_NAMES | allowed.DUNDER_NAMES_SET:
            self.report("dunder", node, f"{name} is one of the interpreter's own names")
            return UNKNOWN
        for overlay in reversed(self.overlays):
            if name in overlay:
                return overlay[name]
        values = self.lookup(name)
        # A module's own name may not be bound yet, or no more: then the builtin is meant.
        risky = name not in allowed.BUILTINS and self.owner(name) == MODULE
        if hasattr(builtins, name) and (not values or risky) and name not in allowed.DUNDER_NAMES:
            values |= {Path(f"builtins.{name}")}
        return values if values or self.is_bound(name) else UNKNOWN

    def _member(self, base: Values, node: ast.Attribute) -> Values:
        name = node.attr
        self.check_private(base, node)
        found = NOTHING
        for atom in base:
            found |= self._member_of(atom, name, node)
        return found

    def _bound_too(self, name: str, values: Values) -> Values:
        """A function that a class took from elsewhere (`go = helper`) gets the object first."""
        if name not in self.class_names:
            return values
        return values | {
            Code(atom.scope, 1, atom.given, atom.cached)
            for atom in values
            if isinstance(atom, Code) and not atom.skip and atom.scope not in self.static
        }

    def _not_yet(self, name: str) -> Values:
        """An attribute nothing was seen in: a later round will, where the file itself sets it."""
        return NOTHING if name in self.own_attributes else UNKNOWN

    def check_private(self, base: Values, node: ast.Attribute) -> None:
        name = node.attr
        own = bool(base) and all(isinstance(atom, Object | Class) for atom in base)
        if name in allowed.INTERNALS and not own:
            rule = "kernel" if name in {"fn", "base_fn"} else "dunder"
            what = (
                "is the Python function behind a kernel" if rule == "kernel" else "is an internal"
            )
            self.report(rule, node, f"{self.quote(node)}: .{name} {what}")
        fine = allowed.DUNDER_ATTRIBUTES | allowed.UNDERSCORED
        if not name.startswith("_") or name in fine:
            return
        if any(isinstance(atom, Path) and not _is_known(atom.name) for atom in base):
            return  # of a module that is refused as a whole
        foreign = any(isinstance(atom, Path | Tensor | Kernel | Method) for atom in base)
        if is_dunder(name) or foreign or name not in self.own_attributes:
            self.report("dunder", node, f"{self.quote(node)}: .{name} is private")

    def _member_of(self, atom: object, name: str, node: ast.Attribute) -> Values:
        if isinstance(atom, Path):
            return _member_of_path(atom.name, name)
        if isinstance(atom, Tensor):
            return self._member_of_tensor(atom, name, node)
        if isinstance(atom, Kernel):
            if name not in allowed.KERNEL_ATTRIBUTES | allowed.DUNDER_ATTRIBUTES | {"fn"}:
                self.report(
                    "kernel", node, f"{self.quote(node)}: .{name} is Triton's, not the kernel's"
                )
            return UNKNOWN
        if isinstance(atom, Object):
            return self._bound_too(name, self.attribute_values(name)) or self._not_yet(name)
        if isinstance(atom, Class):
            return _unbound(self.attribute_values(name)) or self._not_yet(name)
        if isinstance(atom, Box):
            of_container = any(hasattr(kind, name) for kind in (list, dict, set, tuple))
            return frozenset({Box(atom.items)}) if of_container else atom.items | OTHER
        if isinstance(atom, Plain) and atom.known:
            return OTHER
        self._check_telling(name, node)
        return self.attribute_values(name) | UNKNOWN

    def _check_telling(self, name: str, node: ast.Attribute) -> None:
        """An attribute of something unknown, where its name says that it is a tensor's."""
        if name in allowed.REPLAY_METHODS and name not in self.own_attributes:
            self._replay(node)
        elif name in allowed.TELLING_METHODS and name not in self.own_attributes:
            self._tensor_method(node, name)

    def _member_of_tensor(self, atom: Tensor, name: str, node: ast.Attribute) -> Values:
        if name in allowed.FACTS:
            return OTHER
        if name in allowed.METHODS or name == "copy_":
            return frozenset({Method(name, atom.origin)})
        if name in allowed.REPLAY_METHODS:
            self._replay(node)
        elif name in allowed.COMPUTING_METHODS:
            self._tensor_method(node, name)
            if name in {"T", "H", "mT", "mH", "data", "real", "imag"}:
                return tensor("whole")
            return frozenset({Method(name, "whole")})
        return UNKNOWN

    def _replay(self, node: ast.Attribute) -> None:
        if not self.in_kernel:
            self.report(
                "replay", node, f"{self.quote(node)} tells which tensor came, by its address"
            )

    def _tensor_method(self, node: ast.Attribute, name: str) -> None:
        text, instead = self.quote(node), ""
        if name in allowed.ORDER_METHODS:
            what, instead = "rearranges a tensor with PyTorch", _STRIDES
        elif name in _READING:
            what = "reads a tensor's values outside a kernel"
        elif name in _CONVERTING:
            what = "converts with PyTorch"
            instead = "Convert in your kernel: tl.load(...).to(tl.float32)."
        elif name == "copy_":
            what = "copies with PyTorch"
        else:
            what = "computes with PyTorch"
        self.computes(node, f"{text} {what}", name, instead=instead)

    # --- what a path may be ---------------------------------------------------------------------

    def check_path(self, path: str, node: ast.AST) -> None:
        """Report a reference to a part of a library, or of Python, that is not allowed."""
        root, _, rest = path.partition(".")
        if root == "builtins":
            self._check_builtin(rest, node)
        elif root == "torch":
            if rest and not allowed.torch_name(rest, self.rules.torch):
                self._torch_path(path, node)
        elif root == "triton":
            if rest and not allowed.triton_name(rest) and not self.may_import(path):
                self.report(
                    "triton", node, f"{self.quote(node)} is not part of what a kernel needs"
                )
        elif not self.may_import(path):
            self._check_standard(path, node)

    def _check_standard(self, path: str, node: ast.AST) -> None:
        """A name of the standard library; modules that are refused were, where imported."""
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if module in allowed.MODULES:
                if length < len(parts) and parts[length] not in allowed.MODULES[module]:
                    message = f"{module}.{parts[length]} is not among what may be used of {module}"
                    self.report("import", node, message, instead_of_import(module))
                return

    def _check_builtin(self, name: str, node: ast.AST) -> None:
        if name == "id":
            self.report("replay", node, "id() tells which object came")
        elif name not in allowed.BUILTINS:
            why = {
                "type": "type() reaches the class behind an object",
                "open": "open() reaches files",
                "input": "input() reads from outside",
            }.get(name, f"{name}() hides what the file does")
            own = {"type": "Use isinstance(), or x.dtype.", "getattr": "Write object.name."}
            self.report("dynamic", node, why, own.get(name, ""))

    def _torch_path(self, path: str, node: ast.AST) -> None:
        if "._" in path:
            self.report("dunder", node, f"{path} is a private part of PyTorch")
        else:
            what = _what_torch_does(path)
            self.report("torch", node, f"{path} {what}")


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_known(path: str) -> bool:
    root = path.split(".")[0]
    return root in {"torch", "triton", "builtins"} or root in allowed.MODULES


def _member_of_path(path: str, name: str) -> Values:
    root, _, rest = path.partition(".")
    if root == "builtins":
        return UNKNOWN
    last = rest.rpartition(".")[2]
    is_value = last in {"__version__", "__name__"} or rest in {"version.cuda", "version.hip"}
    if is_value or (root == "torch" and rest in allowed.DTYPES) or (root == "math" and rest):
        return OTHER
    return frozenset({Path(f"{path}.{name}")})


def _unbound(values: Values) -> Values:
    """Methods read from their class: nothing is bound to self."""
    return frozenset(
        Code(a.scope, 0, a.given, a.cached) if isinstance(a, Code) else a for a in values
    )


def _what_torch_does(path: str) -> str:
    if path == "torch.compile":
        return "has PyTorch write the kernel"
    first = path.split(".")[1]
    if first in {"nn", "linalg", "special", "fft", "ops", "Tensor"}:
        return "computes the result with PyTorch"
    if first in {"load", "save", "hub", "serialization"}:
        return "reaches files"
    if first in {"cuda", "utils", "jit", "backends", "library", "multiprocessing", "distributed"}:
        return "is not part of what a launch needs of PyTorch"
    return "computes with PyTorch"
