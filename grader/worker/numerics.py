"""The arithmetic of Triton's interpreter where upstream's differs from an NVIDIA GPU's.

bfloat16 is stored as uint16 in the interpreter, and upstream computes on those integers. Here
every operation on it widens its operands to float32, computes there and rounds the result once to
nearest even: what the GPU does for one operation. Where that can't be done NotModelled is raised.

Sums of float16, bfloat16 and float32 add halves to halves, each partial sum rounded to the type,
like the GPU's threads and shuffles. A GPU's own order depends on the layout; a balanced tree is the
most favourable one it can take, so an honest kernel passes and one that sums many terms in a 16-bit
type still shows the error it makes on a GPU. Scans of 16-bit types are computed in float32 and
rounded once.

TF32: see `round_to_tf32`.
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
from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps, TensorHandle

from .ahead_of_time import NotModelled

# What the patches replace: an owner and the names that must exist.
EXPECTED = [
    (
        InterpreterBuilder,
        "binary_op unary_op ternary_op cast_impl create_fp_to_fp create_dot create_dot_scaled "
        "create_fma create_erf create_rsqrt create_atomic_rmw create_descriptor_load "
        "create_extern_elementwise create_print",
    ),
    (ReduceOps, "apply_impl sum min_max to_tensor"),
    (ScanOps, "apply_impl cumsum cumprod"),
    (ir, "INPUT_PRECISION ROUNDING_MODE ATOMIC_OP"),
]

_FP8 = (tl.float8e5, tl.float8e5b16, tl.float8e4nv, tl.float8e4b8, tl.float8e4b15)


def install() -> None:
    """Replace upstream's arithmetic; once per process."""
    builder = InterpreterBuilder
    builder.binary_op = _widened(builder.binary_op, comparisons=True)
    builder.unary_op = _widened(builder.unary_op)
    builder.ternary_op = _ternary_op(builder.ternary_op)
    for name in ("create_erf", "create_rsqrt"):
        setattr(builder, name, _widened(getattr(builder, name)))
    builder.cast_impl = _cast(builder.cast_impl)
    builder.create_fp_to_fp = _create_fp_to_fp(builder.create_fp_to_fp)
    builder.create_fma = _create_fma(builder.create_fma)
    builder.create_dot = _create_dot(builder.create_dot)
    builder.create_dot_scaled = _create_dot_scaled(builder.create_dot_scaled)
    builder.create_atomic_rmw = _create_atomic_rmw(builder.create_atomic_rmw)
    builder.create_descriptor_load = _create_descriptor_load(builder.create_descriptor_load)
    builder.create_print = _create_print(builder.create_print)
    # The overflow check ends in a device_assert, which does nothing without debug=True, as on a
    # GPU; computing it doubled the cost of every integer operation.
    upstream.interpreter_builder.options = dataclasses.replace(
        upstream.interpreter_builder.options, sanitize_overflow=False
    )
    ReduceOps.apply_impl = _reduce(ReduceOps.apply_impl)
    ScanOps.apply_impl = _scan(ScanOps.apply_impl)


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
    """float32 -> float32 with 10 bits of mantissa; NaN and infinity stay."""
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    return np.where(np.isfinite(single), (bits & np.uint32(0xFFFFE000)).view(np.float32), single)


def _is_bf16(handle: Any) -> bool:
    """Whether a handle holds bfloat16 (comparisons used to keep their operands' type)."""
    return (
        isinstance(handle, TensorHandle)
        and handle.dtype.scalar == tl.bfloat16
        and handle.data.dtype == np.uint16
    )


def _as_float32(handle: Any) -> Any:
    return TensorHandle(widen(handle.data), tl.float32) if _is_bf16(handle) else handle


def _as_bf16(handle: TensorHandle) -> TensorHandle:
    return TensorHandle(narrow(handle.data), tl.bfloat16)


# --- elementwise --------------------------------------------------------------------------------


def _widened(original: Callable, comparisons: bool = False) -> Callable:
    """An operation whose bfloat16 operands are float32 while it computes."""

    @functools.wraps(original)
    def operation(self, *operands):
        if any(map(_is_bf16, operands)):
            result = original(self, *map(_as_float32, operands))
            if result.data.dtype != np.bool_:
                return _as_bf16(result)
        else:
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


