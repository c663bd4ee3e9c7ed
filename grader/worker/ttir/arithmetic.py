"""Elementwise operations on numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import NotModelled
from .floats import COMPUTED, computed, is_float, round_to
from .ir import Op, first_word
from .poison import exchanged, spread
from .registry import Run, operation
from .state import Frame, State

Function = Callable[..., np.ndarray]

_UNSIGNED = {np.dtype(f"i{n}"): np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def unsigned(values: np.ndarray) -> np.ndarray:
    """The same bits, as numbers without a sign."""
    wanted = _UNSIGNED.get(values.dtype)
    return values if wanted is None else values.view(wanted)


def on_unsigned(function: Function) -> Function:
    """A function that takes its operands as numbers without a sign."""

    def operation_on_bits(*operands: np.ndarray) -> np.ndarray:
        bits = [unsigned(each) for each in operands]
        return function(*bits).astype(bits[0].dtype, copy=False).view(operands[0].dtype)

    return operation_on_bits


def to_integer(whole: np.ndarray, dtype: np.dtype[Any] | type) -> np.ndarray:
    """Whole numbers in float64 as integers; out of range becomes the nearest, NaN 0."""
    limits = np.iinfo(dtype)
    low, high = whole < limits.min, whole >= float(limits.max)
    odd = low | high | np.isnan(whole)
    if not odd.any():
        return whole.astype(dtype)
    inside: np.ndarray = np.where(odd, 0.0, whole).astype(dtype)
    return np.where(high, limits.max, np.where(low, limits.min, inside)).astype(dtype)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integers divided, rounded towards zero. Division by zero sets all bits, as on the GPU."""
    zero = b == 0
    safe = np.where(zero, np.asarray(1, b.dtype), b) if zero.any() else b
    quotient = a // safe
    if a.dtype.kind == "i":
        wrong = (quotient < 0) & (quotient * safe != a)
        quotient = (quotient + wrong).astype(a.dtype, copy=False)
    if safe is not b:
        quotient = np.where(zero, np.asarray(-1).astype(a.dtype), quotient)
    return quotient


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The remainder of `divide`; the dividend for a division by zero."""
    zero = b == 0
    safe = np.where(zero, np.asarray(1, b.dtype), b) if zero.any() else b
    rest = np.fmod(a, safe)
    return np.where(zero, a, rest) if safe is not b else rest


def _shift(function: Function) -> Function:
    """Shifts by the type's width or more give 0, or all sign bits, as on the GPU."""

    def shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        bits = a.dtype.itemsize * 8
        amount = unsigned(b)
        if amount.size and int(amount.max()) >= bits:
            if function is np.right_shift and a.dtype.kind == "i":
                return function(a, np.minimum(amount, bits - 1).astype(a.dtype))
            inside = amount < bits
            shifted = function(a, np.where(inside, amount, 0).astype(a.dtype))
            return np.where(inside, shifted, np.asarray(0, a.dtype))
        return function(a, b)

    return shift


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of a product."""
    if a.dtype.itemsize < 8:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(a.dtype.itemsize * 8)).astype(a.dtype)
    if a.dtype.kind == "i":  # a negative number's bits are those of 2**64 more
        high = multiply_high(unsigned(a), unsigned(b)).view(a.dtype)
        return high - np.where(a < 0, b, 0) - np.where(b < 0, a, 0)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def erf(x: np.ndarray) -> np.ndarray:
    """The error function, by torch, whose result is within an ulp or so."""
    import torch

    return torch.erf(torch.from_numpy(np.ascontiguousarray(x))).numpy().reshape(x.shape)


_INTEGER: dict[str, Function] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.divsi": divide,
    "arith.remsi": remainder,
    "arith.divui": on_unsigned(divide),
    "arith.remui": on_unsigned(remainder),
    "arith.floordivsi": lambda a, b: a // np.where(b == 0, np.asarray(1, b.dtype), b),
    "arith.ceildivsi": lambda a, b: -(-a // np.where(b == 0, np.asarray(1, b.dtype), b)),
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": on_unsigned(np.maximum),
    "arith.minui": on_unsigned(np.minimum),
    "arith.shli": _shift(np.left_shift),
    "arith.shrsi": _shift(np.right_shift),
    "arith.shrui": on_unsigned(_shift(np.right_shift)),
    "tt.mulhiui": on_unsigned(multiply_high),
    "math.absi": np.abs,
}
_BOOLEAN: dict[str, Function] = {  # one bit wraps where numpy's bool doesn't
    "arith.addi": np.logical_xor,
    "arith.subi": np.logical_xor,
    "arith.muli": np.logical_and,
    "arith.divsi": lambda a, b: a,
    "arith.divui": lambda a, b: a,
    "arith.maxui": np.logical_or,
    "arith.minui": np.logical_and,
    "arith.maxsi": np.logical_and,  # as a signed number a set bit is -1
    "arith.minsi": np.logical_or,
    "arith.shli": lambda a, b: a & ~b,
    "arith.shrui": lambda a, b: a & ~b,
    "arith.shrsi": lambda a, b: a,
}
# Functions that numpy has by the same name.
_MATH = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "copysign"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc"),
)
_FLOAT: dict[str, Function] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "tt.precise_divf": np.divide,
    "tt.approx_divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    **{f"math.{name}": getattr(np, name) for name in _MATH},
    "tt.precise_sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1.0 / np.sqrt(x.astype(np.float64)),  # rounded once
    "math.erf": erf,
    "math.absf": np.abs,
    "math.round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "math.roundeven": np.rint,
    "math.powf": np.power,
    "math.atan": np.arctan,
    "math.atan2": np.arctan2,
}


def elementwise(op: Op, function: Function) -> Run:
    """An operation whose result is `function` of its operands, element by element."""
    out, operands = op.results[0], op.operands

    def run(state: State, frame: Frame) -> None:
        values = frame.values
        values[out] = function(*[values[slot] for slot in operands])
        if frame.poison:
            spread(frame, operands, out)

    return run


def _exclusive_or(op: Op) -> Run:
    """As `elementwise`. It may exchange elements, and the undefined ones move with them."""
    out, operands = op.results[0], op.operands
    each = elementwise(op, np.bitwise_xor)

    def run(state: State, frame: Frame) -> None:
        each(state, frame)
        if frame.poison and (poison := exchanged(frame, operands)) is not None:
            frame.mark(out, poison)

    return run


def rounded(function: Function, kind: str) -> Function:
    """The function, its result rounded to a kind's precision."""
    if kind in ("f32", "f64"):
        wanted = computed(kind)

        def as_wanted(*operands: np.ndarray) -> np.ndarray:
            result = function(*operands)
            return result if result.dtype == wanted else result.astype(wanted)

        return as_wanted
    return lambda *operands: round_to(function(*operands), kind)


