"""Reductions and scans of Triton's interpreter where upstream's differ from an NVIDIA GPU's.

Sums of floats add halves to halves, each partial sum rounded to the type, like the GPU's threads
and shuffles. A GPU's own order depends on the layout; a balanced tree is the most favourable it can
take, so an honest kernel passes and one that sums many terms in a 16-bit type still shows the error
it makes on a GPU. (Upstream sums float16 in float32 along the last axis and one by one, with an
error growing in proportion, along the others.) Scans of 16-bit types are computed in float32 and
rounded once. Argmax and argmin of nothing but NaN give NaN where numpy raises.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorHandle

from .launches import NotModelled
from .numerics import as_float32, is_bf16, narrow, refuse_float8, widen

# What the patches replace: an owner and the names that must exist.
EXPECTED = [(ReduceOps, "apply_impl"), (ScanOps, "apply_impl")]


def install() -> None:
    """Replace upstream's reductions and scans; once per process."""
    ReduceOps.apply_impl = _reduce(ReduceOps.apply_impl)
    ScanOps.apply_impl = _scan(ScanOps.apply_impl)


def _rounding(handle: TensorHandle) -> Callable[[np.ndarray], np.ndarray] | None:
    """How a float32 is rounded to the handle's 16-bit type and back; None for other types."""
    if is_bf16(handle):
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
        if self.axis is not None:
            self.axis = operator.index(self.axis)  # a number the kernel gave a name is a tensor
        refuse_float8(first.handle)
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
    if self.combine_fn in shortcuts and is_bf16(input[0].handle):
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
    return tl.tensor(
        TensorHandle(kept, dtype.scalar), tl.block_type(dtype.scalar, list(kept.shape))
    )


def _sum(self, value: Any) -> Any:
    handle, axis, shape = _flat(self, value)
    rounded = _rounding(handle)
    data = as_float32(handle).data
    if rounded is not None:
        data = data.astype(np.float32)
    total = tree_sum(data, axis, rounded)
    total = narrow(total) if is_bf16(handle) else total.astype(handle.data.dtype)
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
    data = as_float32(handle).data
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
        data = as_float32(handle).data.astype(np.float32)
        if self.reverse:
            data = np.flip(data, self.axis)
        scan = np.cumsum if self.combine_fn is tl.standard._sum_combine else np.cumprod
        result = scan(data, axis=self.axis)
        if self.reverse:
            result = np.ascontiguousarray(np.flip(result, self.axis))
        result = narrow(result) if is_bf16(handle) else result.astype(np.float16)
        dtype = input[0].dtype
        block = tl.block_type(dtype.scalar, list(result.shape))
        return [tl.tensor(TensorHandle(result, dtype.scalar), block)]

    return apply_impl
