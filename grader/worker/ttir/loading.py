"""Loads and stores through pointers and blocks of pointers."""

from __future__ import annotations

from . import block_pointers
from .ir import Op
from .places import Elements, store
from .poison import check_address
from .registry import Run, operation
from .state import Frame, State


@operation("tt.load", "tt.atomic_load")
def _load(op: Op) -> Run:
    if op.operand_types[0].kind.startswith("block_ptr<"):
        return block_pointers.load(op)
    pointer, *rest = op.operands
    mask, other = (*rest, None, None)[:2]
    kind, block, out = op.types[0].kind, op.types[0].shape, op.results[0]
    way = "atomic" if op.name == "tt.atomic_load" else "load"

    def run(state: State, frame: Frame) -> None:
        if frame.poison:
            check_address(state, frame, op, mask)
        given = None if mask is None else frame.values[mask]
        elements = Elements(state, op, kind, block, frame.values[pointer], given)
        value = elements.read(0 if other is None else frame.values[other], way)
        undefined = elements.masked_off()
        if undefined is not None and other is not None:
            of_other = frame.poison.get(other)
            undefined = of_other and of_other.under(undefined.where)
        frame.put([out], [(value, undefined)])

    return run


@operation("tt.store")
def store_of(op: Op) -> Run:
    """A store, or an atomic one, as it runs."""
    if op.operand_types[0].kind.startswith("block_ptr<"):
        return block_pointers.store(op)
    pointer, source, *rest = op.operands
    mask = rest[0] if rest else None
    way = "atomic" if op.name == "tt.atomic_store" else "store"

    def run(state: State, frame: Frame) -> None:
        if frame.poison:
            check_address(state, frame, op, mask)
        addresses, value = frame.values[pointer], frame.values[source]
        given = None if mask is None else frame.values[mask]
        store(state, op, addresses, value, given, frame.poison.get(source), way)

    return run
