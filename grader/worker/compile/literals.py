"""Values that a plan may name for a kernel, as JSON and back.

Each has one form: null, true, 1, 0.5 and "text" are themselves; {"float": "inf"} is a number that
JSON lacks, {"dtype": "fp32"} a Triton type (also of pointers: "*fp32"), {"tuple": [...]} a tuple
(a named one with "fields"), {"kernel": {...}} another kernel and {"layout": "BlockedLayout", ...} a
layout of Gluon's (gluon.py).
"""

from __future__ import annotations

import collections
import enum
import math
from collections.abc import Callable
from typing import Any

import numpy
import triton.language as tl

from . import gluon

MAX_DEPTH = 8
MAX_ITEMS = 256
MAX_LETTERS = 4096

_DTYPES = {
    value.name: value for value in vars(tl).values() if isinstance(value, tl.dtype) and value.name
}


class NotALiteral(ValueError):
    """A value without a literal; the message describes it."""


def to_json(value: Any, kernel: Callable[[Any], Any] | None = None, depth: int = 0) -> Any:
    """The literal of a value; `kernel` converts jit functions. Raises NotALiteral."""
    if depth > MAX_DEPTH:
        raise NotALiteral("tuples nested too deeply")
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, numpy.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, enum.Enum) and isinstance(value, int | str):
        value = value.value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, str):
        if len(value) > MAX_LETTERS:
            raise NotALiteral(f"a text of {len(value):,} characters; at most {MAX_LETTERS:,}")
        return str(value)
    if isinstance(value, tl.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, tuple | list | tl.tuple):
        return _tuple_to_json(value, kernel, depth)
    if gluon.is_layout(value):
        try:
            return gluon.to_json(value)
        except gluon.NotALayout as error:
            raise NotALiteral(str(error)) from None
    if kernel is not None:
        return kernel(value)
    raise NotALiteral(described(value))


def _tuple_to_json(value: Any, kernel: Callable[[Any], Any] | None, depth: int) -> dict[str, Any]:
    items = list(value.values if isinstance(value, tl.tuple) else value)
    if len(items) > MAX_ITEMS:
        raise NotALiteral(f"a tuple of {len(items):,} values; at most {MAX_ITEMS}")
    result: dict[str, Any] = {"tuple": [to_json(item, kernel, depth + 1) for item in items]}
    fields = getattr(value, "_fields", None)
    if isinstance(value, tuple) and fields:
        result |= {"fields": [str(field) for field in fields], "name": type(value).__name__}
    return result


def from_json(literal: Any, kernel: Callable[[Any], Any] | None = None, depth: int = 0) -> Any:
    """The value of a literal. Raises NotALiteral."""
    if literal is None or isinstance(literal, bool | int | float):
        return literal
    if isinstance(literal, str) and len(literal) <= MAX_LETTERS:
        return literal
    if not isinstance(literal, dict) or depth > MAX_DEPTH:
        raise NotALiteral("no literal")
    if literal.keys() == {"float"} and literal["float"] in ("inf", "-inf", "nan"):
        return float(literal["float"])
    if literal.keys() == {"dtype"}:
        return dtype_of(literal["dtype"])
    if literal.keys() == {"kernel"} and kernel is not None:
        return kernel(literal["kernel"])
    if "layout" in literal:
        try:
            return gluon.from_json(literal)
        except gluon.NotALayout as error:
            raise NotALiteral(str(error)) from None
    items = literal.get("tuple")
    if isinstance(items, list) and len(items) <= MAX_ITEMS:
        values = [from_json(item, kernel, depth + 1) for item in items]
        return _tuple_of(values, literal)
    raise NotALiteral("no literal")


def _tuple_of(values: list[Any], literal: dict[str, Any]) -> tuple[Any, ...]:
    if literal.keys() == {"tuple"}:
        return tuple(values)
    fields, name = literal.get("fields"), literal.get("name")
    if literal.keys() == {"tuple", "fields", "name"} and isinstance(fields, list):
        return named_tuple(name, fields)(*values)
    raise NotALiteral("no literal")


def named_tuple(name: Any, fields: list[Any]) -> Callable[..., tuple[Any, ...]]:
    """The class of a named tuple with these fields. Raises NotALiteral."""
    names = [name, *fields]
    if not all(isinstance(each, str) and each.isidentifier() for each in names):
        raise NotALiteral("no names of a tuple's fields")
    try:
        return collections.namedtuple(name, fields)
    except ValueError as error:
        raise NotALiteral(str(error)) from None


def dtype_name(value: tl.dtype) -> str:
    """Triton's short name of a type: "fp32", "*fp32". Raises NotALiteral for block types."""
    if isinstance(value, tl.pointer_type):
        return "*" + dtype_name(value.element_ty)
    if _DTYPES.get(value.name) != value:
        raise NotALiteral(f"the type {value}")
    return str(value.name)


def dtype_of(name: Any) -> tl.dtype:
    """The type of a short name. Raises NotALiteral."""
    if isinstance(name, str) and name.startswith("*") and not name.startswith("**"):
        return tl.pointer_type(dtype_of(name[1:]))
    if not isinstance(name, str) or name not in _DTYPES:
        raise NotALiteral(f"no type: {str(name)[:40]}")
    return _DTYPES[name]


def described(value: Any) -> str:
    """A value's type, in words for a message."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return f"a {kind.__name__}"
    return f"a {kind.__module__}.{kind.__name__}"
