"""Infers the types that TTIR's text leaves out."""

from __future__ import annotations

import re
from collections.abc import Callable

from .errors import MalformedIR
from .ir import Op, Type
from .types import descriptor_of, pointer_to, split_list

_BOOLEAN = "i1"
_ANGLE = re.compile(r"\s*<(.*)>\s*$", re.DOTALL)


def result_types(op: Op) -> list[Type]:
    """The types of an operation's results, from its `types` where the text has them."""
    if not op.results:
        return []
    if op.types:
        return op.types * len(op.results) if len(op.types) == 1 else op.types
    if op.name == "arith.constant" and op.text.strip() in ("true", "false"):
        return [Type((), _BOOLEAN)]
    given = op.operand_types
    if not given:
        raise MalformedIR(f"{op.name} without a type")
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return [Type(given[0].shape, _BOOLEAN)]
    if op.name == "tt.load":
        return [Type(given[0].shape, given[0].pointee)]
    if op.name in ("tt.addptr", "tt.make_tensor_ptr", "tt.advance"):
        return [given[0]]
    if op.name == "tt.make_tensor_descriptor":
        return [given[-1]]
    return [given[-1]] * len(op.results)


def _inside(text: str) -> str:
    matched = _ANGLE.match(text)
    if matched is None:
        raise MalformedIR(f"the type {text[:80]!r}")
    return matched[1]


def _block_pointer(text: str) -> list[Type]:
    return [pointer_to(_inside(text))]


def _descriptor(text: str) -> list[Type]:
    pointer, block = (_inside(part) for part in split_list(text)[:2])
    return [pointer_to(pointer), descriptor_of(block)]


OPERAND_TYPES: dict[str, Callable[[str], list[Type]]] = {
    "tt.make_tensor_ptr": _block_pointer,
    "tt.advance": _block_pointer,
    "tt.make_tensor_descriptor": _descriptor,
}
