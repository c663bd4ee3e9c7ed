"""Floating-point formats that numpy lacks, and rounding to them.

Values of float16, bfloat16 and the 8-bit formats are kept as float32, which holds each of them
exactly; an operation computes in float32 and `round_to` rounds its result once, as a GPU does.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from .errors import NotModelled

COMPUTED: dict[str, type] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float32,
    "bf16": np.float32,
    "f32": np.float32,
    "f64": np.float64,
}
STORED: dict[str, type] = {
    **COMPUTED,
    "i1": np.uint8,
    "f16": np.uint16,
    "bf16": np.uint16,
}


@dataclass(frozen=True)
class Float8:
    """An 8-bit format: `exponent` bits with a bias, and the meaning of its largest codes.

    `family` is "ieee" (with infinities), "fn" (finite, one NaN per sign) or "fnuz" (no negative
    zero: its code is the only NaN).
    """

    exponent: int
    bias: int
    family: str


FLOAT8 = {
    "f8E5M2": Float8(5, 15, "ieee"),
    "f8E4M3FN": Float8(4, 7, "fn"),
    "f8E4M3FNUZ": Float8(4, 8, "fnuz"),
    "f8E5M2FNUZ": Float8(5, 16, "fnuz"),
    "f8E4M3B11FNUZ": Float8(4, 11, "fnuz"),
}
for _name in FLOAT8:
    COMPUTED[_name], STORED[_name] = np.float32, np.uint8


def computed(kind: str) -> type:
    """The numpy type of a kind's values."""
    if kind.startswith("ptr<"):
        return np.int64
    if kind not in COMPUTED:
        raise NotModelled(f"values of type {kind}")
    return COMPUTED[kind]


def stored(kind: str) -> type:
    """The numpy type of a kind in memory; bits for kinds that numpy lacks."""
    if kind.startswith("ptr<"):
        return np.int64
    if kind not in STORED:
        raise NotModelled(f"memory of type {kind}")
    return STORED[kind]


def width_of(kind: str) -> int:
    """Bytes of one element in memory."""
    return np.dtype(stored(kind)).itemsize


def is_float(kind: str) -> bool:
    """Whether a kind is a floating-point format."""
    return kind[0] in "fb"


# --- bits ---------------------------------------------------------------------------------------


@functools.cache
def _float16_values() -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


@functools.cache
def _float8_values(kind: str) -> np.ndarray:
    """The float32 of each of the 256 codes."""
    form = FLOAT8[kind]
    codes = np.arange(256)
    mantissa_bits = 7 - form.exponent
    exponent = (codes >> mantissa_bits) & ((1 << form.exponent) - 1)
    mantissa = codes & ((1 << mantissa_bits) - 1)
    fraction = np.where(exponent == 0, 0.0, 1.0) + mantissa / (1 << mantissa_bits)
    values = np.ldexp(fraction, np.maximum(exponent, 1) - form.bias)
    values = np.where(codes >= 128, -values, values)
    top = (1 << form.exponent) - 1
    if form.family == "ieee":
        special = np.where(mantissa == 0, np.where(codes >= 128, -np.inf, np.inf), np.nan)
        values = np.where(exponent == top, special, values)
    elif form.family == "fn":
        values[[0x7F, 0xFF]] = np.nan
    else:
        values[0x80] = np.nan
    return values.astype(np.float32)


@functools.cache
def _float8_finite(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The finite values from 0 upwards, and the midpoints between neighbours."""
    positive = _float8_values(kind)[:128].astype(np.float64)
    positive = positive[np.isfinite(positive)]
    return positive, (positive[1:] + positive[:-1]) / 2


def from_bits(bits: np.ndarray, kind: str) -> np.ndarray:
    """The values of bits in memory; `bits` are of the type `stored`."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "f16":
        return np.take(_float16_values(), bits)
    if kind == "i1":
        return bits != 0
    if kind in FLOAT8:
        return np.take(_float8_values(kind), bits)
    return bits


def to_bits(values: np.ndarray, kind: str) -> np.ndarray:
    """The bits in memory of values that are rounded to the kind already."""
    if kind == "bf16":
        return (np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    if kind in FLOAT8:
        return _float8_codes(values, kind)
    return values.astype(stored(kind), copy=False)


def _float8_codes(values: np.ndarray, kind: str) -> np.ndarray:
    """The codes nearest to values, ties to the even code; the largest code for larger values."""
    form = FLOAT8[kind]
    magnitude = np.abs(values).astype(np.float64)
    positive, between = _float8_finite(kind)
    low = np.searchsorted(between, magnitude, side="left")
    high = np.searchsorted(between, magnitude, side="right")
    codes = np.where(low % 2 == 0, low, high)
    codes = np.minimum(codes, len(positive) - 1)
    if form.family == "ieee":
        codes = np.where(np.isinf(values), len(positive), codes)
    negative = np.signbit(values) & ((codes != 0) | (form.family != "fnuz"))
    nan = 0x80 if form.family == "fnuz" else 0x7F
    return np.where(np.isnan(values), nan, codes | (negative << 7)).astype(np.uint8)


# --- rounding -----------------------------------------------------------------------------------


def round_to(values: np.ndarray, kind: str) -> np.ndarray:
    """Values rounded to a kind's precision, to nearest even, in the type `computed`."""
    if kind == "f32":
        return values if values.dtype == np.float32 else values.astype(np.float32)
    if kind == "bf16":
        return _to_bf16(values)
    if kind == "f16":
        return values.astype(np.float16).astype(np.float32)
    if kind in FLOAT8:
        return round_float8(values, kind)
    wanted = computed(kind)
    return values if values.dtype == wanted else values.astype(wanted)


def round_float8(values: np.ndarray, kind: str) -> np.ndarray:
    """Values rounded to an 8-bit format; values beyond its largest saturate.

    The GPU's conversions do the same (`cvt.rn.satfinite`).
    """
    limit = _float8_finite(kind)[0][-1]
    limited = np.clip(values, -limit, limit)  # NaN stays
    return np.take(_float8_values(kind), _float8_codes(limited, kind))


def _to_bf16(values: np.ndarray) -> np.ndarray:
    single = np.ascontiguousarray(values, np.float32).reshape(values.shape)
    bits = single.view(np.uint32)
    if values.dtype == np.float64:
        bits = bits + _off_the_tie(values, single, bits)
    rounded = bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))
    rounded &= np.uint32(0xFFFF0000)
    result = rounded.view(np.float32)
    nan = np.isnan(single)
    return np.where(nan, np.float32(np.nan), result) if nan.any() else result


def _off_the_tie(values: np.ndarray, single: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """The correction of float32 bits that look like a tie after rounding from float64."""
    tie = (bits & np.uint32(0xFFFF)) == np.uint32(0x8000)
    farther = np.abs(values) > np.abs(single.astype(np.float64))
    nearer = np.abs(values) < np.abs(single.astype(np.float64))
    return (tie & farther).astype(np.uint32) - (tie & nearer).astype(np.uint32)


def round_towards_zero(values: np.ndarray, kind: str) -> np.ndarray:
    """Values cut off at a kind's precision."""
    nearest = round_to(values, kind)
    beyond = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
    if not beyond.any():
        return nearest
    bits = to_bits(nearest, kind)
    return np.where(beyond, from_bits((bits - 1).astype(bits.dtype), kind), nearest)


def truncate_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 with 10 bits of mantissa, cut off; NaN and infinity stay.

    Triton passes float32 to the tensor cores unchanged, and those ignore the low 13 bits.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    cut = bits.view(np.float32)
    special = ~np.isfinite(values)
    return np.where(special, values, cut) if special.any() else cut
