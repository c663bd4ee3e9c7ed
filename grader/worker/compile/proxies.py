"""The names of triton.language that a submission's kernel can reach: its public ones.

A Gluon kernel also reaches those of Gluon's language (gluon.py).

Triton's frontend calls any Python function that a name leads to, such as `tl.core.builtins.exec`.
So kernels get modules of the same names that hold only functions of the language, types and
constants.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton.language.core import is_builtin
from triton.runtime.jit import JITCallable

from . import gluon

_SUBMODULES = ("core", "standard", "math", "random", "extra", "target_info")
_EXTRA = {"libdevice": "triton.language.extra.cuda.libdevice", "cuda": "triton.language.extra.cuda"}
LIBDEVICE = "triton.language.extra.libdevice"
_OF_TRITON = ("cdiv", "next_power_of_2")

# Module name -> proxy; a plan's bindings name modules and their members by these names.
MODULES = (
    "triton",
    "triton.language",
    *(f"triton.language.{name}" for name in _SUBMODULES),
    LIBDEVICE,
    *_EXTRA.values(),
    "math",
    *gluon.MODULES,  # last, so that names of both languages are Triton's
)


@functools.cache
def proxy(name: str) -> ModuleType:
    """The proxy of a module in MODULES. Raises KeyError."""
    if name not in MODULES:
        raise KeyError(name)
    if name == LIBDEVICE:  # its functions are stubs of the GPU's functions
        return proxy(_EXTRA["libdevice"])
    return module(name, _members(name))


def module(name: str, members: dict[str, Any]) -> ModuleType:
    """A module of just these members, without a module's attributes, which lead into Python."""
    result = ModuleType(name)
    for attribute in ("__loader__", "__spec__", "__package__", "__doc__"):
        vars(result).pop(attribute, None)
    vars(result).update(members)
    return result


def _members(name: str) -> dict[str, Any]:
    try:
        module = importlib.import_module(name)
    except ImportError:  # not in this version
        return {}
    if name == "math":
        return {key: value for key, value in vars(module).items() if not key.startswith("_")}
    if name == "triton":
        members = {key: getattr(module, key) for key in _OF_TRITON if hasattr(module, key)}
        return members | {"language": proxy("triton.language")}
    members = {key: value for key, value in vars(module).items() if is_public(key, value)}
    if name == "triton.language":
        members |= {key: proxy(f"{name}.{key}") for key in _SUBMODULES if hasattr(module, key)}
    if name == "triton.language.extra":
        members |= {key: proxy(each) for key, each in _EXTRA.items()}
    if gluon.is_of(name):
        inside = {each.rpartition(".") for each in gluon.MODULES}
        members |= {
            key: proxy(f"{name}.{key}")
            for folder, _, key in inside
            if folder == name and hasattr(module, key)
        }
    if name in (_EXTRA["cuda"], f"{gluon.FOLDER}.extra"):
        members["libdevice"] = proxy(_EXTRA["libdevice"])
    return members


def is_public(name: str, value: Any) -> bool:
    """Whether a member of one of triton.language's modules is part of the language."""
    if name.startswith("__"):
        return False
    if isinstance(value, tl.dtype | tl.constexpr | bool | int | float | str):
        return True
    if name == "PropagateNan":
        return True
    if isinstance(value, type):
        return is_of_language(value)
    return is_builtin(value) or is_of_triton(value)


def is_of_language(value: type) -> bool:
    """Whether a class is one of the language's own that kernels name: tl.constexpr, tl.range."""
    of_triton = value.__module__ in ("triton.language.core", "triton.language.math")
    return of_triton or gluon.is_of_language(value)


def is_of_triton(value: Any) -> bool:
    """Whether a jit function is Triton's own, by the module that its Python function lies in."""
    if not isinstance(value, JITCallable):
        return False
    function = value.fn
    module = sys.modules.get(function.__module__)
    inside = function.__module__ == "triton" or function.__module__.startswith("triton.")
    return inside and vars(module or triton) is function.__globals__


def path_of(value: Any) -> str | None:
    """The dotted name by which `resolve` finds a value; None for other values."""
    path = _paths().get(id(value))
    return path[0] if path is not None and path[1] is value else None


def named(value: Any) -> str | None:
    """The dotted name by which `resolve` finds the function that this one claims to be, or None.

    A Triton module that a submission executes again has functions of its own. The frontend replaces
    them by the language's, so the claim needn't be true.
    """
    if not callable(value) or isinstance(value, type):
        return None
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if module not in MODULES or not isinstance(name, str) or not hasattr(proxy(module), name):
        return None
    return None if name.startswith("__") else f"{module}.{name}"


@functools.cache
def _paths() -> dict[int, tuple[str, Any]]:
    paths: dict[int, tuple[str, Any]] = {}
    for name in MODULES:
        for key, value in vars(proxy(name)).items():
            if not key.startswith("__") and not isinstance(value, bool | int | float | str):
                paths.setdefault(id(value), (f"{name}.{key}", value))
    # libdevice's stubs stand for the GPU's functions of the same names.
    for key, value in vars(importlib.import_module(LIBDEVICE)).items():
        if callable(value) and hasattr(proxy(LIBDEVICE), key):
            paths.setdefault(id(value), (f"{LIBDEVICE}.{key}", value))
    return paths


def resolve(path: Any) -> Any:
    """The value of a dotted name, through proxies only. Raises KeyError."""
    module, _, name = str(path).rpartition(".")
    members = vars(proxy(module))
    if name.startswith("__") or name not in members:
        raise KeyError(path)
    return members[name]


def is_proxy(value: Any) -> bool:
    """Whether a module is one of these."""
    return any(value is proxy(name) for name in MODULES)
