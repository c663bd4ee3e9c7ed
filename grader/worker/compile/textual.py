"""Jit functions made from a submission's text, for Triton's own frontend to compile.

A kernel reference names a function by file, line and hash, and has the values of its free names.
It becomes a JITFunction whose Python function is a stub, so nothing of the text is executed. Its
syntax tree is the text's, and its names are literals, types, proxies of triton.language and other
such functions.
"""

from __future__ import annotations

import ast
import copy
import functools
import json
import linecache
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from triton.language import constexpr
from triton.runtime.jit import ConstexprFunction, JITFunction

from . import gluon, literals, proxies
from .failures import CompileFailure
from .source import FunctionText, SourceFolder

MAX_KERNELS = 500  # references in one specialisation
MODULE = "submission"
_HASH = re.compile(r"[0-9a-f]{64}")

_NOT_GLUON = (
    "; a kernel under @triton.jit may use triton.language and modules of this submission, one "
    "under @gluon.jit Gluon's too"
)

made_modules: list[types.ModuleType] = []  # in the place of sibling modules of the submission


class TextFunction(JITFunction):  # type: ignore[misc]  # Triton has no types
    """A jit function of the submission's text."""

    def __init__(
        self,
        stub: types.FunctionType,
        function: FunctionText,
        tree: ast.Module,
        in_gluon: bool = False,
    ) -> None:
        super().__init__(stub, noinline=function.is_noinline)
        self.function = function
        self._tree = tree
        self._in_gluon = in_gluon

    def is_gluon(self) -> bool:
        """Whether the frontend treats it as Gluon, like all functions that a Gluon kernel calls."""
        return self._in_gluon

    @property
    def cache_key(self) -> str:
        """A key for dictionaries. Triton's own is a hash over the values of all names."""
        return f"{self.function.digest}:{id(self)}"

    def parse(self) -> ast.Module:
        """The tree of the text, without defaults and annotations: those are the stub's.

        Triton's frontend reads a tree and changes nothing in it.
        """
        return self._tree


class RecordedFunction(ConstexprFunction):  # type: ignore[misc]  # Triton has no types
    """A constexpr_function of the text: a table of the results that the planner recorded."""

    def __init__(self, name: str, calls: list[tuple[list[Any], dict[str, Any], Any]]) -> None:
        self.__name__ = name
        self._calls = calls
        self.used_global_vals: dict[str, Any] = {}

    @property
    def cache_key(self) -> str:
        """A key for dictionaries."""
        return f"{self.__name__}:{id(self)}"

    def __call__(self, *args: Any, _semantic: Any = None, **kwargs: Any) -> Any:
        """The recorded result, as a constexpr. Raises CompileFailure where there is none."""
        try:
            key = call_key(args, kwargs)
        except literals.NotALiteral as error:
            raise CompileFailure(f"{self.__name__} got {error}, not a constant") from None
        for positional, named, result in self._calls:
            if json.dumps([positional, named], sort_keys=True) == key:
                value = literals.from_json(result)
                return value if _semantic is None else constexpr(value)
        raise CompileFailure(f"{self.__name__} was not called with {key} while the launch was made")


