"""The frontend process: compiles a kernel's text, for a specialisation, to TTIR text.

For a Gluon kernel it makes the text of TTGIR, with the layouts that the kernel names.

The specialisation is untrusted, since its planner has run the submission's Python. The compiled
text is that of the submission's files; the specialisation adds only checked literals, types and
names of the language (textual.py, guard.py).
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import Language
from triton.compiler import ASTSource, make_backend

from . import gluon, guard, literals, messages, options
from .failures import CompileFailure
from .source import SourceFolder
from .textual import Namespace, TextFunction

_DIVISIBILITY = 16  # on which Triton specialises
MAX_TTIR = 8 << 20  # characters


def compile_frontend(folder: str, specialisation: dict[str, Any]) -> dict[str, Any]:
    """{"ttir": text, "name": of the kernel}, or {"error": ...} with CompileFailure's fields.

    The text is TTGIR where the specialisation's language is "gluon". `folder` has the submission's
    files; `specialisation` is a plan's, not yet checked.
    """
    guard.install()
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
    backend, context = make_backend(options.TARGET), _context()
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


@functools.cache
def _context() -> Any:
    """What all modules of a process share: its dialects take longer to load than a small kernel."""
    context = ir.context()
    ir.load_dialects(context)
    make_backend(options.TARGET).load_dialects(context)
    return context


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


_MAX_DEPTH = 8  # of tuples
_PLAIN = r"\*{0,2}k?[a-zA-Z][a-zA-Z0-9]{0,11}"
_FIELD = r"[a-z_0-9]{1,30}=(?:[0-9]{1,6}|True|False|\[[0-9, \[\]]{0,400}\])"
_LAYOUT = rf"NVMMASharedLayout\({_FIELD}(?:, {_FIELD}){{0,9}}\)"
_DESCRIPTOR = (
    rf"tensordesc<[a-z0-9]{{1,9}}\[[0-9]{{1,6}}(?:, ?[0-9]{{1,6}}){{0,7}}\](?:,{_LAYOUT})?>"
)
_TYPE = re.compile(f"{_PLAIN}|{_DESCRIPTOR}")


def type_of(described: Any, depth: int = 0) -> Any:
    """The type of a parameter as in Triton's signatures: text, or a tuple of them.

    Triton evaluates the layout in a descriptor's type as a Python expression. A plan is untrusted,
    so the layout may contain only numbers. Raises CompileFailure.
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
