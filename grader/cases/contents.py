"""The elements of an input, drawn: its pattern, and what the spec's `values` says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from grader.spec import contents as stated
from grader.spec.contents import Contents, Ends
from grader.spec.formula import Number
from grader.spec.values import INTEGERS

LARGE = 300.0  # its square overflows float16
HUGE = 0.8  # this power of a dtype's largest number: 6e30 in float32, 7e3 in float16
TINY = 1e-3  # its square is as small as an epsilon
SMALL = 8  # of integers: from -8 to 8

Shape = Sequence[int]


def draw(
    contents: Contents,
    shape: tuple[int, ...],
    dtype: str,
    pattern: str,
    env: Mapping[str, Number],
    generator: torch.Generator,
) -> torch.Tensor:
    """Values of one tensor, contiguous, on the generator's device.

    `env` has the sizes and scalars that bounds depend on. Raises FormulaError where these have no
    value that the dtype holds; a spec with such cases isn't read.
    """
    kind = getattr(torch, dtype)
    ends = None
    if contents.kind in ("range", "offsets"):
        # Without elements there may be no such value, such as a row of none.
        ends = contents.ends(env, dtype) if torch.Size(shape).numel() else Ends(0, 0)
    if kind.is_floating_point:
        drawn = _floats(contents, shape, dtype, pattern, ends, generator)
        if contents.in_order:  # of 8 bits none are sorted
            drawn = drawn.double().sort(dim=-1).values.to(kind)
        return drawn.contiguous()
    if contents.kind == "offsets":
        assert ends is not None
        bits = _offsets(shape, pattern, ends, generator)
    else:
        bits = _integers(contents, shape, dtype, pattern, ends, generator)
    if contents.in_order:
        flipped = -(2**63) if kind is torch.uint64 else 0  # in the order of unsigned numbers
        bits = (bits ^ flipped).sort(dim=-1).values ^ flipped
    return bits.contiguous().view(kind) if kind is torch.uint64 else bits.to(kind).contiguous()


def floats(
    shape: tuple[int, ...], dtype: str, pattern: str, generator: torch.Generator
) -> torch.Tensor:
    """Floats in one of the patterns of an exercise's `data`.

    normal: standard normal; large: 300 times that; tiny: a thousandth of it; constant_rows: one
    value along the last dimension; one_hot: zeros but for one element of each row; far_below_zero:
    no element above -300, and in every other row or so none above -6e30 in float32; huge: normal
    times HUGE; any_bits: random bits, nan, infinities, zeros of both signs and subnormal numbers.
    """
    kind, device = getattr(torch, dtype), generator.device
    if (
        pattern == "normal" and device.type == "cuda" and kind.itemsize > 1
    ):  # fast, for timings, which draw GBs
        return torch.empty(shape, dtype=kind, device=device).normal_(generator=generator)
    normal = torch.randn(shape, generator=generator, dtype=torch.float32, device=device)
    if pattern == "large":
        normal *= LARGE
    elif pattern == "tiny":
        normal *= TINY
    elif pattern == "far_below_zero":
        furthest = torch.rand((*shape[:-1], 1), generator=generator, device=device) < 0.5
        normal = -(1 + normal.abs()) * torch.where(furthest, torch.finfo(kind).max ** HUGE, LARGE)
    elif pattern == "huge":
        normal *= torch.finfo(kind).max ** HUGE
    elif pattern == "any_bits":
        return _any_bits(shape, kind, generator)
    elif pattern == "constant_rows":
        normal = normal[..., :1].expand(shape)
    elif pattern == "one_hot" and normal.numel():
        place = _places(shape, generator)
        normal = torch.zeros_like(normal).scatter_(-1, place, normal.gather(-1, place))
    if kind.itemsize == 1:  # beyond its largest number there is nan
        normal = normal.clamp(-torch.finfo(kind).max, torch.finfo(kind).max)
    return normal.to(kind).contiguous()


def _floats(
    contents: Contents,
    shape: tuple[int, ...],
    dtype: str,
    pattern: str,
    ends: Ends | None,
    generator: torch.Generator,
) -> torch.Tensor:
    kind, device = getattr(torch, dtype), generator.device
    if ends is not None and pattern in (stated.LOWEST, stated.HIGHEST):
        end = ends.low if pattern == stated.LOWEST else ends.high
        return torch.full(shape, end, dtype=torch.float64, device=device).to(kind)
    if contents.kind in ("uniform", "range"):
        low, high = ends or (0.0, 1.0)
        drawn = torch.rand(shape, generator=generator, device=device, dtype=torch.float64)
        return (low + (high - low) * drawn).clamp(low, high).to(kind)
    if contents.kind == "one_hot":
        return _one_hot(shape, generator).to(kind)
    if contents.kind == "full_range":
        return _any_finite(shape, kind, generator)
    drawn = floats(shape, dtype, "normal" if pattern == stated.USUAL else pattern, generator)
    if contents.kind == "positive":
        smallest = torch.finfo(kind).smallest_normal
        return drawn.double().abs().clamp_min(smallest).to(kind)
    return drawn


def _any_finite(shape: Shape, kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Floats of random bits: every finite value is as likely as another."""
    bits = _random_bits(shape, kind, generator)
    is_finite = bits.view(kind).double().isfinite()
    return torch.where(is_finite, bits, torch.zeros_like(bits)).view(kind)