def _create_fma(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_fma(self, x, y, z):
        if not _is_bf16(z):
            return original(self, x, y, z)
        product = widen(x.data).astype(np.float64) * widen(y.data)
        return TensorHandle(narrow(product + widen(z.data)), tl.bfloat16)

    return create_fma


def _cast(original: Callable) -> Callable:
    @functools.wraps(original)
    def cast_impl(self, src, dst_type):
        target = dst_type.scalar
        if _is_bf16(src):
            if target == tl.bfloat16:
                return src
            wide = _as_float32(src)
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
        return original(self, prefix, hex, [_as_float32(value) for value in values], isSigned)

    return create_print


# --- dot ----------------------------------------------------------------------------------------


def _create_dot(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        left, right = a.data, b.data
        if _is_bf16(a) or _is_bf16(b):
            left, right = _as_float32(a).data, _as_float32(b).data
        elif left.dtype == np.float16 and right.dtype == np.float16:
            left, right = left.astype(np.float32), right.astype(np.float32)
        elif left.dtype == np.float32 and right.dtype == np.float32:
            precision = getattr(input_precision, "name", str(input_precision))
            if precision == "TF32":
                left, right = round_to_tf32(left), round_to_tf32(right)
            elif precision not in ("IEEE", "TF32x3", "BF16x3", "BF16x6"):
                raise NotModelled(f"tl.dot with input_precision {precision}")
            elif precision == "BF16x3":
                raise NotModelled("tl.dot with input_precision bf16x3")
        else:
            return original(self, a, b, d, input_precision, max_num_imprecise_acc)
        product = np.matmul(left, right) + _as_float32(d).data
        if _is_bf16(d):
            return TensorHandle(narrow(product), tl.bfloat16)
        return TensorHandle(product.astype(d.data.dtype), d.dtype.scalar)

    return create_dot


def _create_dot_scaled(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_dot_scaled(self, lhs, lhs_scale, lhs_format, rhs, *others):
        if _is_bf16(lhs) or _is_bf16(rhs):
            raise NotModelled("tl.dot_scaled with a bfloat16 operand")
        return original(self, lhs, lhs_scale, lhs_format, rhs, *others)

    return create_dot_scaled


# --- memory -------------------------------------------------------------------------------------


def _create_atomic_rmw(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_atomic_rmw(self, rmw_op, ptr, val, mask, sem, scope):
        if not _is_bf16(val) or rmw_op == ir.ATOMIC_OP.XCHG:
            return original(self, rmw_op, ptr, val, mask, sem, scope)
        if rmw_op != ir.ATOMIC_OP.FADD:
            raise NotModelled(f"a bfloat16 atomic {rmw_op.name}")
        before = np.zeros(val.data.shape, dtype=np.uint16)
        for index in np.ndindex(val.data.shape):  # one after the other: addresses may repeat
            if mask is None or np.broadcast_to(mask.data, val.data.shape)[index]:
                address = TensorHandle(np.array([ptr.data[index]]), ptr.dtype)
                old = self.create_load(address, None, False)
                new = _as_bf16(TensorHandle(widen(old.data) + widen(val.data[index]), tl.float32))
                self.create_store(address, new, None)
                before[index] = old.data[0]
        return TensorHandle(before, tl.bfloat16)

    return create_atomic_rmw


def _create_descriptor_load(original: Callable) -> Callable:
    @functools.wraps(original)
    def create_descriptor_load(self, desc, indices, cache_policy):
        element = desc.base.dtype.element_ty
        if element == tl.bfloat16 and desc.padding == ir.PADDING_OPTION.PAD_NAN:
            raise NotModelled("a bfloat16 tensor descriptor padded with nan")
        return original(self, desc, indices, cache_policy)

    return create_descriptor_load


# --- reductions and scans -----------------------------------------------------------------------


def _rounding(handle: TensorHandle) -> Callable[[np.ndarray], np.ndarray] | None:
    """How a float32 is rounded to the handle's 16-bit type and back; None for other types."""
    if _is_bf16(handle):
        return lambda values: widen(narrow(values))
    if handle.data.dtype == np.float16:
        return lambda values: values.astype(np.float16).astype(np.float32)
    return None


def tree_sum(values: np.ndarray, axis: int, rounded: Callable | None) -> np.ndarray:
    """Sum along an axis, halves onto halves, each partial sum rounded; the axis stays, length 1."""
    values = np.moveaxis(values, axis, 0)
    while len(values) > 1:
        half = len(values) // 2
        total = values[:half] + values[half : 2 * half]
        if rounded is not None:
            total = rounded(total)
        values = np.concatenate([total, values[2 * half :]]) if len(values) % 2 else total
    return np.moveaxis(values, 0, axis)


def _reduce(original: Callable) -> Callable:
    @functools.wraps(original)
    def apply_impl(self, input):
        first = input[0]
        if self.combine_fn is tl.standard._sum_combine and first.dtype.is_floating():
            return _sum(self, first)
        index_of = _INDEX_REDUCTIONS.get(self.combine_fn.fn.__name__)
        if index_of is not None and first.dtype.is_floating():
            return _extremum_with_index(self, first, index_of)
        return original(self, _comparable(self, input))

    return apply_impl


def _comparable(self, input: tuple) -> tuple:
    """bfloat16 handed to a reduction that upstream gives to numpy would be compared as integers."""
    shortcuts = (tl.standard._elementwise_max, tl.standard._elementwise_min)
    if self.combine_fn in shortcuts and _is_bf16(input[0].handle):
        raise NotModelled("tl.reduce of bfloat16 with Triton's own max or min")
    return input


def _flat(self, value: Any) -> tuple[TensorHandle, int, tuple]:
    """The handle to reduce, along which axis, and the shape the result has with that axis kept."""
    handle = value.handle
    if self.axis is not None:
        shape = list(handle.data.shape)
        shape[self.axis] = 1
        return handle, self.axis, tuple(shape)
    shape = (1,) * handle.data.ndim
    return TensorHandle(handle.data.reshape(-1), handle.dtype), 0, shape


def _result(self, kept: np.ndarray, shape: tuple, dtype: tl.dtype) -> Any:
    """A reduction's result as a tensor; `kept` still has the reduced axis, of length 1."""
    kept = kept.reshape(shape)
    if not self.keep_dims:
        kept = kept.reshape(()) if self.axis is None else np.squeeze(kept, self.axis)
    if kept.shape == ():
        return tl.tensor(TensorHandle(kept.reshape(1), dtype.scalar), dtype.scalar)
    return tl.tensor(TensorHandle(kept, dtype.scalar), tl.block_type(dtype.scalar, list(kept.shape)))


def _sum(self, value: Any) -> Any:
    handle, axis, shape = _flat(self, value)
    rounded = _rounding(handle)
    data = _as_float32(handle).data
    if rounded is not None:
        data = data.astype(np.float32)
    total = tree_sum(data, axis, rounded)
    total = narrow(total) if _is_bf16(handle) else total.astype(handle.data.dtype)
    return _result(self, total, shape, value.dtype)


_INDEX_REDUCTIONS = {
    "_argmax_combine_tie_break_left": np.argmax,
    "_argmax_combine_tie_break_fast": np.argmax,
    "_argmin_combine_tie_break_left": np.argmin,
    "_argmin_combine_tie_break_fast": np.argmin,
}


def _extremum_with_index(self, value: Any, index_of: Callable) -> tuple:
    """Extremum and index of the first one; NaN loses against every number."""
    handle, axis, shape = _flat(self, value)
    data = _as_float32(handle).data
    worst = -np.inf if index_of is np.argmax else np.inf
    index = np.expand_dims(index_of(np.where(np.isnan(data), worst, data), axis=axis), axis)
    found = np.take_along_axis(handle.data, index, axis)
    return (
        _result(self, found, shape, value.dtype),
        _result(self, index.astype(np.int32), shape, tl.int32),
    )


def _scan(original: Callable) -> Callable:
    @functools.wraps(original)
    def apply_impl(self, input):
        shortcuts = (tl.standard._sum_combine, tl.standard._prod_combine)
        handle = input[0].handle
        if self.combine_fn not in shortcuts or _rounding(handle) is None:
            return original(self, input)
        data = _as_float32(handle).data.astype(np.float32)
        if self.reverse:
            data = np.flip(data, self.axis)
        scan = np.cumsum if self.combine_fn is tl.standard._sum_combine else np.cumprod
        result = scan(data, axis=self.axis)
        if self.reverse:
            result = np.ascontiguousarray(np.flip(result, self.axis))
        result = narrow(result) if _is_bf16(handle) else result.astype(np.float16)
        dtype = input[0].dtype
        block = tl.block_type(dtype.scalar, list(result.shape))
        return [tl.tensor(TensorHandle(result, dtype.scalar), block)]

    return apply_impl
