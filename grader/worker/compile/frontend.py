"""The frontend process: compiles a kernel's text, for a specialisation, to TTIR text.

For a Gluon kernel it makes the text of TTGIR, with the layouts that the kernel names.

The specialisation is untrusted, since its planner has run the submission's Python. The compiled
text is that of the submission's files; the specialisation adds only checked literals, types and
names of the language (textual.py).
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import re
import types
import warnings
from typing import Any

import triton.language as tl
from triton._C.libtriton import ir, passes
from triton.backends.compiler import Language
from triton.compiler import ASTSource, code_generator, make_backend
from triton.language.core import base_type, base_value, is_builtin
from triton.runtime.jit import ConstexprFunction, JITFunction

from . import gluon, literals, messages, options, proxies
from .failures import CompileFailure
from .source import SourceFolder
from .textual import Namespace, RecordedFunction, TextFunction, Unusable, made_modules

_DIVISIBILITY = 16  # on which Triton specialises
MAX_TTIR = 8 << 20  # characters


def compile_frontend(folder: str, specialisation: dict[str, Any]) -> dict[str, Any]:
    """{"ttir": text, "name": of the kernel}, or {"error": ...} with CompileFailure's fields.

    The text is TTGIR where the specialisation's language is "gluon". `folder` has the submission's
    files; `specialisation` is a plan's, not yet checked.
    """
    install()
    in_gluon = isinstance(specialisation, dict) and specialisation.get("language") == "gluon"
    namespace = Namespace(_read(folder), in_gluon)
    with warnings.catch_warnings(), messages.captured_stderr() as diagnostics:
        warnings.simplefilter("ignore")
        try:
            return _compile(namespace, specialisation)
        except Exception as error:
            places = [
                messages.Place(made.src, made.function.file, made.function.line)
                for made in namespace.functions
            ]
            return {"error": messages.failure(error, places, diagnostics()).to_json()}


@functools.lru_cache(maxsize=1)
def _read(folder: str) -> SourceFolder:
    """The files of a submission, which can't change while a process compiles them."""
    return SourceFolder(folder)


def _compile(namespace: Namespace, specialisation: Any) -> dict[str, Any]:
    if not isinstance(specialisation, dict):
        raise CompileFailure("a specialisation that is none", kind="forged")
    chosen = options.parsed(specialisation.get("options") or {})
    kernel = namespace.kernel(specialisation, entry=True)
    source = _source(namespace, kernel, specialisation)
    module = lower(source, chosen)
    text = str(module)
    if len(text) > MAX_TTIR:
        raise CompileFailure(f"{kernel.function.name} becomes {len(text):,} characters of TTIR")
    return {"ttir": text, "name": module.get_entry_func_name()}


def lower(source: ASTSource, chosen: Any) -> Any:
    """Triton's frontend and the passes up to the inlining of all calls."""
    backend = make_backend(options.TARGET)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(
        options.TARGET,
        chosen,
        backend.get_codegen_implementation(chosen),
        backend.get_module_map(),
        context,
    )
    manager = ir.pass_manager(context)
    if source.language is Language.GLUON:  # the backend inlines, in an order of its own
        passes.gluon.add_inliner(manager)
        passes.common.add_symbol_dce(manager)
        manager.run(module, "frontend")
        return module
    passes.common.add_inliner(manager)
    passes.common.add_canonicalizer(manager)
    passes.common.add_cse(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "frontend")
    return module


# --- the specialisation's arguments ---------------------------------------------------------------


def _source(
    namespace: Namespace, kernel: TextFunction, specialisation: dict[str, Any]
) -> ASTSource:
    names = kernel.arg_names
    signature = specialisation.get("signature")
    if not isinstance(signature, dict) or list(signature) != names:
        raise CompileFailure("a signature that is not the kernel's", kind="forged")
    types = {name: type_of(each) for name, each in signature.items()}
    constants = {
        _path(names, key): namespace.literal(literal)
        for key, literal in _items(specialisation, "constants")
    }
    attributes = {
        _path(names, key): [["tt.divisibility", _DIVISIBILITY]]
        for key, each in _items(specialisation, "attributes")
        if each == {"divisibility": _DIVISIBILITY}
    }
    kind = gluon.source_class() if kernel.is_gluon() else ASTSource
    return kind(kernel, types, constants, attributes)


def _items(specialisation: dict[str, Any], key: str) -> Any:
    value = specialisation.get(key) or {}
    if not isinstance(value, dict):
        raise CompileFailure(f"{key} of a specialisation that are none", kind="forged")
    return value.items()


