"""A case's tensors: values drawn from its seed, and their places in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from grader.cases.arena import Slot
from grader.cases.case import Case
from grader.spec import Exercise, Scalar, Tensor, Variant
from grader.worker.protocol import Argument, Kind

# Extra elements between rows of a padded layout: odd, so that rows aren't aligned.
ROW_PADDING = 7
LARGE = 300.0  # its square overflows float16
TINY = 1e-3  # its square is as small as an epsilon


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call, in call order.

    `order` holds a Slot for each tensor and an Argument for each scalar or size.
    """

    order: tuple[Slot | Argument, ...]
    tensors: dict[str, torch.Tensor]  # by name, contiguous, in the dtype under test; no outputs
    scalars: dict[str, Any]

    @property
    def slots(self) -> list[Slot]:
        return [each for each in self.order if isinstance(each, Slot)]

    def arguments(self, placed: Sequence[Argument]) -> list[Argument]:
        """The call's arguments, with tensors as they were placed."""
        tensors = iter(placed)
        return [next(tensors) if isinstance(each, Slot) else each for each in self.order]


def make(exercise: Exercise, variant: Variant, case: Case) -> Inputs:
    """The inputs of a case; the same case gives the same values on any machine."""
    generator = torch.Generator().manual_seed(_seed(exercise, case))
    return drawn(exercise, variant, case, generator)


def drawn(exercise: Exercise, variant: Variant, case: Case, generator: torch.Generator) -> Inputs:
    """Inputs of a case's sizes and data pattern, drawn on the generator's device."""
    tensors: dict[str, torch.Tensor] = {}
    pattern = case.data  # of the leading input; the others are normal

    def values(tensor: Tensor, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        nonlocal pattern
        tensors[tensor.name] = draw(shape, dtype, pattern, generator)
        pattern = "normal"
        return tensors[tensor.name]

    order, scalars = _in_order(exercise, variant, case, values)
    return Inputs(order, tensors, scalars)


def blank(exercise: Exercise, variant: Variant, case: Case) -> Inputs:
    """A call's arguments without values: slots for the tensors, and the scalars."""
    order, scalars = _in_order(exercise, variant, case, lambda *_: None)
    return Inputs(order, {}, scalars)


def _in_order(
    exercise: Exercise,
    variant: Variant,
    case: Case,
    values: Callable[[Tensor, tuple[int, ...], str], torch.Tensor | None],
) -> tuple[tuple[Slot | Argument, ...], dict[str, Any]]:
    order: list[Slot | Argument] = []
    scalars: dict[str, Any] = {}
    sizes = dict(case.sizes)
    for each in exercise.signature(variant):
        if isinstance(each, Tensor):
            shape = each.concrete_shape(sizes)
            dtype = each.concrete_dtype(case.dtype)
            given = values(each, shape, dtype) if each.is_input else None
            order.append(_slot(each, shape, dtype, case.layout_of(each), given))
        elif isinstance(each, Scalar):
            scalars[each.name] = case.scalar(each)
            order.append(_scalar(each, scalars[each.name]))
        else:
            order.append(Argument(kind=Kind.int64, scalar=sizes[each.name]))
    return tuple(order), scalars


def draw(
    shape: tuple[int, ...], dtype: str, pattern: str, generator: torch.Generator
) -> torch.Tensor:
    """Values of one tensor, contiguous, on the generator's device.

    normal: standard normal; large: 300 times that; tiny: a thousandth of it; constant_rows: one
    value along the last dimension; one_hot: zeros but for one element of each row. Integers are
    uniform from -8 to 8, unsigned ones from 0 to 8, in every pattern.
    """
    kind, device = getattr(torch, dtype), generator.device
    if not kind.is_floating_point:
        low, high = (0, 2) if kind is torch.bool else (0 if kind is torch.uint8 else -8, 9)
        return torch.randint(low, high, shape, generator=generator, device=device).to(kind)
    if pattern == "normal" and device.type == "cuda":  # fast, for timings, which draw GBs
        return torch.empty(shape, dtype=kind, device=device).normal_(generator=generator)
    normal = torch.randn(shape, generator=generator, dtype=torch.float32, device=device)
    if pattern == "large":
        normal *= LARGE
    elif pattern == "tiny":
        normal *= TINY
    elif pattern == "constant_rows":
        normal = normal[..., :1].expand(shape)
    elif pattern == "one_hot":
        rows = (*shape[:-1], 1)
        place = torch.randint(0, shape[-1], rows, generator=generator, device=device)
        normal = torch.zeros_like(normal).scatter_(-1, place, normal.gather(-1, place))
    return normal.to(kind).contiguous()


def strides_of(shape: Sequence[int], layout: str) -> tuple[tuple[int, ...], int]:
    """Strides in elements, and the view's first element in its allocation."""
    lengths = list(shape)
    if layout == "row_padded":
        lengths[-1] += ROW_PADDING
    strides = [1] * len(shape)
    for dimension in range(len(shape) - 2, -1, -1):
        strides[dimension] = strides[dimension + 1] * lengths[dimension + 1]
    if layout == "transposed":
        strides = [1, shape[0]]
    return tuple(strides), int(layout == "offset")


def _slot(
    tensor: Tensor,
    shape: tuple[int, ...],
    dtype: str,
    layout: str,
    values: torch.Tensor | None,
) -> Slot:
    strides, first = strides_of(shape, layout)
    return Slot(tensor.name, dtype, shape, strides, first, tensor.role, tensor.space, values)


def _scalar(scalar: Scalar, value: float | int | bool) -> Argument:
    kind = {"float": Kind.float64, "int": Kind.int64, "bool": Kind.boolean}[scalar.scalar]
    return Argument(kind=kind, scalar=value)


def _seed(exercise: Exercise, case: Case) -> int:
    """A seed from the whole case, so that a value doesn't predict another case's."""
    digest = hashlib.sha256(f"{exercise.name} {case}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def blank_argument() -> Argument:
    """A stand-in where only the number of arguments matters."""
    return Argument(kind=Kind.int64, scalar=0)
