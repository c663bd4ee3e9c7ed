"""What an atomic or volatile operation of TTIR orders between programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .ordering import Synchronisation

_ORDERS = {
    "acquire": Synchronisation(acquires=True, releases=False),
    "release": Synchronisation(acquires=False, releases=True),
    "acq_rel": Synchronisation(acquires=True, releases=True),
    "relaxed": Synchronisation(acquires=False, releases=False),
}
_OF_NUMBER = {1: "relaxed", 2: "acquire", 3: "release", 4: "acq_rel"}  # Triton's MemSemantic


def synchronisation(op: Any, kind: str) -> Synchronisation | None:
    """What an operation orders; None for plain loads and stores.

    A volatile load counts as an atomic that acquires: kernels spin on flags with it. An atomic
    whose result nothing uses acquires nothing.
    """
    attributes: Mapping[str, Any] = getattr(op, "attributes", None) or {}
    if kind == "load":
        return _ORDERS["acquire"] if _is_true(attributes.get("isVolatile")) else None
    if kind != "atomic":
        return None
    stated = attributes.get("sem", "acq_rel")
    name = _OF_NUMBER.get(stated, "acq_rel") if isinstance(stated, int) else str(stated)
    order = _ORDERS.get(name.strip().lower(), _ORDERS["acq_rel"])
    if not getattr(op, "used", True):
        return Synchronisation(acquires=False, releases=order.releases)
    return order


def _is_true(value: Any) -> bool:
    return value is True or value == 1 or str(value).strip().lower() == "true"
