"""Loads and stores through pointers and blocks of pointers."""

from __future__ import annotations

import numpy as np

from . import block_pointers
from .floats import computed, from_bits, stored
from .ir import Op
from .places import Elements, store
from .poison import Poison, check_address
from .registry import Run, operation
from .state import Frame, State


@operation("tt.load")
def _load(op: Op) -> Run:
    if op.operand_types[0].kind.startswith("block_ptr<"):
        return block_pointers.load(op)
    slots, out = op.operands, op.results[0]

    def run(state: State, frame: Frame) -> None:
        if frame.poison:
            check_address(state, frame, op, slots[1] if len(slots) > 1 else None)
        mask = frame.values[slots[1]] if len(slots) > 1 else None
        other = None
        if len(slots) > 2:
            other = frame.values[slots[2]], frame.poison.get(slots[2])
        value, poison = load(state, op, frame.values[slots[0]], mask, other)
        frame.put([out], [(value, poison)])

    return run


def load(
    state: State,
    op: Op,
    addresses: np.ndarray,
    mask: np.ndarray | None,
    other: tuple[np.ndarray, Poison | None] | None,
    way: str = "load",
) -> tuple[np.ndarray, Poison | None]:
    """Load values at addresses under a mask; elsewhere they are the other value."""
    kind, block = op.types[0].kind, op.types[0].shape
    dtype = stored(kind)
    elements = Elements(state, op, kind, block, addresses, mask)
    mask, parts = elements.mask, elements.places("load")
    for each in parts:
        each.buffer.was_read = True
    elements.tell(way, parts)
    if len(parts) == 1 and parts[0].chosen is None:
        return from_bits(parts[0].reading(dtype), kind), None
    shape = np.broadcast_shapes(addresses.shape, () if mask is None else mask.shape)
    fallback = np.zeros((1,) * len(shape), computed(kind)) if other is None else other[0]
    value = fallback
    covered: np.ndarray | None = None
    for each in parts:
        assert each.chosen is not None
        value = np.where(each.chosen, from_bits(each.reading(dtype), kind), value)
        covered = each.chosen if covered is None else covered | each.chosen
    if covered is None:
        value = np.broadcast_to(fallback, np.broadcast_shapes(fallback.shape, (1,) * len(shape)))
    undefined = elements.masked_off()
    if undefined is not None and other is not None:
        undefined = other[1] and other[1].under(undefined.where)
    return value, undefined


@operation("tt.store")
def _store(op: Op) -> Run:
    if op.operand_types[0].kind.startswith("block_ptr<"):
        return block_pointers.store(op)
    slots = op.operands
    masked = len(slots) > 2

    def run(state: State, frame: Frame) -> None:
        poison = None
        if frame.poison:
            check_address(state, frame, op, slots[2] if masked else None)
            poison = frame.poison.get(slots[1])
        mask = frame.values[slots[2]] if masked else None
        store(state, op, frame.values[slots[0]], frame.values[slots[1]], mask, poison)

    return run
