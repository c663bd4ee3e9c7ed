"""Copies between strided views on a GPU: rows that the driver copies, or a kernel in TTIR.

Host code asks for such copies by `contiguous()`, `copy_` or `to`, for which PyTorch has kernels.
The grader's kernel copies elements one by one and converts them.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from grader.executors.encoding import NotExecutable
from grader.plan.model import View

BLOCK = 1024  # elements of one program
OPTIONS = {"num_warps": 4}
NAME = "copy_view"
_FLOATS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_HALVES = ("f16", "bf16")


@dataclass(frozen=True)
class Dimension:
    """A dimension of a copy: its size, and its strides in elements at either end."""

    size: int
    to: int
    source: int


@dataclass(frozen=True)
class Rows:
    """`height` rows of `width` bytes; offsets and pitches in bytes, at either end."""

    width: int
    height: int
    to: tuple[int, int]  # offset, pitch
    source: tuple[int, int]


def dimensions(to: View, source: View) -> list[Dimension]:
    """The dimensions of a copy, outermost first, as few as there can be.

    Raises NotExecutable for views of different shapes.
    """
    strides = source.strides
    if to.elements != source.elements:
        raise NotExecutable(f"a copy of {list(source.shape)} to {list(to.shape)}")
    if to.shape != source.shape:
        strides = _strides_for(source, to.shape)
    merged: list[Dimension] = []
    for size, ours, theirs in zip(to.shape, to.strides, strides, strict=True):
        if size == 1:
            continue
        last = merged[-1] if merged else None
        if last and last.to == size * ours and last.source == size * theirs:
            merged[-1] = Dimension(last.size * size, ours, theirs)
        else:
            merged.append(Dimension(size, ours, theirs))
    return merged or [Dimension(1, 1, 1)]


def rows(to: View, source: View) -> Rows | None:
    """The copy as rows of bytes that the driver copies; None where it isn't that."""
    copied = dimensions(to, source)
    itemsize = to.itemsize
    inner = copied[-1]
    if to.dtype != source.dtype or len(copied) > 2 or (inner.to, inner.source) != (1, 1):
        return None
    outer = copied[0] if len(copied) == 2 else Dimension(1, inner.size, inner.size)
    if min(outer.to, outer.source) < inner.size:  # rows that overlap, or go backwards
        return None
    return Rows(
        inner.size * itemsize,
        outer.size,
        (to.offset * itemsize, outer.to * itemsize),
        (source.offset * source.itemsize, outer.source * itemsize),
    )


def element(view: View, value: bool | int | float | str) -> bytes:
    """A value as an element of a view has it. Raises NotExecutable for one that torch refuses."""
    one = torch.zeros(1, dtype=getattr(torch, view.dtype))
    try:
        one.fill_(float(value) if isinstance(value, str) else value)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        raise NotExecutable(f"a fill of {view.dtype} with {value}") from None
    return bytes(one.view(torch.uint8).tolist())


def arguments(copied: Sequence[Dimension]) -> list[int]:
    """The integers that the kernel takes behind its two pointers."""
    total = math.prod(each.size for each in copied)
    return [total, *(number for each in copied for number in (each.size, each.to, each.source))]


def kernel(to: str, source: str, rank: int) -> str:
    """TTIR that copies elements of dtype `source` to `to`, over so many dimensions."""
    held, wanted = _element_type(source), _element_type(to)
    converted, value = _converted("%given", source, to)
    body = [
        *_BEGIN.splitlines(),
        *(
            _DIMENSION.format(n=dimension, step=step, next=step + 1, kind="tensor<1024xi64>")
            for step, dimension in enumerate(reversed(range(rank)))
        ),
        *_pointers("read", "source", f"%from{rank}", held),
        f"%given = tt.load %read, %mask : tensor<1024x!tt.ptr<{held}>>",
        *converted,
        *_pointers("write", "to", f"%to{rank}", wanted),
        f"tt.store %write, {value}, %mask : tensor<1024x!tt.ptr<{wanted}>>",
        "tt.return",
    ]
    sizes = "".join(f", %size{n}: i64, %ours{n}: i64, %theirs{n}: i64" for n in range(rank))
    text = textwrap.indent("\n".join(body), "    ")
    return (
        f"module {{\n  tt.func public @{NAME}(%to: !tt.ptr<{wanted}>, %source: !tt.ptr<{held}>, "
        f"%count: i64{sizes}) attributes {{noinline = false}} {{\n{text}\n  }}\n}}\n"
    )


