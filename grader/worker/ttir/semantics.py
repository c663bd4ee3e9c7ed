"""How atomic and volatile operations of TTIR order the accesses of programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .ordering import Synchronisation

if TYPE_CHECKING:
    from .ir import Op

_ORDERS = {
    "acquire": Synchronisation(acquires=True, releases=False),
    "release": Synchronisation(acquires=False, releases=True),
    "acq_rel": Synchronisation(acquires=True, releases=True),
    "relaxed": Synchronisation(acquires=False, releases=False),
}
_NOTHING = Synchronisation(acquires=False, releases=False)
_READS = ("tt.atomic_load", "tt.atomic_poll")
_NAME = re.compile(r"\b(?:acquire|release|acq_rel|relaxed)\b")


def synchronisation(op: Op, kind: str) -> Synchronisation | None:
    """The ordering effect of an operation; None for plain loads and stores.

    A volatile load counts as an atomic that acquires: kernels spin on flags with it. An atomic
    whose result nothing uses acquires nothing, and one of scope "cta" orders no other programs.
    """
    if kind == "load":
        return _ORDERS["acquire"] if op.attributes.get("isVolatile") else None
    if kind != "atomic":
        return None
    if is_of_program_scope(op):
        return _NOTHING
    # `tt.atomic_rmw fadd, acq_rel, gpu, %pointer, ...`: the order is before the operands.
    name = _NAME.search(op.text.partition("%")[0])
    order = _ORDERS[name[0] if name else "acq_rel"]
    if not op.used:
        return Synchronisation(acquires=False, releases=order.releases)
    return order


def access_of(op: Op, kind: str) -> str:
    """The kind of an access for the search for races: "cta_atomic" for an atomic of scope "cta".

    Such an atomic doesn't exclude those of other programs, as if it loaded and stored plainly.
    """
    if kind != "atomic" or not is_of_program_scope(op):
        return kind
    return "load" if op.name in _READS else "cta_atomic"


def is_of_program_scope(op: Op) -> bool:
    """Whether an atomic's scope is one program: `tt.atomic_rmw fadd, acq_rel, cta, %pointer`."""
    return "cta" in [word.strip() for word in op.text.partition("%")[0].split(",")]
