"""The types of a kernel's parameters in a plan, checked before Triton reads them.

Triton evaluates the layout in a descriptor's type as a Python expression. A plan is untrusted, so
the layout may contain only numbers.
"""

from __future__ import annotations

import re
from typing import Any

from . import literals
from .failures import CompileFailure

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
