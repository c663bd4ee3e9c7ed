"""Copies between strided views on a GPU: rows for the driver, else a kernel of ours, which does
what torch's copy_ does. It is run here by the executor of Triton's IR."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import torch

from grader.executors.encoding import NotExecutable
from grader.executors.gpu import strided_copies
from grader.plan.model import DType, View
from grader.spec import ITEMSIZE
from grader.worker.ttir import text
from grader.worker.ttir.executor import Launch, execute
from grader.worker.ttir.memory import Buffer, Memory

DTYPES = (
    *("float64", "float32", "float16", "bfloat16"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)
PAIRS = list(itertools.product(DTYPES, DTYPES))
# Exactly held, between what is held, too large for some, and what has no number.
VALUES = [0, 1, -1, 2.5, 3.5, -2.75, 100, 127, 0.1, 65504, 1e-7, 3.0e38, math.inf, -math.inf]


def copied(to: View, source: View, given: torch.Tensor, size: int) -> torch.Tensor:
    """The bytes of memory of a size, all 1, after our kernel has copied one view to the other."""
    found = strided_copies.dimensions(to, source)
    left = torch.ones(size, dtype=torch.uint8)
    memory = Memory(
        [
            Buffer(left.numpy(), 1 << 30),
            Buffer(given.view(torch.uint8).numpy(), 1 << 31, writable=False),
        ]
    )
    numbers = strided_copies.arguments(found)
    module = text.read(strided_copies.kernel(to.dtype, source.dtype, len(found)))
    pointers = [
        base + view.offset * view.itemsize for base, view in ((1 << 30, to), (1 << 31, source))
    ]
    grid = (-(-numbers[0] // strided_copies.BLOCK), 1, 1)
    with np.errstate(all="ignore"):
        result = execute(Launch(module, grid, [*pointers, *numbers], None), memory)
    assert not result.findings
    return left


def by_torch(to: View, source: View, given: torch.Tensor, size: int) -> torch.Tensor:
    """The same by torch."""
    left = torch.ones(size, dtype=torch.uint8)
    wanted = of(left.view(getattr(torch, to.dtype)), to)
    wanted.copy_(of(given, source).reshape(to.shape))
    return left


def of(memory: torch.Tensor, view: View) -> torch.Tensor:
    """A view's tensor."""
    return memory.as_strided(view.shape, view.strides, view.offset)


def agree(to: View, source: View, given: torch.Tensor, size: int) -> None:
    """Our kernel does what torch does; a NaN is as good as any other."""
    ours, theirs = copied(to, source, given, size), by_torch(to, source, given, size)
    dtype = getattr(torch, to.dtype)
    if dtype.is_floating_point:
        held = [of(each.view(dtype), to).clone() for each in (ours, theirs)]
        assert torch.equal(held[0].isnan(), held[1].isnan())
        for each in (ours, theirs):
            of(each.view(dtype), to).nan_to_num_(0.0, math.inf, -math.inf)
    assert torch.equal(ours, theirs)


