"""A compiled kernel as a plan names it: its place in the text, types, constants and bindings."""

from __future__ import annotations

import builtins
import re
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
import triton.language as tl
from triton.backends.compiler import Language
from triton.runtime.jit import ConstexprFunction, JITCallable, JITFunction

from ..compile import literals, options, proxies
from ..compile.failures import CompileFailure
from ..compile.source import FunctionText, SourceFolder, place, with_blanks
from .errors import ForeignKernel, KernelError, PlanLimit, Unsupported

MAX_REFERENCES = 500  # to functions, from one kernel
# Names that Triton's frontend knows, unless a global hides them.
_BUILTIN = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print"}
_BUILTIN |= {"min", "max"}


class Describer:
    """Makes specialisations for kernels that Triton's launcher is about to compile."""

    def __init__(self, folder: SourceFolder) -> None:
        self.folder = folder
        self._references = 0

    def specialisation(self, source: Any, chosen: Any) -> dict[str, Any]:
        """Describe an ASTSource with the backend's options, as plans do. Raises a PlannerError."""
        self._references = 0
        names = source.fn.arg_names
        # A launch sets every parameter; defaults are for functions that kernels call.
        return self._guarded(
            source.fn,
            lambda: {
                **{k: v for k, v in self.reference(source.fn).items() if k != "defaults"},
                "signature": {name: _type(each) for name, each in source.signature.items()},
                "constants": {
                    _key(names, path): literals.to_json(value, self._kernel)
                    for path, value in source.constants.items()
                },
                "attributes": {
                    _key(names, path): {"divisibility": 16}
                    for path, each in source.attrs.items()
                    if ["tt.divisibility", 16] in each
                },
                "options": options.chosen(chosen),
                "language": "gluon" if source.language is Language.GLUON else "triton",
            },
        )

    def _guarded(
        self, function: JITFunction, describe: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        try:
            return describe()
        except CompileFailure as failure:
            line = failure.line or place(function)[1]
            raise KernelError(failure.message, line) from None
        except literals.NotALiteral as error:
            raise KernelError(
                f"{function.__name__} gets {error} as a constant; constants are numbers, texts, "
                "types, tuples of them and other kernels",
                place(function)[1],
            ) from None

    # --- functions --------------------------------------------------------------------------------

    def reference(self, function: JITFunction) -> dict[str, Any]:
        """A jit function's place and the values of its names. Raises a PlannerError."""
        self._references += 1
        if self._references > MAX_REFERENCES:
            name = function.__name__
            raise PlanLimit(f"`{name}` calls itself, or more than {MAX_REFERENCES} functions")
        text = self._text(function)
        described = {
            "file": text.file,
            "line": text.line,
            "function": text.name,
            "hash": text.digest,
            "bindings": self._bindings(function, text),
        }
        defaults = self._defaults(function)
        if defaults:
            described["defaults"] = defaults
        return described

    def _text(self, function: JITFunction) -> FunctionText:
        name = getattr(function, "__name__", "a kernel")
        path, line = place(function)
        file = self.folder.relative(path)
        if file is None:
            raise _from_elsewhere(name, path, function.module)
        try:
            text = self.folder.function(file, line)
        except CompileFailure:
            raise ForeignKernel(
                f"`{name}` doesn't stand at line {line} of {file}, so it was generated while the "
                f"launcher ran: {_IN_A_FILE}"
            ) from None
        source = with_blanks(function.src)
        rest = source[len(text.text) :] if source.startswith(text.text.rstrip("\n")) else None
        if rest is None or any(line.strip()[:1] not in ("", "#") for line in rest.splitlines()):
            raise ForeignKernel(
                f"the source of `{name}` is not what stands at line {text.line} of {file}: "
                f"{_IN_A_FILE}"
            )
        return text

    def _defaults(self, function: JITFunction) -> dict[str, Any]:
        values = {}
        for parameter in function.signature.parameters.values():
            if parameter.default is not parameter.empty:
                try:
                    values[parameter.name] = literals.to_json(parameter.default, self._kernel)
                except literals.NotALiteral:
                    continue  # the frontend reports it where it is used
        return values

    # --- names ------------------------------------------------------------------------------------

    def _bindings(self, function: JITFunction, text: FunctionText) -> dict[str, Any]:
        scope = _scope(function.fn)
        parameters = set(function.arg_names)
        return {
            name: self._binding(name, scope[name], members)
            for name, members in text.names.items()
            if name in scope and name not in parameters and not _is_builtin(name, scope[name])
        }

    def _binding(self, name: str, value: Any, members: set[str]) -> Any:
        """The value of a free name, as JSON.

        A value that kernels can't use is described with the reason, and the frontend refuses its
        use: the name may be the kernel's own variable, or in a branch that isn't compiled.
        """
        path = proxies.path_of(value) or proxies.named(value)
        if path is not None:
            return {"language": path}
        if isinstance(value, ModuleType):
            return self._module(name, value, members)
        if isinstance(value, ConstexprFunction):
            calls = value.__dict__.get("recorded_calls", [])  # see constexpr_calls.py
            return {"constexpr_function": {"name": value.__name__, "calls": calls}}
        if isinstance(value, tl.constexpr):
            return self._constant(name, value, is_constexpr=True)
        if getattr(value, "__triton_aggregate__", False) is True:
            raise Unsupported(f"a class made by triton.aggregate ({name})", "pass a NamedTuple")
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            return {"tuple_class": {"name": value.__name__, "fields": list(value._fields)}}
        return self._constant(name, value)

    def _constant(self, name: str, value: Any, is_constexpr: bool = False) -> Any:
        try:
            literal = literals.to_json(value, self._kernel)
        except literals.NotALiteral as error:
            return {
                "unusable": f"{name} leads to {_description(value, error)}; a kernel may use "
                "triton.language, other @triton.jit functions, and constants (tl.constexpr)"
            }
        return {"constexpr": literal} if is_constexpr else literal

    def _module(self, name: str, module: ModuleType, members: set[str]) -> dict[str, Any]:
        if module.__name__ in proxies.MODULES and sys.modules.get(module.__name__) is module:
            return {"module": module.__name__}
        values = {each: getattr(module, each) for each in members if hasattr(module, each)}
        file = getattr(module, "__file__", None)
        if file is not None and self.folder.relative(file) is not None:
            bound = {each: self._binding(f"{name}.{each}", values[each], set()) for each in values}
            return {"members": dict(sorted(bound.items()))}
        elsewhere = {
            "unusable": f"{name} leads to the module {module.__name__}; a kernel may use "
            "triton.language and modules of this submission"
        }
        numbers = {each: values[each] for each in values if type(values[each]) in (int, float)}
        if not numbers:
            return elsewhere
        others = dict.fromkeys(values, elsewhere)
        bound = others | {each: self._constant(each, numbers[each]) for each in numbers}
        return {"members": dict(sorted(bound.items()))}

    def _kernel(self, value: Any) -> Any:
        if isinstance(value, JITFunction):
            return {"kernel": self.reference(value)}
        raise literals.NotALiteral(literals.described(value))

    def constexpr_functions(self, function: JITFunction) -> list[ConstexprFunction]:
        """The submission's own constexpr_functions that a kernel uses, directly or not."""
        result, waiting = [], [function]
        visited: set[int] = set()
        while waiting and len(visited) < MAX_REFERENCES:
            current = waiting.pop()
            if id(current) in visited:
                continue
            visited.add(id(current))
            for value in _reachable(current):
                if proxies.is_of_triton(value):
                    continue
                if isinstance(value, ConstexprFunction):
                    result.append(value)
                elif isinstance(value, JITCallable):
                    waiting.append(value)
        return result


def _from_elsewhere(name: str, path: str, module: str) -> ForeignKernel:
    """The error for a kernel of a library, or of a file that the launcher wrote."""
    file = Path(path).resolve()
    if any(file.is_relative_to(folder) for folder in _INSTALLED):
        return ForeignKernel(
            f"`{name}` comes from {module}, not from this submission: only kernels whose source "
            "stands in its own files count"
        )
    shown = _TEMPORARY.sub("tmp…", file.name)  # so that all cases have the same message
    return ForeignKernel(f"`{name}` was generated while the launcher ran ({shown}): {_IN_A_FILE}")


_IN_A_FILE = "put its source in a file that you hand in"
_TEMPORARY = re.compile(r"^tmp[a-z0-9_]{8}")  # a random name of Python's tempfile
_INSTALLED = {
    Path(each).resolve()
    for each in (*sysconfig.get_paths().values(), str(Path(torch.__file__).parents[1]))
}


def _scope(function: FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    scope = dict(function.__globals__)
    for name, cell in cells:
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return scope


def _reachable(function: JITFunction) -> Iterator[Any]:
    scope = _scope(function.fn)
    for name in {*function.fn.__code__.co_names, *function.fn.__code__.co_freevars}:
        value = scope.get(name)
        if isinstance(value, ModuleType):
            for member in function.fn.__code__.co_names:
                yield vars(value).get(member)
        else:
            yield value


def _is_builtin(name: str, value: Any) -> bool:
    return name in _BUILTIN and value is getattr(builtins, name)


def _description(value: Any, error: Exception) -> str:
    if isinstance(value, torch.Tensor):
        return "a tensor: pass it as an argument"
    if isinstance(value, FunctionType):
        return "a Python function: decorate it with @triton.jit"
    return str(error)


def _key(names: list[str], path: tuple[int, ...]) -> str:
    return ".".join([names[path[0]], *map(str, path[1:])])


def _type(described: Any) -> Any:
    if not isinstance(described, tuple):
        return str(described)
    result: dict[str, Any] = {"tuple": [_type(each) for each in described]}
    if hasattr(described, "_fields"):
        result |= {"fields": list(described._fields), "name": type(described).__name__}
    return result