def _path(names: list[str], key: Any) -> tuple[int, ...]:
    """ "x" is the parameter x, "x.1.0" the first item of the second item of it."""
    name, *items = str(key).split(".")
    try:
        return (names.index(name), *map(int, items))
    except ValueError:
        raise CompileFailure(
            f"{str(key)[:60]} is no parameter of the kernel", kind="forged"
        ) from None


# --- what the frontend may call -------------------------------------------------------------------

# Limits the functions that a kernel's text may call while Triton's frontend compiles it.
#
# The frontend evaluates attributes of any object and calls the functions that it finds. In
# functions of the submission, an expression with a dot may only give a value of the language;
# Triton's own functions are unchanged.

_PLAIN = (bool, int, float, str, type(None), tl.dtype, base_value, base_type, enum.Enum)
_CLASSES = (bool, int, float, str)
_FORMATTING = ("format", "format_map")  # their fields evaluate attributes of any object


@functools.cache
def install() -> None:
    """Make this process's frontend check attributes. Irreversible."""
    generator = code_generator.CodeGenerator
    visit_attribute, visit_name = generator.visit_Attribute, generator.visit_Name

    def guarded_attribute(self: Any, node: ast.Attribute) -> Any:
        if not isinstance(self.jit_fn, TextFunction):
            return visit_attribute(self, node)
        if node.attr.startswith("__"):
            raise AttributeError(f"{node.attr} can't be used in a kernel")
        value = visit_attribute(self, node)
        if isinstance(value, Unusable):
            raise NameError(value.reason)
        if not is_allowed(value):
            raise AttributeError(f"{ast.unparse(node)[:80]} is not part of Triton's language")
        return value

    def guarded_name(self: Any, node: ast.Name) -> Any:
        value = visit_name(self, node)
        if value is builtins.getattr and isinstance(self.jit_fn, TextFunction):
            raise NameError("getattr can't be used in a kernel")
        return value

    generator.visit_Attribute = guarded_attribute
    generator.visit_Name = guarded_name


def is_allowed(value: Any) -> bool:
    """Whether a value is one of the language, and no Python object that leads elsewhere."""
    if isinstance(value, (TextFunction, RecordedFunction, *_PLAIN)):
        return True
    if gluon.is_layout(value):
        return True
    if isinstance(value, types.ModuleType):
        return proxies.is_proxy(value) or any(value is each for each in made_modules)
    if isinstance(value, tuple | list):
        return all(map(is_allowed, value))
    if isinstance(value, JITFunction | ConstexprFunction):
        return proxies.is_of_triton(value)
    if isinstance(value, type):
        return value in _CLASSES or proxies.path_of(value) is not None
    if is_builtin(value) or isinstance(value, code_generator.BoundJITMethod):
        return True
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return proxies.path_of(value) is not None
    if isinstance(owner, str) and getattr(value, "__name__", "") in _FORMATTING:
        return False
    return isinstance(owner, (*_PLAIN, tuple, list))


# --- types of parameters --------------------------------------------------------------------------

# The types of a kernel's parameters in a plan, checked before Triton reads them.
#
# Triton evaluates the layout in a descriptor's type as a Python expression. A plan is untrusted, so
# the layout may contain only numbers.

_MAX_DEPTH = 8  # of tuples
_PLAIN_TYPE = r"\*{0,2}k?[a-zA-Z][a-zA-Z0-9]{0,11}"
_FIELD = r"[a-z_0-9]{1,30}=(?:[0-9]{1,6}|True|False|\[[0-9, \[\]]{0,400}\])"
_LAYOUT = rf"NVMMASharedLayout\({_FIELD}(?:, {_FIELD}){{0,9}}\)"
_DESCRIPTOR = (
    rf"tensordesc<[a-z0-9]{{1,9}}\[[0-9]{{1,6}}(?:, ?[0-9]{{1,6}}){{0,7}}\](?:,{_LAYOUT})?>"
)
_TYPE = re.compile(f"{_PLAIN_TYPE}|{_DESCRIPTOR}")


def type_of(described: Any, depth: int = 0) -> Any:
    """The type of a parameter as in Triton's signatures: text, or a tuple of them.

    Raises CompileFailure.
    """
    if isinstance(described, str) and _TYPE.fullmatch(described):
        return described
    members = described.get("tuple") if isinstance(described, dict) else None
    if isinstance(members, list) and depth < _MAX_DEPTH:
        items = [type_of(each, depth + 1) for each in members]
        if "fields" in described:
            return literals.named_tuple(described.get("name"), described["fields"])(*items)
        return tuple(items)
    raise CompileFailure(
        f"{str(described)[:60]!r} is not the type of a kernel's parameter", kind="forged"
    )