def representable(source: str, to: str) -> torch.Tensor:
    """Values of a dtype whose conversion to another is defined."""
    dtype = getattr(torch, source)
    if dtype.is_floating_point:
        values = torch.tensor([*VALUES, math.nan], dtype=torch.float64).to(dtype)
        if getattr(torch, to).is_floating_point or to == "bool":
            return values
        info = torch.iinfo(getattr(torch, to))
        inside = values.double().isfinite() & (values.double() > float(info.min) - 1)
        return values[inside & (values.double() < info.max)]
    if source == "bool":
        return torch.tensor([True, False, True])
    info = torch.iinfo(dtype)
    numbers = [0, 1, 2, 77, info.min, info.max, info.max // 3, info.min // 5]
    return torch.tensor(numbers, dtype=dtype)


@pytest.mark.parametrize(("source", "to"), PAIRS, ids=[" to ".join(each) for each in PAIRS])
def test_each_dtype_becomes_each_other_as_by_torch(source: DType, to: DType) -> None:
    given = representable(source, to)
    count = len(given)
    size = 2 * count * ITEMSIZE.get(to, 1)
    every_second = View(0, to, (count,), (2,))
    agree(every_second, View(1, source, (count,), (1,)), given, size)


@pytest.mark.parametrize("to", ["uint16", "uint32", "uint64", "int64", "float32", "float64"])
@pytest.mark.parametrize("source", ["uint16", "uint32", "uint64", "int64", "float32"])
def test_unsigned_numbers_are_no_negative_ones(source: DType, to: DType) -> None:
    top = [1 << 15, (1 << 16) - 1] if source == "uint16" else [1 << 31, (1 << 32) - 1]
    given = torch.tensor([0, 3, *top], dtype=torch.int64)
    if source == "float32":
        given = given[:2]
    given = given.to(getattr(torch, source))
    size = 8 * ITEMSIZE[to]
    agree(View(0, to, (len(given),), (2,)), View(1, source, (len(given),), (1,)), given, size)


SHAPES = [(5,), (3, 4), (2, 3, 5), (1, 7, 1), (2, 1, 3, 2), (40, 60)]


@pytest.mark.parametrize("seed", range(60))
def test_views_of_all_kinds_are_copied_as_by_torch(seed: int) -> None:
    """Rows where the driver can do it, of which bytes are compared, and the kernel for all."""
    chance = random.Random(seed)
    shape = chance.choice(SHAPES)
    to = View(0, "int32", shape, _strides(shape, chance), chance.randrange(5))
    broadcast = chance.random() < 0.2
    strides = (0,) * len(shape) if broadcast else _strides(shape, chance)
    source = View(1, "int32", shape, strides, chance.randrange(5))
    given = torch.arange(source.span[1] // 4 + 3, dtype=torch.int32)
    size = to.span[1] + 12
    wanted = by_torch(to, source, given, size)
    assert torch.equal(copied(to, source, given, size), wanted)
    if (found := strided_copies.rows(to, source)) is not None:
        left, bytes_given = torch.ones(size, dtype=torch.uint8), given.view(torch.uint8)
        for row in range(found.height):
            start, first = (at + row * pitch for at, pitch in (found.to, found.source))
            left[start : start + found.width] = bytes_given[first : first + found.width]
        assert torch.equal(left, wanted)


def _strides(shape: tuple[int, ...], chance: random.Random) -> tuple[int, ...]:
    """Of a tensor in any order of its dimensions, with gaps, so that no element is there twice."""
    order = list(range(len(shape)))
    if chance.random() < 0.5:
        chance.shuffle(order)
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis] + chance.choice((0, 0, 1, 4))
    return tuple(strides)


def test_dimensions_of_one_come_and_go() -> None:
    to, source = View(0, "int32", (3, 4), (4, 1)), View(1, "int32", (1, 3, 1, 4), (9, 8, 3, 2))
    given = torch.arange(40, dtype=torch.int32)
    agree(to, source, given, 48)
    with pytest.raises(NotExecutable):
        strided_copies.dimensions(to, View(1, "int32", (4, 3), (3, 1)))
    with pytest.raises(NotExecutable):
        strided_copies.dimensions(to, View(1, "int32", (4,), (1,)))


@pytest.mark.parametrize(
    ("to", "source", "height"),
    [
        (((6, 4), (4, 1)), ((6, 4), (4, 1)), 1),  # all of it is one stretch
        (((6, 4), (5, 1)), ((6, 4), (4, 1)), 6),
        (((2, 3, 4), (15, 5, 1)), ((2, 3, 4), (18, 6, 1)), 6),
        (((2, 3, 4), (16, 5, 1)), ((2, 3, 4), (18, 6, 1)), None),  # rows of rows
        (((6, 4), (1, 6)), ((6, 4), (4, 1)), None),  # a transpose
        (((6, 4), (3, 1)), ((6, 4), (4, 1)), None),  # rows that overlap
        (((6, 4), (4, 1)), ((6, 4), (0, 1)), None),  # one row, again and again
        (((6, 4), (4, 1)), ((6, 4), (-4, 1)), None),  # backwards
    ],
)
def test_what_the_driver_copies_and_what_it_doesn_t(to, source, height) -> None:
    ends = [View(n, "int32", each[0], each[1], 40) for n, each in enumerate((to, source))]
    found = strided_copies.rows(*ends)
    assert (found and found.height) == height
    other = View(1, "float32", source[0], source[1], 40)
    assert strided_copies.rows(ends[0], other) is None


@pytest.mark.parametrize("pair", [("float8_e5m2", "float32"), ("int8", "float8_e4m3fn")])
def test_a_conversion_of_float8_is_named(pair: tuple[str, str]) -> None:
    with pytest.raises(NotExecutable, match="a conversion of"):
        strided_copies.kernel(*pair, 1)
    assert "i8" in strided_copies.kernel("float8_e5m2", "float8_e5m2", 1)
