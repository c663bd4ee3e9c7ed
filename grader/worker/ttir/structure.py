"""Operations that make blocks or move their elements, and ids of programs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

import numpy as np

from .errors import MalformedIR
from .floats import computed, from_bits, is_float, round_to, stored
from .ir import Op, Type
from .poison import Poison, keep_pairs, reshaped, some, union
from .registry import Run, operation
from .state import Frame, State

Move = Callable[[np.ndarray], np.ndarray]
_DENSE = re.compile(r"dense<(.*)>\s*$", re.DOTALL)
_SIGNIFICANT = re.compile(r"[^\s,\[\]]+")


def full(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A value expanded along all axes but the programs'."""
    return np.broadcast_to(value, (value.shape[0], *shape))


def _moving(op: Op, move: Move) -> Run:
    """An operation that moves the elements of its operand."""
    source, out = op.operands[0], op.results[0]

    def run(state: State, frame: Frame) -> None:
        frame.values[out] = move(frame.values[source])
        if frame.poison:
            reshaped(frame, source, out, move)

    return run


def _keeping_pairs(op: Op, move: Move, expanded: int | None = None) -> Run:
    """As `_moving`, of an operation that may stand in the middle of an exchange of elements."""
    source, out, moving = op.operands[0], op.results[0], _moving(op, move)

    def run(state: State, frame: Frame) -> None:
        moving(state, frame)
        if frame.poison:
            keep_pairs(frame, source, out, expanded)

    return run


def defined(op: Op, make: Callable[[State], np.ndarray]) -> Run:
    """An operation without operands, whose value `make` gives."""
    out = op.results[0]

    def run(state: State, frame: Frame) -> None:
        frame.values[out] = make(state)
        if frame.poison:
            frame.poison.pop(out, None)

    return run


# --- constants and ids --------------------------------------------------------------------------


def number(text: str, kind: str) -> np.ndarray:
    """One number as MLIR writes it: decimal, true or false, or the bits of a float in hex."""
    if text in ("true", "false"):
        return np.asarray(text == "true", computed(kind))
    if len(text) > 400:
        raise MalformedIR("a number of more than 400 digits")
    if not is_float(kind):
        bits = np.dtype(computed(kind)).itemsize * 8
        value = int(text, 0) & ((1 << bits) - 1)
        if kind == "i1":
            return np.asarray(value & 1, bool)
        return np.asarray(value, f"u{bits // 8}").view(computed(kind))
    if text.startswith("0x"):
        bits_type = np.dtype(f"u{np.dtype(stored(kind)).itemsize}")
        return _of_bits(np.asarray([int(text, 16)], bits_type), kind).reshape(())
    return round_to(np.asarray([float(text)]), kind).reshape(())


def _of_bits(bits: np.ndarray, kind: str) -> np.ndarray:
    return from_bits(bits.view(stored(kind)), kind)


def _elements(text: str, declared: Type) -> np.ndarray:
    """The elements of a `dense<...>`."""
    shape, kind = declared.shape, declared.kind
    if text.startswith('"0x'):
        data = bytes.fromhex(text.strip('"')[2:])
        dtype = np.dtype(stored(kind))
        return _of_bits(np.frombuffer(data, f"u{dtype.itemsize}"), kind).reshape(1, *shape)
    if not text.startswith("["):
        return np.reshape(number(text, kind), (1,) * (len(shape) + 1))
    words = _SIGNIFICANT.findall(text)
    if len(words) != declared.size:
        raise MalformedIR(f"{len(words)} elements in a block of {declared.size}")
    return np.array([number(word, kind) for word in words]).reshape(1, *shape)


@operation("arith.constant")
def _constant(op: Op) -> Run:
    text = op.text.strip()
    if text.startswith("{"):  # attributes
        text = text[text.index("}") + 1 :].strip()
    dense = _DENSE.match(text)
    try:
        value = _elements(dense[1].strip() if dense else text, op.types[0])
    except (ValueError, OverflowError):
        raise MalformedIR(f"the constant {text[:60]}") from None
    return defined(op, lambda state: value)


@operation("ub.poison")
def _poison(op: Op) -> Run:
    """A value that nothing may depend on: the initial value of variables set inside a loop."""
    declared, out = op.types[0], op.results[0]
    value: np.ndarray = np.zeros((1,) * (len(declared.shape) + 1), computed(declared.kind))
    poison = Poison(np.ones(value.shape, bool), op)

    def run(state: State, frame: Frame) -> None:
        frame.values[out] = value
        frame.poison[out] = poison

    return run


@operation("tt.get_program_id")
def _program_id(op: Op) -> Run:
    axis = "xyz".index(op.text.strip()[0])
    return defined(op, lambda state: state.ids[axis])


@operation("tt.get_num_programs")
def _number_of_programs(op: Op) -> Run:
    axis = "xyz".index(op.text.strip()[0])
    return defined(op, lambda state: np.array([state.execution.grid[axis]], np.int32))


@operation("tt.make_range")
def _make_range(op: Op) -> Run:
    start, end = op.attributes["start"], op.attributes["end"]
    if end - start != op.types[0].size:
        raise MalformedIR("a range of another length")
    value = np.arange(start, end, dtype=np.int64).astype(np.int32)[None]
    return defined(op, lambda state: value)


# --- shapes -------------------------------------------------------------------------------------


@operation("tt.splat")
def _splat(op: Op) -> Run:
    ones = (1,) * len(op.types[0].shape)
    return _moving(op, lambda value: value.reshape(-1, *ones))