_BEGIN = """\
%width = arith.constant 1024 : i64
%program = tt.get_program_id x : i32
%program64 = arith.extsi %program : i32 to i64
%start = arith.muli %program64, %width : i64
%lane = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
%lane64 = arith.extsi %lane : tensor<1024xi32> to tensor<1024xi64>
%starts = tt.splat %start : i64 -> tensor<1024xi64>
%left0 = arith.addi %starts, %lane64 : tensor<1024xi64>
%counts = tt.splat %count : i64 -> tensor<1024xi64>
%mask = arith.cmpi slt, %left0, %counts : tensor<1024xi64>
%to0 = arith.constant dense<0> : tensor<1024xi64>
%from0 = arith.constant dense<0> : tensor<1024xi64>"""
# Splits the place in dimension n off what is left of an element's number.
_DIMENSION = """\
%all_size{n} = tt.splat %size{n} : i64 -> {kind}
%all_ours{n} = tt.splat %ours{n} : i64 -> {kind}
%all_theirs{n} = tt.splat %theirs{n} : i64 -> {kind}
%place{n} = arith.remui %left{step}, %all_size{n} : {kind}
%left{next} = arith.divui %left{step}, %all_size{n} : {kind}
%tostep{n} = arith.muli %place{n}, %all_ours{n} : {kind}
%to{next} = arith.addi %to{step}, %tostep{n} : {kind}
%fromstep{n} = arith.muli %place{n}, %all_theirs{n} : {kind}
%from{next} = arith.addi %from{step}, %fromstep{n} : {kind}"""


def _pointers(name: str, base: str, offsets: str, kind: str) -> list[str]:
    pointers = f"tensor<1024x!tt.ptr<{kind}>>"
    return [
        f"%{name}base = tt.splat %{base} : !tt.ptr<{kind}> -> {pointers}",
        f"%{name} = tt.addptr %{name}base, {offsets} : {pointers}, tensor<1024xi64>",
    ]


def _element_type(dtype: str) -> str:
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    bits = {"bool": 8}.get(dtype) or int("".join(c for c in dtype if c.isdigit()) or 0)
    return "i8" if dtype.startswith("float8") else f"i{bits}"


def _converted(value: str, source: str, to: str) -> tuple[list[str], str]:
    """The lines that convert a value from one dtype to another, and the name of the result."""
    if source == to:
        return [], value
    if "float8" in source or "float8" in to:
        raise NotExecutable(f"a conversion of {source} to {to}")
    held, wanted = _element_type(source), _element_type(to)
    if to == "bool":
        compare, zero = ("cmpf une", "0.0") if source in _FLOATS else ("cmpi ne", "0")
        return [
            f"%zero = arith.constant dense<{zero}> : tensor<1024x{held}>",
            f"%isset = arith.{compare}, {value}, %zero : tensor<1024x{held}>",
            "%converted = arith.extui %isset : tensor<1024xi1> to tensor<1024xi8>",
        ], "%converted"
    # Numbers of 16 bits convert to and from float32 only; neither kind of them holds the other.
    from_half = held in _HALVES and to not in _FLOATS
    through = from_half or (wanted in _HALVES and held != "f32")
    lines = []
    for before, after in itertools.pairwise([held, *["f32"] * through, wanted]):
        if before != after:
            operation, result = _conversion(before, after, source, to), f"%as_{after}"
            kinds = f"tensor<1024x{before}> to tensor<1024x{after}>"
            lines.append(f"{result} = arith.{operation} {value} : {kinds}")
            value = result
    return lines, value


def _conversion(before: str, after: str, source: str, to: str) -> str:
    """The operation between two element types, on the way from a dtype to another."""
    is_longer = int(after.lstrip("bfi")) > int(before.lstrip("bfi"))
    sign = "u" if source.startswith("uint") or source == "bool" else "s"
    if before[0] != "i" and after[0] != "i":
        return "extf" if is_longer else "truncf"
    if before[0] != "i":
        return "fptoui" if to.startswith("uint") else "fptosi"
    if after[0] != "i":
        return f"{sign}itofp"
    return f"ext{sign}i" if is_longer else "trunci"


def _strides_for(view: View, shape: Sequence[int]) -> tuple[int, ...]:
    """A view's strides with dimensions of size 1 added or left out. Raises NotExecutable."""
    pairs = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    if [n for n, _ in pairs] != [size for size in shape if size != 1]:
        raise NotExecutable(f"a copy of {list(view.shape)} to {list(shape)}")
    strides = iter(s for _, s in pairs)
    return tuple(next(strides) if n != 1 else 1 for n in shape)
