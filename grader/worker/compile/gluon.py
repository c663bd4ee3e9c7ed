"""Gluon, Triton's language of explicit layouts: the names and layouts that kernels may use.

A Gluon kernel is a `@gluon.jit` function that is launched. Its layouts are plain records of
numbers, which a plan names like other constants:
{"layout": "SliceLayout", "dim": 0, "parent": {"layout": "BlockedLayout", ...}}.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import Any

from triton.language.core import constexpr

FOLDER = "triton.experimental.gluon.language"
# Modules of the language for the course's GPU, without other makers' and newer GPUs'.
_SUBMODULES = (
    "nvidia",
    "nvidia.ampere",
    "nvidia.ampere.async_copy",
    "nvidia.ampere.mbarrier",
    "nvidia.hopper",
    "nvidia.hopper.cluster",
    "nvidia.hopper.mbarrier",
    "nvidia.hopper.tma",
    "extra",
)
MODULES = (FOLDER, *(f"{FOLDER}.{name}" for name in _SUBMODULES))
_CLASSES = ("CachePolicy", "FractionalEvictionPolicy", "MBarrierLayout", "distributed_type")
_MOST_ITEMS = 256  # of a list in a layout
_MAX_DEPTH = 6
_PLAIN = (bool, int, type(None))


class NotALayout(ValueError):
    """A layout that no plan can name; the message says what is wrong with it."""


def is_of(path: Any) -> bool:
    """Whether a dotted name is Gluon's, which kernels in Triton can't use."""
    return isinstance(path, str) and (path == FOLDER or path.startswith(f"{FOLDER}."))


def source_class() -> Any:
    """Triton's class of a Gluon kernel to be compiled. Raises ImportError where there is none."""
    return importlib.import_module("triton.experimental.gluon._runtime").GluonASTSource


@functools.cache
def _layouts() -> dict[str, Any]:
    """The classes of layouts that a plan can name: dataclasses of numbers, lists and layouts."""
    try:
        module = importlib.import_module(f"{FOLDER}._layouts")
    except ImportError:  # not in this version
        return {}
    bases = (module.DistributedLayout, module.SharedLayout)
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, bases) and dataclasses.is_dataclass(value)
    }


def is_layout(value: Any) -> bool:
    """Whether a value is a layout of Gluon's own."""
    return _layouts().get(type(value).__name__) is type(value) or _is_of_a_barrier(type(value))


def is_of_language(value: type) -> bool:
    """Whether a class is one that Gluon's kernels instantiate."""
    is_gluons = is_of(value.__module__)
    known = _layouts().get(value.__name__) is value
    return is_gluons and (known or value.__name__ in _CLASSES)


def _is_of_a_barrier(kind: type) -> bool:
    return kind.__name__ == "MBarrierLayout" and is_of(kind.__module__)


# --- literals -------------------------------------------------------------------------------------


def to_json(value: Any) -> dict[str, Any]:
    """The literal of a layout. Raises NotALayout."""
    kind = _layouts().get(type(value).__name__)
    if kind is None or kind is not type(value):
        raise NotALayout(f"the layout {type(value).__name__}")
    described = {each.name: getattr(value, each.name) for each in dataclasses.fields(kind)}
    return {
        "layout": type(value).__name__,
        **{name: _field(each) for name, each in described.items()},
    }


def _field(value: Any, depth: int = 0) -> Any:
    value = value.value if isinstance(value, constexpr) else value
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple) and len(value) <= _MOST_ITEMS and depth < _MAX_DEPTH:
        items = [_field(each, depth + 1) for each in value]
        return {"tuple": items} if isinstance(value, tuple) else items
    if is_layout(value) and depth == 0:
        return to_json(value)
    raise NotALayout(f"a layout made of a {type(value).__name__}")


def from_json(literal: dict[str, Any], depth: int = 0) -> Any:
    """The layout of a literal. Raises NotALayout."""
    kind = _layouts().get(str(literal.get("layout")))
    if kind is None or depth > _MAX_DEPTH:
        raise NotALayout("a layout that isn't Gluon's")
    names = {each.name for each in dataclasses.fields(kind)}
    fields = {name: value for name, value in literal.items() if name != "layout"}
    if not fields.keys() <= names:
        raise NotALayout(f"a {kind.__name__} of other fields")
    values = {name: _from_field(value, depth) for name, value in fields.items()}
    try:
        return kind(**values)
    except (AssertionError, AttributeError, TypeError, ValueError, LookupError) as error:
        raise NotALayout(f"a {kind.__name__} that can't be: {error}") from None


def _from_field(value: Any, depth: int) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list) and len(value) <= _MOST_ITEMS and depth < _MAX_DEPTH:
        return [_from_field(each, depth + 1) for each in value]
    if isinstance(value, dict) and value.keys() == {"tuple"} and isinstance(value["tuple"], list):
        return tuple(_from_field(value["tuple"], depth + 1))
    if isinstance(value, dict) and "layout" in value:
        return from_json(value, depth + 1)
    raise NotALayout("a layout of something else than numbers")
