"""Reductions and scans, with any region that combines two elements, and map_elementwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .control import run_blocks
from .errors import MalformedIR, NotModelled
from .floats import computed, round_to
from .ir import Block, Op
from .poison import Pairs, Poison, union
from .registry import Run, operation
from .state import Frame, State

Pair = tuple[np.ndarray, Poison | None]

_COMBINING: dict[str, np.ufunc] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.xori": np.bitwise_xor,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
}
_IDEMPOTENT = np.fmax, np.fmin, np.maximum, np.minimum


def _region(op: Op) -> list[Block]:
    if len(op.regions) != 1:
        raise MalformedIR(f"{op.name} with {len(op.regions)} regions")
    return op.regions[0]


def _alone(op: Op, blocks: list[Block]) -> np.ufunc | None:
    """numpy's function for a combining region with one operation alone, or None."""
    block, ops = blocks[0], blocks[0].ops
    alone = len(ops) == 2 and len(block.arguments) == 2 and len(ops[0].results) == 1
    if len(op.operands) == 1 and alone and sorted(ops[0].operands) == sorted(block.arguments):
        return _COMBINING.get(ops[0].name) if ops[1].operands == ops[0].results else None
    return None


def _combined(
    state: State, frame: Frame, blocks: list[Block], operands: list[Pair], shape: tuple[int, ...]
) -> list[Pair]:
    """The region applied to arrays of elements, all programs and elements at once."""
    if len(blocks) > 1 or any(op.regions or op.name == "tt.call" for op in blocks[0].ops):
        return _by_element(state, frame, blocks, operands, shape)
    outer, state.active = state.active, None
    results = _run_region(state, frame, blocks, operands)
    state.active = outer
    return [_broadcast(pair, shape) for pair in results]


