"""A case's tensors: values drawn from its seed, and their places in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from grader.cases import contents, oracle
from grader.cases.arena import Slot
from grader.cases.case import Case, Space
from grader.spec import Exercise, Scalar, Tensor
from grader.spec.contents import Contents
from grader.spec.task import Task
from grader.worker.protocol import Argument, Kind

# Extra elements between rows of a padded layout: odd, so that rows aren't aligned.
ROW_PADDING = 7


@dataclass(frozen=True)
class Inputs:
    """The arguments of one call, in call order.

    `order` holds a Slot for each tensor and an Argument for each scalar or size.
    """

    order: tuple[Slot | Argument, ...]
    tensors: dict[str, torch.Tensor]  # by name, contiguous, in the dtype under test; no outputs
    scalars: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)  # and what is derived from them

    @property
    def numbers(self) -> dict[str, Any]:
        """Sizes and scalars by name, of which an oracle gets those that it names."""
        return {**self.sizes, **self.scalars}

    @property
    def slots(self) -> list[Slot]:
        return [each for each in self.order if isinstance(each, Slot)]

    def arguments(self, placed: Sequence[Argument]) -> list[Argument]:
        """The call's arguments, with tensors as they were placed."""
        tensors = iter(placed)
        return [next(tensors) if isinstance(each, Slot) else each for each in self.order]


def make(task: Task, case: Case) -> Inputs:
    """The inputs of a case; the same case gives the same values on any machine."""
    generator = torch.Generator().manual_seed(_seed(task.exercise, case))
    return drawn(task, case, generator)


def drawn(task: Task, case: Case, generator: torch.Generator) -> Inputs:
    """Inputs of a case's sizes and data patterns, drawn on the generator's device.

    Raises OracleError where the exercise's own function for inputs fails.
    """
    exercise = task.exercise
    tensors: dict[str, torch.Tensor] = {}
    first_class = next(iter(exercise.sizes))  # patterns are the same in each
    patterns = Space(task, case.dtype, first_class, case.seed).patterns
    sizes = exercise.numbers(dict(case.sizes))
    scalars = _scalars(task, case)
    numbers = {**sizes, **scalars}
    given: dict[str, Any] = {"sizes": dict(sizes), "scalars": dict(scalars), "data": case.data}
    given |= {"dtype": getattr(torch, case.dtype), "generator": generator}
    made = oracle.inputs_of(exercise, given)

    def values(tensor: Tensor, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        if (own := made.get(tensor.name)) is not None:
            tensors[tensor.name] = _fitting(exercise, tensor, own, shape, dtype)
        else:
            known = patterns.get(tensor.name, [case.data])  # without the leading input's
            pattern = dict(case.patterns).get(tensor.name, known[0])
            tensors[tensor.name] = contents.draw(
                tensor.contents, shape, dtype, pattern, numbers, generator
            )
        return tensors[tensor.name]

    order = _in_order(task, case, values)
    unknown = made.keys() - tensors.keys()
    if unknown:
        known = ", ".join(tensors)
        raise oracle.OracleError(
            f"{exercise.oracle}_inputs: expected inputs among {known}, got {min(unknown)!r}"
        )
    return Inputs(order, tensors, scalars, sizes)


def _fitting(
    exercise: Exercise, tensor: Tensor, given: object, shape: tuple[int, ...], dtype: str
) -> torch.Tensor:
    """What the exercise's own function gives for an input, in its dtype; raises OracleError."""
    name = f"{exercise.oracle}_inputs: {tensor.name}"
    if not isinstance(given, torch.Tensor):
        raise oracle.OracleError(f"{name}: expected a tensor, got {type(given).__name__}")
    if tuple(given.shape) != shape:
        raise oracle.OracleError(f"{name}: expected shape {[*shape]}, got {[*given.shape]}")
    return given.to(getattr(torch, dtype)).contiguous()


def _scalars(task: Task, case: Case) -> dict[str, Any]:
    """The scalars of the call, by name."""
    scalars = (each for each in task.signature if isinstance(each, Scalar))
    return {scalar.name: _passed(scalar, case) for scalar in scalars}


def _passed(scalar: Scalar, case: Case) -> float | int | bool:
    """A scalar's value in a case: a float is rounded to float32, as kernels get it.

    So host code that computes with a Python float or a double has the same number, and so has the
    oracle, where the difference counts: 1 - beta, for example, with a beta next to 1.
    """
    value = case.scalar(scalar)
    return torch.tensor(value, dtype=torch.float32).item() if scalar.scalar == "float" else value


def blank(task: Task, case: Case) -> Inputs:
    """A call's arguments without values: slots for the tensors, and the scalars."""
    order = _in_order(task, case, lambda *_: None)
    sizes = task.exercise.numbers(dict(case.sizes))
    return Inputs(order, {}, _scalars(task, case), sizes)


def _in_order(
    task: Task, case: Case, values: Callable[[Tensor, tuple[int, ...], str], torch.Tensor | None]
) -> tuple[Slot | Argument, ...]:
    order: list[Slot | Argument] = []
    sizes = dict(case.sizes)
    for each in task.signature:
        if isinstance(each, Tensor):
            shape = each.concrete_shape(sizes)
            dtype = each.concrete_dtype(case.dtype)
            given = values(each, shape, dtype) if each.is_input else None
            strides, first = strides_of(shape, case.layout_of(each))
            order.append(
                Slot(each.name, dtype, shape, strides, first, each.role, each.space, given)
            )
        elif isinstance(each, Scalar):
            order.append(_scalar(each, _passed(each, case)))
        else:
            order.append(Argument(kind=Kind.int64, scalar=each.value(sizes)))
    return tuple(order)


def usual(slot: Slot, generator: torch.Generator) -> torch.Tensor:
    """Values for a tensor of which nothing is known but its dtype: standard normal, or any."""
    of_dtype = Contents()
    [pattern, *_] = of_dtype.patterns(slot.dtype, ())
    return contents.draw(of_dtype, slot.shape, slot.dtype, pattern, {}, generator)


def strides_of(shape: Sequence[int], layout: str) -> tuple[tuple[int, ...], int]:
    """Strides in elements, and the view's first element in its allocation."""
    if layout == "transposed":
        (*outer, last, before), first = strides_of(
            (*shape[:-2], shape[-1], shape[-2]), "contiguous"
        )
        return (*outer, before, last), first
    lengths = list(shape)
    if layout in ("row_padded", "padded"):
        lengths[-1] += ROW_PADDING
    if layout == "padded":
        lengths[:-1] = [length + 1 for length in lengths[:-1]]
    strides = [1] * len(shape)
    for dimension in range(len(shape) - 2, -1, -1):
        strides[dimension] = strides[dimension + 1] * lengths[dimension + 1]
    return tuple(strides), int(layout == "offset")


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
