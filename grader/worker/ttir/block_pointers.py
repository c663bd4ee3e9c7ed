"""Block pointers (tl.make_block_ptr), which Triton has up to 3.7."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import places
from .floats import width_of
from .ir import Op
from .rectangles import Tensor, rectangle, span
from .registry import Run, operation
from .state import Frame, State

_PADDINGS = {1: 0.0, 2: np.nan}  # values outside of a tensor, by `padding`; else undefined


@operation("tt.make_tensor_ptr")
def _make(op: Op) -> Run:
    rank, out = len(op.types[0].shape), op.results[0]

    def run(state: State, frame: Frame) -> None:
        base, *rest = (frame.values[slot] for slot in op.operands)
        parts = [tuple(rest[i * rank : (i + 1) * rank]) for i in range(3)]
        frame.put([out], [(Tensor(base, parts[0], parts[1], parts[2]), None)])

    return run


@operation("tt.advance")
def _advance(op: Op) -> Run:
    out = op.results[0]

    def run(state: State, frame: Frame) -> None:
        pointer, *steps = (frame.values[slot] for slot in op.operands)
        offsets = tuple(a + b for a, b in zip(pointer.offsets, steps, strict=True))
        frame.put([out], [(replace(pointer, offsets=offsets), None)])

    return run


def _block(op: Op, pointer: Tensor, width: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Addresses, and which elements lie inside along the dimensions to be checked."""
    checked = set(op.attributes.get("boundaryCheck", ()))
    shape = op.operand_types[0].shape
    indices = [span(offset, n) for offset, n in zip(pointer.offsets, shape, strict=True)]
    addresses, inside = rectangle(pointer, indices, width, checked)
    return addresses, inside if checked else None


def load(op: Op) -> Run:
    """A load through a block pointer: elements outside have the padding, or are undefined."""
    kind, shape, out = op.types[0].kind, op.types[0].shape, op.results[0]
    padding = _PADDINGS.get(op.attributes.get("padding", 0))

    def run(state: State, frame: Frame) -> None:
        addresses, inside = _block(op, frame.values[op.operands[0]], width_of(kind))
        elements = places.Elements(state, op, kind, shape, addresses, inside)
        value = elements.read(padding or 0)
        frame.put([out], [(value, elements.masked_off() if padding is None else None)])

    return run


def store(op: Op) -> Run:
    """A store through a block pointer: elements outside aren't written."""
    width = width_of(op.operand_types[0].pointee)

    def run(state: State, frame: Frame) -> None:
        pointer, value = (frame.values[slot] for slot in op.operands[:2])
        addresses, inside = _block(op, pointer, width)
        places.store(state, op, addresses, value, inside, frame.poison.get(op.operands[1]))

    return run