def _any_bits(shape: Shape, kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Floats of random bits; every fourth is nan, an infinity, a zero or subnormal."""
    bits = _random_bits(shape, kind, generator)
    nan, infinity, smallest = float("nan"), float("inf"), torch.finfo(kind).tiny / 2
    rare = [nan, infinity, -infinity, 0.0, -0.0, smallest, -smallest]
    of_kind = torch.tensor(rare, device=generator.device).to(kind).view(bits.dtype)
    # One nan for all, whose last bit is 0: an output's poison has a 1 there.
    of_kind[0] = of_kind[1] | (of_kind[1] & -of_kind[1]) >> 1
    bits = torch.where(bits.view(kind).double().isnan(), of_kind[0], bits)
    which = _uniform(shape, 0, 4 * len(rare) - 1, generator)
    which.view(-1)[:1] %= 3  # not finite: a comparison sees by it that any bits were drawn
    return torch.where(which < len(rare), of_kind[which % len(rare)], bits).view(kind)


def _random_bits(shape: Shape, kind: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Integers of a dtype's width."""
    signed = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    low, high = INTEGERS[str(signed).removeprefix("torch.")]
    return _uniform(shape, low, high, generator).to(signed)


def _integers(
    contents: Contents,
    shape: tuple[int, ...],
    dtype: str,
    pattern: str,
    ends: Ends | None,
    generator: torch.Generator,
) -> torch.Tensor:
    """Whole numbers as int64; those of uint64 by their bits."""
    if contents.kind == "one_hot":
        return _one_hot(shape, generator)
    if contents.kind == "permutation":
        return _permutation(shape, pattern, generator)
    low, high = ends or ((0, 1) if dtype == "bool" else INTEGERS[dtype])
    if contents.kind == "positive":
        low = 1
    if pattern == stated.SMALL:
        low, high = max(low, -SMALL), SMALL
    if pattern in (stated.LOWEST, stated.HIGHEST):
        end = int(low if pattern == stated.LOWEST else high)
        end -= 2**64 if end >= 2**63 else 0
        return torch.full(shape, end, dtype=torch.int64, device=generator.device)
    drawn = _uniform(shape, int(low), int(high), generator)
    return drawn.masked_fill_(drawn == 0, 1) if low == 1 else drawn


def _uniform(shape: Shape, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """Whole numbers from the lowest to the highest, both included, as int64.

    More than 2**63 of them are drawn as random bits, in which the lowest isn't looked at.
    """
    if high < stated.MOST and high - low < stated.MOST:
        return torch.randint(low, high + 1, [*shape], generator=generator, device=generator.device)
    # Two halves: that many numbers are more than randint takes.
    upper, lower = (
        torch.randint(0, 2**32, [*shape], generator=generator, device=generator.device)
        for _ in range(2)
    )
    bits = (upper << 32) | lower
    return bits & (2**63 - 1) if low >= 0 and high < 2**63 else bits


def _one_hot(shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """A 1 in each row, and zeros: int64."""
    zeros = torch.zeros([*shape], dtype=torch.int64, device=generator.device)
    return zeros.scatter_(-1, _places(shape, generator), 1) if zeros.numel() else zeros


def _places(shape: Shape, generator: torch.Generator) -> torch.Tensor:
    """A place in each row: int64 of the shape with rows of one element."""
    rows = (*shape[:-1], 1)
    return torch.randint(0, shape[-1], rows, generator=generator, device=generator.device)


def _permutation(shape: Shape, pattern: str, generator: torch.Generator) -> torch.Tensor:
    """0 to n - 1 in each row: int64."""
    in_order = torch.arange(shape[-1], device=generator.device).expand(*shape)
    if pattern == stated.IN_ORDER:
        return in_order
    if pattern == stated.REVERSED:
        return in_order.flip(-1)
    return torch.rand([*shape], generator=generator, device=generator.device).argsort(dim=-1)


def _offsets(
    shape: tuple[int, ...], pattern: str, ends: Ends, generator: torch.Generator
) -> torch.Tensor:
    """Rows that rise from 0 to the total, with steps of 0 among them: int64."""
    total = int(ends.high)
    inner = _uniform(shape, 0, total, generator)
    if pattern in (stated.ALL_FIRST, stated.ALL_LAST):
        inner.fill_(total if pattern == stated.ALL_FIRST else 0)
    drawn = inner.sort(dim=-1).values
    drawn[..., :1] = 0
    if shape[-1] > 1:
        drawn[..., -1:] = total
    return drawn
