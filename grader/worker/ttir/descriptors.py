"""Tensor descriptors (TMA): loads and stores of blocks, which stay inside the tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .atomics import updating
from .floats import is_float, to_bits, width_of
from .ir import Op
from .places import Elements
from .poison import Poison, check
from .rectangles import Tensor, rectangle, span
from .registry import Run, operation
from .state import Frame, State
from .structure import full

UNIT = 16  # bytes: the start and the rows of a descriptor's tensor are at multiples of it


@operation("tt.make_tensor_descriptor")
def _make(op: Op) -> Run:
    rank, out = len(op.types[0].shape), op.results[0]
    zeros = op.attributes.get("padding", 1) in (1, "zero")

    def run(state: State, frame: Frame) -> None:
        _check(state, frame, op.operands, op)
        base, *rest = (frame.values[slot] for slot in op.operands)
        shape, strides = tuple(rest[:rank]), tuple(rest[rank : 2 * rank])
        frame.put([out], [(Tensor(base, shape, strides, zeros=zeros), None)])

    return run


def _check(state: State, frame: Frame, slots: Sequence[int], op: Op) -> None:
    """Undefined addresses, shapes, strides and indices are findings."""
    if frame.poison:
        for slot in slots:
            check(state, frame, slot, op)


def _elements(state: State, op: Op, tensor: Tensor, indices: list[np.ndarray]) -> Elements:
    """Those of a block in the tensor. A start or a row between multiples of 16 bytes is a finding.

    The TMA of a GPU takes neither. Triton's own check of descriptors made by host code spares the
    tensors without data that a planner has.
    """
    kind = op.operand_types[0].pointee
    width = width_of(kind)
    chosen = True if state.active is None else state.active
    for skipped in (0, *tensor.strides[:-1]):
        start = tensor.base + skipped * np.int64(width)
        wrong = np.broadcast_to((start % UNIT != 0) & chosen, state.linear.shape)
        if wrong.any():
            first = int(np.argmax(wrong))
            address = int(np.broadcast_to(start, wrong.shape)[first])
            program = int(state.linear[first])
            state.execution.find("misaligned_tensor", op, program, address=address, width=UNIT)
            break
    block = tuple(each.shape[1] for each in indices)
    return Elements(state, op, kind, block, *rectangle(tensor, indices, width))


def _read(state: State, op: Op, tensor: Tensor, indices: list[np.ndarray]) -> np.ndarray:
    """The elements of a block; those outside of the tensor are zero or NaN."""
    elements = _elements(state, op, tensor, indices)
    return elements.read(np.nan if not tensor.zeros and is_float(elements.kind) else 0)


@operation("tt.descriptor_load")
def _load(op: Op) -> Run:
    described, shape, out = op.operand_types[0], op.types[0].shape, op.results[0]

    def run(state: State, frame: Frame) -> None:
        _check(state, frame, op.operands, op)
        tensor, indices = _block(op, frame, op.operands)
        value = _read(state, op, tensor, indices)
        if shape != described.shape:
            value = np.broadcast_to(value, (value.shape[0], *described.shape)).reshape(-1, *shape)
        frame.put([out], [(value, None)])

    return run


@operation("tt.descriptor_gather")
def _gather(op: Op) -> Run:
    """Rows of a matrix by their numbers, from one column on."""
    columns, out = op.types[0].shape[-1], op.results[0]

    def run(state: State, frame: Frame) -> None:
        _check(state, frame, op.operands, op)
        tensor, rows, start = (frame.values[slot] for slot in op.operands)
        value = _read(state, op, tensor, [rows, span(start, columns)])
        frame.put([out], [(value, None)])

    return run


def _given(
    frame: Frame, op: Op, source: int, block: tuple[int, ...]
) -> tuple[np.ndarray, Poison | None]:
    """The value to store, in a block's shape, and its poison. Axes of length 1 may be left out."""
    shape = op.operand_types[-1].shape

    def fit(values: np.ndarray) -> np.ndarray:
        return values if shape == block else full(values, shape).reshape(-1, *block)

    poison = frame.poison.get(source)
    return fit(frame.values[source]), poison and poison.moved(fit)


def _write(
    state: State, frame: Frame, op: Op, tensor: Tensor, indices: list[np.ndarray], source: int
) -> None:
    elements = _elements(state, op, tensor, indices)
    value, poison = _given(frame, op, source, elements.block)
    elements.undefined(poison)
    elements.write(to_bits(np.ascontiguousarray(value), elements.kind))


@operation("tt.descriptor_store")
def _store(op: Op) -> Run:
    def run(state: State, frame: Frame) -> None:
        _check(state, frame, op.operands[:-1], op)
        tensor, indices = _block(op, frame, op.operands[:-1])
        _write(state, frame, op, tensor, indices, op.operands[-1])

    return run


def _block(op: Op, frame: Frame, slots: Sequence[int]) -> tuple[Tensor, list[np.ndarray]]:
    """`%desc[%i, %j]`: the tensor in the first of the slots, and the block's indices in it."""
    tensor, *starts = (frame.values[slot] for slot in slots)
    shape = op.operand_types[0].shape
    return tensor, [span(start, n) for start, n in zip(starts, shape, strict=True)]


@operation("tt.descriptor_scatter")
def _scatter(op: Op) -> Run:
    def run(state: State, frame: Frame) -> None:
        _check(state, frame, op.operands[:3], op)
        tensor, rows, start = (frame.values[slot] for slot in op.operands[:3])
        columns = op.operand_types[-1].shape[-1]
        _write(state, frame, op, tensor, [rows, span(start, columns)], op.operands[3])

    return run


@operation("tt.descriptor_reduce")
def _reduce(op: Op) -> Run:
    """Atomic updates of each element inside the tensor, one program after another."""
    block = op.operand_types[0]
    update = updating(op, block.pointee)

    def run(state: State, frame: Frame) -> None:
        _check(state, frame, op.operands[:-1], op)
        tensor, indices = _block(op, frame, op.operands[:-1])
        elements = _elements(state, op, tensor, indices)
        shape, parts = elements.shape, elements.places("atomic")
        elements.tell("atomic", parts)
        value, poison = _given(frame, op, op.operands[-1], block.shape)
        elements.undefined(poison)
        state.execution.changes += 1
        for each in parts:
            update(each, value, shape)

    return run