class Unusable:
    """A global value that kernels can't use; the frontend reports its use."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getattr__(self, name: str) -> Any:
        # The frontend reads marks of the language from any global value.
        raise NameError(self.reason)


def call_key(args: Any, kwargs: Mapping[str, Any]) -> str:
    """The arguments of a call as comparable text. Raises NotALiteral."""
    positional = [literals.to_json(each) for each in args]
    named = {name: literals.to_json(each) for name, each in kwargs.items()}
    return json.dumps([positional, named], sort_keys=True)


class Namespace:
    """Makes the functions of one specialisation, of a kernel in Triton or in Gluon."""

    def __init__(self, folder: SourceFolder, in_gluon: bool = False) -> None:
        self.folder = folder
        self.in_gluon = in_gluon
        self.functions: list[TextFunction] = []
        self._count = 0

    def kernel(self, reference: Any, entry: bool = False) -> TextFunction:
        """The function of a kernel reference. Raises CompileFailure."""
        self._count += 1
        if self._count > MAX_KERNELS:
            raise CompileFailure(f"a kernel that calls more than {MAX_KERNELS} functions")
        if not isinstance(reference, dict):
            raise CompileFailure("a kernel reference that is none", kind="forged")
        function = self._function(reference)
        suffix = "" if entry else f"_{len(self.functions)}"
        parsed = _parsed(function)
        stub = self._stub(function, parsed, reference)
        # Triton distinguishes functions by this name; two of one name may have other bindings.
        stub.__qualname__ = stub.__name__ = function.name + suffix
        made = TextFunction(stub, function, parsed.tree, self.in_gluon)
        self.functions.append(made)
        bindings = reference.get("bindings") or {}
        for name, binding in bindings.items():
            stub.__globals__[name] = self._bound(name, binding, function)
        return made

    def _function(self, reference: dict[str, Any]) -> FunctionText:
        file, line, digest = (reference.get(key) for key in ("file", "line", "hash"))
        if not isinstance(file, str) or type(line) is not int or not isinstance(digest, str):
            raise CompileFailure("a kernel reference without file, line or hash", kind="forged")
        function = self.folder.function(file, line)
        if not _HASH.fullmatch(digest) or function.digest != digest:
            raise CompileFailure(
                f"the text of {function.name} is not what it was when the launch was made",
                file,
                line,
                kind="forged",
            )
        return function

    def _stub(
        self, function: FunctionText, parsed: _Parsed, reference: dict[str, Any]
    ) -> types.FunctionType:
        """A Python function with the text's parameters and place, and an empty body.

        Nothing of the text is evaluated, and defaults are the plan's.
        """
        lines, path = self.folder.lines(function.file), _path(function)
        # inspect reads the file's lines from here instead of the disk.
        linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
        scope: dict[str, Any] = {"__name__": MODULE, "__builtins__": {}}
        exec(parsed.stub, scope)
        made: types.FunctionType = scope[function.name]
        scope.clear()
        defaults = reference.get("defaults") or {}
        values = {
            name: self._default(defaults[name]) if name in defaults else _NoDefault()
            for name in (*parsed.positional, *parsed.keyword)
        }
        made.__defaults__ = tuple(values[name] for name in parsed.positional) or None
        made.__kwdefaults__ = {name: values[name] for name in parsed.keyword} or None
        return made

    def _default(self, literal: Any) -> Any:
        value = self.literal(literal)
        # Triton takes other values of a plan for constants by itself; 3.6 doesn't take layouts.
        return constexpr(value) if gluon.is_layout(value) else value

    def _bound(self, name: str, binding: Any, function: FunctionText) -> Any:
        """The value of a free name. Raises CompileFailure."""
        if not isinstance(binding, dict):
            return self.literal(binding)
        if binding.keys() == {"module"}:
            if gluon.is_of(binding["module"]) and not self.in_gluon:
                return Unusable(f"{name} leads to the module {binding['module']}{_NOT_GLUON}")
            return self._proxy(binding["module"], function)
        if binding.keys() == {"language"}:
            if gluon.is_of(binding["language"]) and not self.in_gluon:
                return Unusable(f"{name} leads to {binding['language']}{_NOT_GLUON}")
            try:
                return proxies.resolve(binding["language"])
            except KeyError:
                raise CompileFailure(
                    f"{name}: triton.language has no {binding['language']}",
                    function.file,
                    function.line,
                ) from None
        if binding.keys() == {"members"} and isinstance(binding["members"], dict):
            members = {
                member: self._bound(f"{name}.{member}", value, function)
                for member, value in binding["members"].items()
            }
            made_modules.append(proxies.module(name, members))
            return made_modules[-1]
        if binding.keys() == {"unusable"}:
            return Unusable(str(binding["unusable"]))
        if binding.keys() == {"constexpr"}:
            return constexpr(self.literal(binding["constexpr"]))
        if binding.keys() == {"constexpr_function"}:
            return self._recorded(binding["constexpr_function"])
        if binding.keys() == {"tuple_class"}:
            return self._tuple_class(binding["tuple_class"])
        return self.literal(binding)

    def _proxy(self, name: Any, function: FunctionText) -> types.ModuleType:
        try:
            return proxies.proxy(name)
        except (KeyError, TypeError):
            raise CompileFailure(
                f"a kernel can't use the module {str(name)[:60]}", function.file, function.line
            ) from None

    def _recorded(self, table: Any) -> RecordedFunction:
        try:
            calls = [
                (each["arguments"], each["keywords"], each["result"]) for each in table["calls"]
            ]
            return RecordedFunction(str(table["name"]), calls)
        except (TypeError, KeyError):
            raise CompileFailure("a table of results that is none", kind="forged") from None

    def _tuple_class(self, description: Any) -> Callable[..., tuple[Any, ...]]:
        try:
            return literals.named_tuple(description["name"], description["fields"])
        except (TypeError, KeyError, literals.NotALiteral) as error:
            raise CompileFailure(f"a tuple's class that is none: {error}", kind="forged") from None

    def literal(self, literal: Any) -> Any:
        """A value that a plan names: of a binding, or a specialisation's constant."""
        try:
            return literals.from_json(literal, self.kernel)
        except literals.NotALiteral as error:
            raise CompileFailure(f"a value that no plan can name: {error}", kind="forged") from None


