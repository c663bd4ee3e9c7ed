"""Conversions between types of numbers, and sums of pointers and offsets."""

from __future__ import annotations

import numpy as np

from .arithmetic import elementwise, to_integer, unsigned
from .errors import NotModelled
from .floats import (
    computed,
    from_bits,
    round_to,
    round_towards_zero,
    stored,
    to_bits,
    width_of,
)
from .ir import Op
from .memory import Zeros
from .registry import Run, operation
from .state import Frame, State


@operation("arith.extf", "arith.truncf", "tt.fp_to_fp")
def _float_to_float(op: Op) -> Run:
    source, target = op.operand_types[0].kind, op.types[0].kind
    if "rtz" in op.text or "toward_zero" in op.text:
        return elementwise(op, lambda a: round_towards_zero(a, target))
    if source == target or (op.name == "arith.extf" and target == "f32"):
        return elementwise(op, lambda a: a)
    return elementwise(op, lambda a: round_to(a, target))


@operation("arith.sitofp", "arith.uitofp")
def _integer_to_float(op: Op) -> Run:
    source, target = op.operand_types[0].kind, op.types[0].kind
    without_sign = op.name == "arith.uitofp"
    dtype: type = np.float64 if source == "i64" or target == "f64" else np.float32
    if target in ("f32", "f64"):
        dtype = computed(target)
    elif source in ("i32", "i64"):
        dtype = np.float64  # rounded once

    def convert(a: np.ndarray) -> np.ndarray:
        if source == "i1" and not without_sign:
            return round_to(-(a.astype(dtype)), target)
        return round_to((unsigned(a) if without_sign else a).astype(dtype), target)

    return elementwise(op, convert)


@operation("arith.fptosi", "arith.fptoui")
def _float_to_integer(op: Op) -> Run:
    """Truncate; values out of range become the nearest number, NaN becomes 0, as on the GPU."""
    dtype = np.dtype(computed(op.types[0].kind))
    if dtype == np.bool_:
        return elementwise(op, lambda a: np.trunc(a) != 0)
    wanted = np.dtype(dtype.str.replace("i", "u")) if op.name == "arith.fptoui" else dtype

    def convert(a: np.ndarray) -> np.ndarray:
        return to_integer(np.trunc(a.astype(np.float64, copy=False)), wanted).view(dtype)

    return elementwise(op, convert)


@operation("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui")
def _integer_to_integer(op: Op) -> Run:
    source, target = op.operand_types[0].kind, op.types[0].kind
    dtype = computed(target)
    if target == "i1":
        return elementwise(op, lambda a: (a & 1).astype(bool))
    if op.name == "arith.extsi" and source == "i1":
        return elementwise(op, lambda a: -(a.astype(dtype)))
    if op.name in ("arith.extui", "arith.index_castui"):
        return elementwise(op, lambda a: unsigned(a).astype(dtype))
    return elementwise(op, lambda a: a.astype(dtype, copy=False))


@operation("arith.bitcast", "tt.bitcast")
def _bitcast(op: Op) -> Run:
    source, target = op.operand_types[0].kind, op.types[0].kind
    if source == target or source.startswith("ptr<"):
        return elementwise(op, lambda a: a)
    before, after = stored(source), stored(target)
    if np.dtype(before).itemsize != np.dtype(after).itemsize:
        raise NotModelled(f"{op.name} from {source} to {target}")

    def convert(a: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(to_bits(a, source)).reshape(a.shape)
        return from_bits(bits.view(after), target)

    return elementwise(op, convert)


@operation("tt.int_to_ptr", "tt.ptr_to_int")
def _pointer_cast(op: Op) -> Run:
    dtype = computed(op.types[0].kind)
    run = elementwise(op, lambda a: a.astype(dtype, copy=False))
    if op.name == "tt.ptr_to_int":
        return run

    def to_pointer(state: State, frame: Frame) -> None:
        if any(isinstance(each, Zeros) for each in state.execution.memory.buffers):
            raise NotModelled("a pointer that was loaded, maybe, from a buffer without data")
        run(state, frame)

    return to_pointer


@operation("tt.addptr")
def _add_to_pointer(op: Op) -> Run:
    width = width_of(op.types[0].pointee)

    def add(pointer: np.ndarray, offset: np.ndarray) -> np.ndarray:
        return pointer + offset.astype(np.int64) * width

    return elementwise(op, add)