def _by_element(
    state: State, frame: Frame, blocks: list[Block], operands: list[Pair], shape: tuple[int, ...]
) -> list[Pair]:
    """The region with every element as a program of its own, since they may diverge."""
    count = math.prod(shape)
    linear = np.repeat(state.linear[: shape[0]], count // shape[0])
    apart = State(state.execution, linear)
    apart.depth = state.depth
    flat = [_reshaped(_broadcast(pair, shape), (count,)) for pair in operands]
    results = _run_region(apart, frame, blocks, flat)
    return [_reshaped(_broadcast(pair, (count,)), shape) for pair in results]


def _run_region(
    state: State, frame: Frame, blocks: list[Block], operands: list[Pair]
) -> list[Pair]:
    frame.put(blocks[0].arguments, operands)
    run = run_blocks(state, frame, blocks)
    while True:
        try:
            next(run)
        except StopIteration as end:
            results: list[Pair] = end.value
            return results
        raise NotModelled("waiting for another program in a reduction")


def _moved(pair: Pair, move: Callable[[np.ndarray], np.ndarray]) -> Pair:
    """Elements at other places, together with which of them are undefined."""
    value, poison = pair
    return move(value), poison and poison.moved(move)


def _broadcast(pair: Pair, shape: tuple[int, ...]) -> Pair:
    return _moved(pair, lambda each: np.broadcast_to(each, shape))


def _reshaped(pair: Pair, shape: tuple[int, ...]) -> Pair:
    return _moved(pair, lambda each: each.reshape(shape))


def _inputs(op: Op, frame: Frame, axis: int) -> list[Pair]:
    """The operands with the axis at full length and moved to the end."""
    pairs: list[Pair] = []
    rows = (1,) * (len(op.operand_types[0].shape) + 1)
    arrays = []
    for slot, declared in zip(op.operands, op.operand_types, strict=True):
        value, poison = frame.values[slot], frame.poison.get(slot)
        arrays.append((value, poison, declared.shape[axis - 1]))
        rows = np.broadcast_shapes(rows, value.shape)
        if poison is not None:
            rows = np.broadcast_shapes(rows, poison.where.shape)
    for value, poison, length in arrays:
        shape = (*rows[:axis], length, *rows[axis + 1 :])
        whole = _broadcast((value, poison), shape)
        pairs.append(_moved(whole, lambda each: np.moveaxis(each, axis, -1)))
    return pairs


def _cut(pairs: list[Pair], part: slice) -> list[Pair]:
    return [_moved(pair, lambda each: each[..., part]) for pair in pairs]


def _joined(first: list[Pair], second: list[Pair]) -> list[Pair]:
    """Two parts joined along the last axis."""
    return [_one_behind(*pairs) for pairs in zip(first, second, strict=True)]


def _one_behind(first: Pair, second: Pair) -> Pair:
    (a, p), (b, q) = first, second
    before, behind = np.zeros(a.shape, bool), np.zeros(b.shape, bool)
    parts = [
        p and p.moved(lambda where: np.concatenate([where, behind], axis=-1)),
        q and q.moved(lambda where: np.concatenate([before, where], axis=-1)),
    ]
    return np.concatenate([a, b], axis=-1), union(parts)


@operation("tt.reduce")
def _reduce(op: Op) -> Run:
    axis, blocks = op.attributes["axis"] + 1, _region(op)
    function = _alone(op, blocks)
    if function is not None and (op.types[0].kind != "i1" or function not in (np.add, np.multiply)):
        return _quick_reduce(op, axis, function)

    def run(state: State, frame: Frame) -> None:
        pairs = _inputs(op, frame, axis)
        while (length := pairs[0][0].shape[-1]) > 1:
            half = length // 2
            left, right = _cut(pairs, slice(half)), _cut(pairs, slice(half, 2 * half))
            halves = _combined(state, frame, blocks, left + right, left[0][0].shape)
            pairs = halves if length % 2 == 0 else _joined(halves, _cut(pairs, slice(-1, None)))
        frame.put(op.results, [_moved(pair, lambda each: each[..., 0]) for pair in pairs])

    return run


def _quick_reduce(op: Op, axis: int, function: np.ufunc) -> Run:
    """A reduction by one call of numpy."""
    source, out, kind = op.operands[0], op.results[0], op.types[0].kind
    length = op.operand_types[0].shape[axis - 1]
    pairs = function is np.bitwise_xor and length == 2
    dtype = computed(kind)
    options: dict[str, Any] = {"dtype": dtype} if function in (np.add, np.multiply) else {}

    def reduce(state: State, frame: Frame) -> None:
        value = frame.values[source]
        if value.shape[axis] != length and function not in _IDEMPOTENT:
            value = np.broadcast_to(value, (*value.shape[:axis], length, *value.shape[axis + 1 :]))
        result = function.reduce(value, axis=axis, **options)
        frame.values[out] = (
            result
            if dtype == result.dtype and kind[:2] not in ("f1", "bf", "f8")
            else (round_to(result, kind))
        )
        if frame.poison:
            undefined = frame.poison.get(source)
            poison = undefined and undefined.any_along(axis)
            if undefined is not None and poison is not None and pairs:
                poison = replace(poison, pairs=Pairs(frame.values[source], undefined, axis))
            frame.mark(out, poison)

    return reduce


@operation("tt.scan")
def _scan(op: Op) -> Run:
    axis, backwards, blocks = op.attributes["axis"] + 1, op.attributes.get("reverse"), _region(op)
    function = _alone(op, blocks)
    if op.types[0].kind not in ("f32", "f64", "i8", "i16", "i32", "i64"):
        function = None  # each step is rounded

    def run(state: State, frame: Frame) -> None:
        pairs = _inputs(op, frame, axis)
        if backwards:
            pairs = _cut(pairs, slice(None, None, -1))
        if function is not None:
            (value, poison) = pairs[0]
            if poison is not None:
                poison = poison.moved(lambda where: np.logical_or.accumulate(where, axis=-1))
            pairs = [(function.accumulate(value, axis=-1, dtype=value.dtype), poison)]
        else:
            step, length = 1, pairs[0][0].shape[-1]
            while step < length:
                left, right = _cut(pairs, slice(-step)), _cut(pairs, slice(step, None))
                new = _combined(state, frame, blocks, left + right, left[0][0].shape)
                pairs = _joined(_cut(pairs, slice(step)), new)
                step *= 2
        if backwards:
            pairs = _cut(pairs, slice(None, None, -1))
        frame.put(
            op.results, [_moved(pair, lambda each: np.moveaxis(each, -1, axis)) for pair in pairs]
        )

    return run


@operation("tt.map_elementwise")
def _map(op: Op) -> Run:
    """A scalar function of `pack` neighbours at a time, for all elements at once."""
    blocks, pack = _region(op), op.attributes.get("pack", 1)
    if len(blocks[0].arguments) != pack * len(op.operands):
        raise MalformedIR("tt.map_elementwise of another number of operands")
    if pack != 1:
        raise NotModelled("tl.map_elementwise with pack above 1")

    shape = op.types[0].shape

    def run(state: State, frame: Frame) -> None:
        operands = frame.take(op.operands)
        whole = np.broadcast_shapes((1, *shape), *(value.shape for value, _ in operands))
        frame.put(op.results, _combined(state, frame, blocks, operands, whole))

    return run