class _Parsed(NamedTuple):
    """A function's text as its specialisations share it."""

    tree: ast.Module  # without annotations, defaults and decorators, which would be evaluated
    stub: types.CodeType  # of a module that defines it with an empty body
    positional: tuple[str, ...]  # parameters with defaults
    keyword: tuple[str, ...]


@functools.lru_cache(maxsize=MAX_KERNELS)
def _parsed(function: FunctionText) -> _Parsed:
    """Parse a function. Raises CompileFailure."""
    node: Any = ast.parse(function.text).body[0]
    if getattr(node, "type_params", None):
        raise CompileFailure("a kernel with type parameters", function.file, function.line)
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    names = (
        tuple(each.arg for each in positional[len(positional) - len(arguments.defaults) :]),
        tuple(each.arg for each, default in keyword if default is not None),
    )
    stub = copy.copy(node)
    stub.args = copy.deepcopy(arguments)
    stub.body, stub.decorator_list, stub.returns = [ast.Pass()], [], None
    stub.args.defaults = [ast.Constant(None) for _ in arguments.defaults]
    stub.args.kw_defaults = [each and ast.Constant(None) for each in arguments.kw_defaults]
    for parameter in _parameters(stub):
        if parameter.annotation is not None:
            parameter.annotation = ast.Constant(_annotation(parameter.annotation))
    module = ast.fix_missing_locations(ast.Module(body=[stub], type_ignores=[]))
    ast.increment_lineno(module, function.line - 1)
    code = compile(module, _path(function), "exec", dont_inherit=True)
    node.decorator_list, node.returns = [], None
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    for parameter in _parameters(node):
        parameter.annotation = None
    return _Parsed(ast.Module(body=[node], type_ignores=[]), code, *names)


def _path(function: FunctionText) -> str:
    """The file's name in TTIR, independent of where the files are."""
    return f"/{MODULE}/{function.file}"


class _NoDefault:
    """In place of a default that the plan lacks: the frontend refuses its use."""


def _parameters(node: ast.FunctionDef) -> list[ast.arg]:
    arguments = node.args
    starred = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def _annotation(node: ast.expr) -> str:
    text = ast.unparse(node)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else text
