"""The arithmetic of Triton's interpreter where upstream's differs from an NVIDIA GPU's.

bfloat16 is stored as uint16 in the interpreter, and upstream computes on those integers. Here
every operation on it widens its operands to float32, computes there and rounds the result once to
nearest even: what the GPU does for one operation. Where that can't be done NotModelled is raised.

float32 `tl.dot` takes TF32 operands unless told otherwise: see `round_to_tf32`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter as upstream
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from .launches import NotModelled

# What the patches replace: an owner and the names that must exist.
EXPECTED = [
    (
        InterpreterBuilder,
        "binary_op unary_op ternary_op cast_impl create_fp_to_fp create_dot create_fma create_erf "
        "create_rsqrt create_atomic_rmw create_extern_elementwise create_inline_asm create_print",
    ),
    (ir, "ROUNDING_MODE ATOMIC_OP PROPAGATE_NAN PADDING_OPTION"),
]

_FP8 = (tl.float8e5, tl.float8e5b16, tl.float8e4nv, tl.float8e4b8, tl.float8e4b15)


def install() -> None:
    """Replace upstream's arithmetic; once per process."""
    builder = InterpreterBuilder
    builder.binary_op = _widened(builder.binary_op, comparisons=True)
    builder.unary_op = _widened(builder.unary_op)
    builder.ternary_op = _ternary_op(builder.ternary_op)
    builder.get_bf16 = lambda self, value: _as_bf16(self.get_fp32(value))  # since 3.9
    builder.create_maxnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmax)
    builder.create_minnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, np.fmin)
    builder.create_clampf = _create_clampf
    for name in ("create_erf", "create_rsqrt"):
        setattr(builder, name, _widened(getattr(builder, name)))
    builder.cast_impl = _cast(builder.cast_impl)
    builder.create_fp_to_fp = _create_fp_to_fp(builder.create_fp_to_fp)
    builder.create_fma = _create_fma(builder.create_fma)
    builder.create_dot = _create_dot(builder.create_dot)
    if hasattr(builder, "create_dot_scaled"):  # since 3.8
        builder.create_dot_scaled = _create_dot_scaled(builder.create_dot_scaled)
    builder.create_atomic_rmw = _create_atomic_rmw(builder.create_atomic_rmw)
    builder.create_descriptor_load = _create_descriptor_load(builder.create_descriptor_load)
    builder.create_print = _create_print(builder.create_print)
    # The overflow check ends in a device_assert, which does nothing without debug=True, as on a
    # GPU; computing it doubled the cost of every integer operation.
    upstream.interpreter_builder.options = dataclasses.replace(
        upstream.interpreter_builder.options,
        sanitize_overflow=False,
        allowed_dot_input_precisions=("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"),
    )


