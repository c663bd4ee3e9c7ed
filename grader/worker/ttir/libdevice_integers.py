"""NVIDIA's libdevice functions of integers and of bits, and conversions between types."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .arithmetic import multiply_high, on_unsigned, to_integer, unsigned
from .floats import round_to

Function = Callable[..., np.ndarray]

_CONVERSION = re.compile(r"(float|double|int|uint|ll|ull)2(float|double|int|uint|ll|ull)_(r[nzud])")
_INTEGERS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64}
_FLOATS = {"float": "f32", "double": "f64"}
_ROUNDINGS: dict[str, Function] = {
    "rn": np.rint,
    "rz": np.trunc,
    "ru": np.ceil,
    "rd": np.floor,
}


def _bits(x: np.ndarray) -> np.ndarray:
    """The bits of integers, the lowest first, along a new last axis."""
    width = x.dtype.itemsize * 8
    return (unsigned(x)[..., None] >> np.arange(width, dtype=unsigned(x).dtype)) & 1


def _popcount(x: np.ndarray) -> np.ndarray:
    return _bits(x).sum(axis=-1).astype(np.int32)


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = _bits(x)[..., ::-1]
    return np.where(x == 0, bits.shape[-1], bits.argmax(axis=-1)).astype(np.int32)


def _first_set(x: np.ndarray) -> np.ndarray:
    return np.where(x == 0, 0, _bits(x).argmax(axis=-1) + 1).astype(np.int32)


def _reversed(x: np.ndarray) -> np.ndarray:
    bits = _bits(x)
    places = np.arange(bits.shape[-1], dtype=bits.dtype)[::-1]
    return (bits << places).sum(axis=-1, dtype=bits.dtype).view(x.dtype)


def _byte_perm(x: np.ndarray, y: np.ndarray, selector: np.ndarray) -> np.ndarray:
    source = unsigned(x).astype(np.uint64) | (unsigned(y).astype(np.uint64) << np.uint64(32))
    result = np.zeros(np.broadcast_shapes(x.shape, y.shape, selector.shape), np.uint64)
    for place in range(4):
        chosen = (unsigned(selector).astype(np.uint64) >> np.uint64(4 * place)) & np.uint64(7)
        byte = (source >> (chosen * np.uint64(8))) & np.uint64(255)
        result |= byte << np.uint64(8 * place)
    return result.astype(np.uint32).view(np.int32)


def _low24(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "u":
        return a & np.asarray(0xFFFFFF, a.dtype)
    return (a << 8) >> 8


def _average(up: int) -> Function:
    def average(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return ((a.astype(np.int64) + b.astype(np.int64) + up) >> 1).astype(a.dtype)

    return average


def _difference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    distance = np.abs(a.astype(np.int64) - b.astype(np.int64))
    return (distance + unsigned(c)).astype(np.int64).astype(np.uint32).view(np.int32)


def _exponent_of(x: np.ndarray) -> np.ndarray:
    special = (x == 0) | ~np.isfinite(x)
    limit = np.where(np.isinf(x), np.iinfo(np.int32).max, np.iinfo(np.int32).min)
    return np.where(special, limit, np.frexp(x)[1] - 1).astype(np.int32)


def _half(upper: bool) -> Function:
    def half(x: np.ndarray) -> np.ndarray:
        halves = np.ascontiguousarray(x).view(np.int32).reshape(*x.shape, 2)
        return halves[..., 1 if upper else 0]

    return half


def _of_halves(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    bits = (unsigned(high).astype(np.uint64) << np.uint64(32)) | unsigned(low).astype(np.uint64)
    return bits.view(np.float64)


def _as(dtype: type) -> Function:
    return lambda x: np.ascontiguousarray(x).view(dtype)


def _rounded_to_long(function: Function) -> Function:
    return lambda x: to_integer(function(x.astype(np.float64)), np.int64)


def half_away(x: np.ndarray) -> np.ndarray:
    """Numbers rounded to the nearest integer, halves away from zero."""
    return np.where(np.abs(x) < 2.0**52, np.copysign(np.floor(np.abs(x) + 0.5), x), x)


_FUNCTIONS: dict[str, Function] = {
    "abs": np.abs,
    "llabs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "umin": on_unsigned(np.minimum),
    "umax": on_unsigned(np.maximum),
    "llmin": np.minimum,
    "llmax": np.maximum,
    "ullmin": on_unsigned(np.minimum),
    "ullmax": on_unsigned(np.maximum),
    "popc": _popcount,
    "popcll": _popcount,
    "clz": _leading_zeros,
    "clzll": _leading_zeros,
    "ffs": _first_set,
    "ffsll": _first_set,
    "brev": _reversed,
    "brevll": _reversed,
    "byte_perm": _byte_perm,
    "mulhi": multiply_high,
    "mul64hi": multiply_high,
    "umulhi": on_unsigned(multiply_high),
    "umul64hi": on_unsigned(multiply_high),
    "mul24": lambda a, b: _low24(a) * _low24(b),
    "umul24": on_unsigned(lambda a, b: _low24(a) * _low24(b)),
    "hadd": _average(0),
    "rhadd": _average(1),
    "uhadd": on_unsigned(_average(0)),
    "urhadd": on_unsigned(_average(1)),
    "sad": _difference,
    "usad": lambda a, b, c: _difference(unsigned(a), unsigned(b), c),
    "ilogb": _exponent_of,
    "ilogbf": _exponent_of,
    "llrint": _rounded_to_long(np.rint),
    "llrintf": _rounded_to_long(np.rint),
    "llround": _rounded_to_long(half_away),
    "llroundf": _rounded_to_long(half_away),
    "double2hiint": _half(True),
    "double2loint": _half(False),
    "hiloint2double": _of_halves,
    "float_as_int": _as(np.int32),
    "float_as_uint": _as(np.int32),
    "int_as_float": _as(np.float32),
    "uint_as_float": _as(np.float32),
    "double_as_longlong": _as(np.int64),
    "longlong_as_double": _as(np.float64),
    "nextafter": np.nextafter,
    "nextafterf": np.nextafter,
}


def function(name: str) -> Function | None:
    """The function by its name without `__nv_`."""
    known = _FUNCTIONS.get(name)
    if known is not None:
        return known
    matched = _CONVERSION.fullmatch(name)
    return _conversion(matched[1], matched[2], matched[3]) if matched else None


def towards(exact: np.ndarray, kind: str, direction: str) -> np.ndarray:
    """A number of higher precision, rounded to a kind in a direction."""
    nearest = round_to(exact, kind)
    wide = nearest.astype(exact.dtype)
    zero, up = nearest.dtype.type(0), nearest.dtype.type(np.inf)
    if direction == "rz":
        return np.where(np.abs(wide) > np.abs(exact), np.nextafter(nearest, zero), nearest)
    if direction == "ru":
        return np.where(wide < exact, np.nextafter(nearest, up), nearest)
    if direction == "rd":
        return np.where(wide > exact, np.nextafter(nearest, -up), nearest)
    return nearest


def _conversion(source: str, target: str, direction: str) -> Function:
    if target in _INTEGERS:
        wanted = _INTEGERS[target]
        signed = np.dtype(wanted).str.replace("u", "i")
        rounding = _ROUNDINGS[direction]
        return lambda x: to_integer(rounding(x.astype(np.float64)), wanted).view(signed)

    def convert(x: np.ndarray) -> np.ndarray:
        given = unsigned(x) if source in ("uint", "ull") else x
        return towards(given.astype(np.longdouble), _FLOATS[target], direction)

    return convert