@operation("tt.unsplat")
def _unsplat(op: Op) -> Run:
    return _moving(op, lambda value: value.reshape(value.shape[0]))


@operation("tt.expand_dims")
def _expand_dims(op: Op) -> Run:
    axis = op.attributes["axis"] + 1
    return _keeping_pairs(op, lambda value: np.expand_dims(value, axis), expanded=axis)


@operation("tt.broadcast")
def _broadcast(op: Op) -> Run:
    return _keeping_pairs(op, lambda value: value)


@operation("tt.trans")
def _transpose(op: Op) -> Run:
    axes = op.attributes.get("order")
    if not isinstance(axes, tuple):
        raise MalformedIR("tt.trans without an order")
    order = (0, *(axis + 1 for axis in axes))
    return _moving(op, lambda value: np.transpose(value, order))


@operation("tt.reshape")
def _reshape(op: Op) -> Run:
    before, after = op.operand_types[0].shape, op.types[0].shape
    ones = (1,) * len(after)
    may_reorder = "allow_reorder" in op.text.split()

    def reshape(value: np.ndarray) -> np.ndarray:
        if value.size == value.shape[0]:  # all elements are equal
            return value.reshape(-1, *ones)
        reshaped = full(value, before).reshape(-1, *after)
        return _reordered(reshaped) if may_reorder else reshaped

    return _moving(op, reshape)


def _reordered(value: np.ndarray) -> np.ndarray:
    """The elements in another order, as the compiler may choose one: each block backwards."""
    return np.flip(value, tuple(range(1, value.ndim)))


def _of_two(op: Op, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Run:
    """A block made of two."""
    (a, b), out = op.operands, op.results[0]
    shape_a = op.operand_types[0].shape
    shape_b = op.operand_types[-1].shape

    def both(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        rows = max(len(left), len(right))
        return combine(
            np.broadcast_to(left, (rows, *shape_a)), np.broadcast_to(right, (rows, *shape_b))
        )

    def run(state: State, frame: Frame) -> None:
        values, poison = frame.values, frame.poison
        values[out] = both(values[a], values[b])
        if poison:
            of_a, of_b = poison.get(a), poison.get(b)
            nowhere = np.zeros((1,) * values[a].ndim, bool)
            left = of_a and of_a.moved(lambda where: both(where, nowhere))
            right = of_b and of_b.moved(lambda where: both(nowhere, where))
            frame.mark(out, union([left, right]))

    return run


@operation("tt.join")
def _join(op: Op) -> Run:
    return _of_two(op, lambda a, b: np.stack([a, b], axis=-1))


@operation("tt.cat")
def _concatenate(op: Op) -> Run:
    """All elements of two blocks, in any order (`can_reorder`)."""
    return _of_two(op, lambda a, b: _reordered(np.concatenate([a, b], axis=1)))


@operation("tt.split")
def _split(op: Op) -> Run:
    source, shape = op.operands[0], op.operand_types[0].shape

    def run(state: State, frame: Frame) -> None:
        value = full(frame.values[source], shape)
        for half, out in enumerate(op.results):
            frame.values[out] = value[..., half]
            if frame.poison:
                reshaped(frame, source, out, functools.partial(_half, shape=shape, half=half))

    return run


def _half(where: np.ndarray, shape: tuple[int, ...], half: int) -> np.ndarray:
    return full(where, shape)[..., half]


@operation("tt.gather")
def _gather(op: Op) -> Run:
    (source, index), out = op.operands, op.results[0]
    axis = op.attributes["axis"] + 1
    shape_of_source, of_index = op.operand_types[0].shape, op.operand_types[1].shape

    def gather(value: np.ndarray, places: np.ndarray) -> np.ndarray:
        rows = max(len(value), len(places))
        value = np.broadcast_to(value, (rows, *shape_of_source))
        places = np.broadcast_to(places, (rows, *of_index))
        return np.take_along_axis(value, places, axis)

    def run(state: State, frame: Frame) -> None:
        values, poison = frame.values, frame.poison
        wanted = values[index].astype(np.int64)
        places = np.clip(wanted, 0, shape_of_source[axis - 1] - 1)
        values[out] = gather(values[source], places)
        outside = some(places != wanted, op)
        if poison or outside:
            undefined_source = poison.get(source)
            moved = undefined_source and undefined_source.moved(lambda where: gather(where, places))
            frame.mark(out, union([moved, poison.get(index), outside]))

    return run


@operation("tt.histogram")
def _histogram(op: Op) -> Run:
    """Counts of the values from 0 to the number of bins, exclusive; others aren't counted."""
    source, out = op.operands[0], op.results[0]
    mask = op.operands[1] if len(op.operands) > 1 else None
    bins, length = op.types[0].size, op.operand_types[0].size
    dtype = computed(op.types[0].kind)

    def run(state: State, frame: Frame) -> None:
        value = full(frame.values[source], (length,)).astype(np.int64)
        counted = (value >= 0) & (value < bins)
        if mask is not None:
            counted = counted & frame.values[mask]
        rows = counted.shape[0]
        value = np.broadcast_to(value, counted.shape)
        keys = (np.arange(rows)[:, None] * bins + value)[counted]
        counts = np.bincount(keys, minlength=rows * bins)
        frame.values[out] = counts.reshape(rows, bins).astype(dtype)
        if frame.poison:
            undefined, of_mask = frame.poison.get(source), None
            if mask is not None:
                undefined = undefined and undefined.under(frame.values[mask])
                of_mask = frame.poison.get(mask)
            undefined = union([undefined, of_mask])
            frame.mark(out, undefined and undefined.any_along(1, keepdims=True))

    return run