# --- conversions --------------------------------------------------------------------------------


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16 as uint16 -> float32, any shape, exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow(values: np.ndarray) -> np.ndarray:
    """float32 (or what converts to it) -> bfloat16 as uint16, to nearest even; NaN stays NaN.

    float64 is rounded once, not twice: a float32 that is a tie only because it was itself rounded
    is moved off the tie, to the side the float64 lay on.
    """
    values = np.asarray(values)
    single = np.ascontiguousarray(values, dtype=np.float32).reshape(values.shape)
    bits = single.view(np.uint32)
    if values.dtype == np.float64:
        tie = (bits & np.uint32(0xFFFF)) == 0x8000
        farther = np.abs(values) > np.abs(single.astype(np.float64))
        nearer = np.abs(values) < np.abs(single.astype(np.float64))
        bits = bits + (tie & farther).astype(np.uint32) - (tie & nearer).astype(np.uint32)
    rounded = (bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(
        16
    )
    quiet = (bits >> np.uint32(16)) | np.uint32(0x0040)
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16)


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 -> float32 with 10 bits of mantissa, towards zero; NaN and infinity stay.

    Triton hands float32 registers and shared memory to the tensor cores as they are, and those
    ignore the low 13 bits. Measured on an H100: `tl.dot(a, identity)` is `a` truncated, bit for
    bit, for 1024 normal numbers.
    """
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    return np.where(np.isfinite(single), (bits & np.uint32(0xFFFFE000)).view(np.float32), single)


def is_bf16(handle: Any) -> bool:
    """Whether a handle holds bfloat16 (comparisons used to keep their operands' type)."""
    return (
        isinstance(handle, TensorHandle)
        and handle.dtype.scalar == tl.bfloat16
        and handle.data.dtype == np.uint16
    )


def refuse_float8(*handles: Any) -> None:
    """Raise NotModelled before float8 is computed with as the integer that stores it."""
    for handle in handles:
        stored_as_byte = isinstance(handle, TensorHandle) and handle.data.dtype == np.uint8
        if stored_as_byte and handle.dtype.scalar in _FP8:
            raise NotModelled(f"arithmetic on {handle.dtype.scalar}")


def as_float32(handle: Any) -> Any:
    return TensorHandle(widen(handle.data), tl.float32) if is_bf16(handle) else handle


def _as_bf16(handle: TensorHandle) -> TensorHandle:
    return TensorHandle(narrow(handle.data), tl.bfloat16)


# --- elementwise --------------------------------------------------------------------------------


def _widened(original: Callable, comparisons: bool = False) -> Callable:
    """An operation whose bfloat16 operands are float32 while it computes."""

    @functools.wraps(original)
    def operation(self, *operands):
        if any(map(is_bf16, operands)):
            result = original(self, *map(as_float32, operands))
            if result.data.dtype != np.bool_:
                return _as_bf16(result)
        else:
            refuse_float8(*operands)
            result = original(self, *operands)
        if comparisons and result.data.dtype == np.bool_:
            result.dtype = tl.int1  # upstream says the type of what was compared
        return result

    return operation


def _ternary_op(original: Callable) -> Callable:
    widened = _widened(original)

    @functools.wraps(original)
    def ternary_op(self, lhs, rhs, other, op):
        # A select moves bits; everything else computes.
        return (original if op is np.where else widened)(self, lhs, rhs, other, op)

    return ternary_op


def _create_clampf(self, arg, lo, hi, propagate_nans):
    """A NaN stays only where it is asked for (3.7 keeps it always)."""
    if propagate_nans == ir.PROPAGATE_NAN.NONE:
        return self.create_minnumf(self.create_maxnumf(arg, lo), hi)
    return self.create_minimumf(self.create_maximumf(arg, lo), hi)


def _create_fma(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_fma(self, x, y, z):
        if not is_bf16(z) and z.data.dtype != np.float16:
            return original(self, x, y, z)
        x, y, wide = (as_float32(handle).data.astype(np.float64) for handle in (x, y, z))
        exact = x * y + wide
        if is_bf16(z):
            return TensorHandle(narrow(exact), tl.bfloat16)
        return TensorHandle(exact.astype(np.float16), tl.float16)

    return create_fma


def _cast(original: Callable) -> Callable:
    @functools.wraps(original)
    def cast_impl(self, src, dst_type):
        target = dst_type.scalar
        if is_bf16(src):
            if target == tl.bfloat16:
                return src
            wide = as_float32(src)
            return wide if target == tl.float32 else original(self, wide, dst_type)
        if target == tl.bfloat16:
            # An integer goes through float64, which holds what float32 would round.
            exact = src.data if src.data.dtype.kind == "f" else src.data.astype(np.float64)
            return TensorHandle(narrow(exact), tl.bfloat16)
        return original(self, src, dst_type)

    return cast_impl


def _create_fp_to_fp(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        source, target = src.dtype.scalar, dst_type.scalar
        if target in _FP8:
            raise NotModelled(f"a cast from {source} to {target}")
        if tl.bfloat16 not in (source, target):
            return original(self, src, dst_type, rounding_mode)
        if source in _FP8:
            raise NotModelled(f"a cast from {source} to {target}")
        if rounding_mode == ir.ROUNDING_MODE.RTZ:
            if source != tl.float32:
                raise NotModelled(f"a cast from {source} to {target} that rounds towards zero")
            bits = np.ascontiguousarray(src.data).view(np.uint32).reshape(src.data.shape)
            nan = np.isnan(src.data)
            truncated = (bits >> np.uint32(16)) | np.where(nan, 0x40, 0).astype(np.uint32)
            return TensorHandle(truncated.astype(np.uint16), tl.bfloat16)
        return self.cast_impl(src, dst_type)

    return create_fp_to_fp


def _create_print(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_print(self, prefix, hex, values, isSigned):
        return original(self, prefix, hex, [as_float32(value) for value in values], isSigned)

    return create_print


# --- dot ----------------------------------------------------------------------------------------


def _create_dot(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        left, right = a.data, b.data
        if is_bf16(a) or is_bf16(b):
            left, right = as_float32(a).data, as_float32(b).data
        elif left.dtype == np.float16 and right.dtype == np.float16:
            left, right = left.astype(np.float32), right.astype(np.float32)
        elif left.dtype == np.float32 and right.dtype == np.float32:
            precision = getattr(input_precision, "name", str(input_precision))
            if precision == "TF32":
                left, right = round_to_tf32(left), round_to_tf32(right)
            elif precision not in ("IEEE", "TF32x3"):  # three TF32 products are as good as one
                raise NotModelled(f"tl.dot with input_precision {precision.lower()}")
        else:
            return original(self, a, b, d, input_precision, max_num_imprecise_acc)
        product = np.matmul(left, right) + as_float32(d).data
        if is_bf16(d):
            return TensorHandle(narrow(product), tl.bfloat16)
        return TensorHandle(product.astype(d.data.dtype), d.dtype.scalar)

    return create_dot


def _create_dot_scaled(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_dot_scaled(self, lhs, lhs_scale, lhs_format, rhs, *others):
        if is_bf16(lhs) or is_bf16(rhs):
            raise NotModelled("tl.dot_scaled with a bfloat16 operand")
        return original(self, lhs, lhs_scale, lhs_format, rhs, *others)

    return create_dot_scaled


# --- memory -------------------------------------------------------------------------------------


def _create_atomic_rmw(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_atomic_rmw(self, rmw_op, ptr, val, mask, sem, scope):
        if not is_bf16(val) or rmw_op == ir.ATOMIC_OP.XCHG:
            return original(self, rmw_op, ptr, val, mask, sem, scope)
        if rmw_op != ir.ATOMIC_OP.FADD:
            raise NotModelled(f"a bfloat16 atomic {rmw_op.name}")
        memory, one = upstream._interpreter, np.ones(1, dtype=bool)
        before = np.zeros(val.data.shape, dtype=np.uint16)
        for index in np.ndindex(val.data.shape):  # one after the other: addresses may repeat
            if np.broadcast_to(mask.data, val.data.shape)[index]:
                address = ptr.data[index].reshape(1)
                old = memory.load(address, one, np.zeros(1, np.uint16), np.dtype(np.uint16))
                memory.store(address, narrow(widen(old) + widen(val.data[index])), one)
                before[index] = old[0]
        return TensorHandle(before, tl.bfloat16)

    return create_atomic_rmw


def _create_descriptor_load(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_descriptor_load(self, desc, *others):
        element = desc.base.dtype.element_ty
        if element == tl.bfloat16 and desc.padding == ir.PADDING_OPTION.PAD_NAN:
            raise NotModelled("a bfloat16 tensor descriptor padded with nan")
        return original(self, desc, *others)

    return create_descriptor_load