@operation(*_FLOAT)
def _float(op: Op) -> Run:
    kind = op.types[0].kind
    if not is_float(kind) or kind not in COMPUTED:
        raise NotModelled(f"{op.name} of {kind}")
    function = _FLOAT[op.name]
    exact = kind in ("f32", "f64") and isinstance(function, np.ufunc)
    return elementwise(op, function if exact else rounded(function, kind))


@operation(*(set(_INTEGER) - {"arith.andi", "arith.ori"}))
def _integer(op: Op) -> Run:
    kind = op.types[0].kind
    computed(kind)
    if kind == "i1" and op.name in _BOOLEAN:
        return elementwise(op, _BOOLEAN[op.name])
    if op.name == "arith.xori":
        return _exclusive_or(op)
    return elementwise(op, _INTEGER[op.name])


_ORDERED: dict[str, Function] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _either_nan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.isnan(a) | np.isnan(b)


@operation("arith.cmpi")
def _compare_integers(op: Op) -> Run:
    how = first_word(op)
    if how in ("eq", "ne"):
        return elementwise(op, _ORDERED[how])
    function = _ORDERED[how[1:]]
    one_bit = op.operand_types[0].kind == "i1"
    if how[0] == "u" and not one_bit:
        return elementwise(op, lambda a, b: function(unsigned(a), unsigned(b)))
    if how[0] == "s" and one_bit:
        return elementwise(op, lambda a, b: function(b, a))
    return elementwise(op, function)


@operation("arith.cmpf")
def _compare_floats(op: Op) -> Run:
    how = first_word(op)
    if how == "ord":
        return elementwise(op, lambda a, b: ~_either_nan(a, b))
    if how == "uno":
        return elementwise(op, _either_nan)
    if how == "one":
        return elementwise(op, lambda a, b: (a != b) & ~_either_nan(a, b))
    if how in ("true", "false"):
        raise NotModelled(f"comparison {how}")
    function = _ORDERED[how[1:]]
    if how[0] == "o" or how == "une":
        return elementwise(op, function)
    return elementwise(op, lambda a, b: function(a, b) | _either_nan(a, b))


@operation("math.fma")
def _fma(op: Op) -> Run:
    kind = op.types[0].kind
    if kind == "f64":
        return elementwise(op, lambda a, b, c: a * b + c)
    return elementwise(op, rounded(lambda a, b, c: a.astype(np.float64) * b + c, kind))


@operation("tt.clampf")
def _clamp(op: Op) -> Run:
    if op.attributes.get("propagateNan") == "all":
        return elementwise(op, lambda x, low, high: np.minimum(np.maximum(x, low), high))
    return elementwise(op, lambda x, low, high: np.fmin(np.fmax(x, low), high))
