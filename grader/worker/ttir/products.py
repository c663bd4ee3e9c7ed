"""Matrix products: tt.dot and tt.dot_scaled."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .errors import NotModelled
from .floats import FLOAT8, computed, from_bits, round_to, truncate_to_tf32
from .ir import Op
from .poison import Poison, union
from .registry import Run, operation
from .state import Frame, State
from .structure import full

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]

_EXACT_IN_FLOAT32 = 1024  # this many products of two int8 add up to less than 2**24


def _bf16_parts(values: np.ndarray, count: int) -> list[np.ndarray]:
    """bfloat16 numbers that add up to nearly the values, the largest first."""
    parts = []
    for _ in range(count):
        part = round_to(values, "bf16")
        parts.append(part)
        values = values - part
    return parts


def _tf32x3(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    big_a, big_b = truncate_to_tf32(a), truncate_to_tf32(b)
    small_a, small_b = truncate_to_tf32(a - big_a), truncate_to_tf32(b - big_b)
    return np.matmul(small_a, big_b) + np.matmul(big_a, small_b) + np.matmul(big_a, big_b)


def _bf16_product(terms: int) -> Product:
    """A product of float32 split into bfloat16 parts: its `terms` largest terms."""
    count = 3 if terms > 1 else 1
    if terms == 3:
        count = 2

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        parts_a, parts_b = _bf16_parts(a, count), _bf16_parts(b, count)
        total = np.zeros(1, np.float32)
        for order in reversed(range(count)):
            for i in range(order + 1):
                total = total + np.matmul(parts_a[i], parts_b[order - i])
        return total

    return product


_PRECISIONS: dict[str, Product] = {
    "ieee": np.matmul,
    "tf32": lambda a, b: np.matmul(truncate_to_tf32(a), truncate_to_tf32(b)),
    "tf32x3": _tf32x3,
    "bf16": _bf16_product(1),
    "bf16x3": _bf16_product(3),
    "bf16x6": _bf16_product(6),
}


_STEP = 16  # products that a matrix instruction adds to a sum before it rounds the sum


def _product_of(op: Op) -> tuple[Product, type]:
    """The function that multiplies two blocks, and its type."""
    kinds = {each.kind for each in op.operand_types[:2]}
    result = op.types[0].kind
    if result == "i32":
        small = op.operand_types[0].shape[-1] <= _EXACT_IN_FLOAT32
        return np.matmul, np.float32 if small else np.float64
    if result == "f64":
        return np.matmul, np.float64
    if kinds == {"f32"}:
        precision = str(op.attributes.get("inputPrecision", "ieee"))
        if precision not in _PRECISIONS:
            raise NotModelled(f"tl.dot with input precision {precision}")
        return _PRECISIONS[precision], np.float32
    return np.matmul, np.float32


@operation("tt.dot")
def _dot(op: Op) -> Run:
    product, dtype = _product_of(op)
    (a, b, c), out = op.operands[:3], op.results[0]
    shape_a, shape_b = (each.shape for each in op.operand_types[:2])
    kind = op.types[0].kind
    wanted = computed(kind)
    is_exact = kind in ("f32", "f64", "i32")
    step = shape_a[-1] if is_exact else _STEP

    def run(state: State, frame: Frame) -> None:
        values = frame.values
        left: np.ndarray = full(values[a], shape_a).astype(dtype, copy=False)
        right: np.ndarray = full(values[b], shape_b).astype(dtype, copy=False)
        result = values[c]
        for first in range(0, shape_a[-1], step):
            part = slice(first, first + step)
            more = product(left[..., part], right[..., part, :])
            if wanted == np.int32:
                more = more.astype(np.int64).astype(np.int32)
            result = result + more if is_exact else round_to(result + more, kind)
        values[out] = result
        if frame.poison:
            _poison(frame, op.operands[:3], out)

    return run


def _poison(frame: Frame, operands: list[int], out: int) -> None:
    """Mark all products of a row or column with an undefined element as undefined."""
    of_a, of_b, of_c = (frame.poison.get(slot) for slot in operands)
    rows = of_a and of_a.any_along(-1, keepdims=True)
    columns = of_b and of_b.any_along(-2, keepdims=True)
    undefined = union([rows, columns, of_c])
    frame.mark(out, undefined if undefined is not None and undefined.where.any() else None)


# --- microscaling formats -----------------------------------------------------------------------

_SCALED = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "bf16": "bf16", "fp16": "f16"}


@functools.cache
def _e2m1() -> np.ndarray:
    positive = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    return np.concatenate([positive, -positive])


def _decoded(bits: np.ndarray, form: str, along: int) -> np.ndarray:
    """Numbers of a microscaling format. A byte of e2m1 has two, the lower half first."""
    if form == "e2m1":
        code = bits.view(np.uint8)
        low, high = _e2m1()[code & 15], _e2m1()[code >> 4]
        stacked = np.stack([low, high], axis=along + 1)
        shape = list(bits.shape)
        shape[along] *= 2
        return stacked.reshape(shape)
    kind = _SCALED.get(form)
    if kind is None:
        raise NotModelled(f"tl.dot_scaled of {form}")
    if bits.dtype == np.float32:
        return bits
    return from_bits(bits.view(np.uint8), kind)


def _factors(scale: np.ndarray, kind: str) -> np.ndarray:
    """Scales: powers of two by their exponent (e8m0), or numbers of e4m3."""
    if kind in FLOAT8:
        return scale
    code = scale.view(np.uint8)
    return np.where(code == 255, np.nan, np.ldexp(1.0, code.astype(np.int32) - 127)).astype(
        np.float32
    )


@operation("tt.dot_scaled")
def _dot_scaled(op: Op) -> Run:
    """Blocks times the scales of their groups along K, multiplied.

    Scales have the shape (M, K / group) and (N, K / group).
    """
    scaled = ["scale" in part for part in op.text.split(",")[:2]]
    slots = list(op.operands)
    a = slots.pop(0)
    scale_a = slots.pop(0) if scaled[0] else None
    b = slots.pop(0)
    scale_b = slots.pop(0) if scaled[1] else None
    c, out = slots[0], op.results[0]
    types = list(op.operand_types)
    type_a = types.pop(0)
    kind_a = types.pop(0).kind if scaled[0] else ""
    type_b = types.pop(0)
    kind_b = types.pop(0).kind if scaled[1] else ""
    lhs, rhs = str(op.attributes["lhs"]), str(op.attributes["rhs"])
    pack_a = op.attributes.get("lhs_k_pack", True)
    pack_b = op.attributes.get("rhs_k_pack", True)

    def scaled_by(
        values: np.ndarray, scale: np.ndarray | None, kind: str, transposed: bool
    ) -> np.ndarray:
        if scale is None:
            return values
        depth = values.shape[-2 if transposed else -1]
        factors = _factors(scale, kind)
        factors = np.repeat(factors, depth // factors.shape[-1], axis=-1)
        return values * (np.swapaxes(factors, -1, -2) if transposed else factors)

    def run(state: State, frame: Frame) -> None:
        values = frame.values
        left: np.ndarray = full(values[a], type_a.shape)
        right: np.ndarray = full(values[b], type_b.shape)
        left = _decoded(np.ascontiguousarray(left), lhs, left.ndim - (1 if pack_a else 2))
        right = _decoded(np.ascontiguousarray(right), rhs, right.ndim - (2 if pack_b else 1))
        left = scaled_by(left, None if scale_a is None else values[scale_a], kind_a, False)
        right = scaled_by(right, None if scale_b is None else values[scale_b], kind_b, True)
        values[out] = round_to(np.matmul(left, right) + values[c], op.types[0].kind)
        if frame.poison:
            used = [slot for slot in (a, b, c, scale_a, scale_b) if slot is not None]
            poisons = [frame.poison[slot] for slot in used if slot in frame.poison]
            everywhere = np.ones((1, 1, 1), bool)
            frame.mark(out, Poison(everywhere, poisons[0].origin) if poisons else None)

    return run
