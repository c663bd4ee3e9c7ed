"""A Task: an exercise and one variant of it, named like "silu/triton".

A variant's limits, rules, tolerance and signature may be its own or the exercise's, so the two are
passed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from grader.policy import Rules
from grader.spec.blocks import Limits, Scalar, Size, Tensor, Tolerance
from grader.spec.exercise import Exercise, Variant


@dataclass(frozen=True)
class Task:
    exercise: Exercise
    variant: Variant

    def __str__(self) -> str:
        return f"{self.exercise.name}/{self.variant.name}"

    @property
    def parts(self) -> list[tuple[str, str]]:
        """The names of its parts, dtype and size class, in order."""
        return [
            (dtype, name) for dtype in self.variant.dtypes for name in self.variant.size_classes
        ]

    def with_entry(self, entry: str, seconds: float) -> Task:
        """The same task for another function of the file, with at most so many seconds a call."""
        limits = self.limits
        limits = limits.model_copy(update={"seconds": min(seconds, limits.seconds)})
        return Task(
            self.exercise,
            self.variant.model_copy(update={"entry": entry, "entries": {}, "limits": limits}),
        )

    def of_dtype(self, dtype: str) -> Task:
        """The same task with the entry of a dtype, where each has one of its own."""
        return Task(self.exercise, self.variant.of_dtype(dtype))

    @property
    def limits(self) -> Limits:
        """The limits of one call of the entry."""
        return self.variant.limits or self.exercise.limits

    @property
    def rules(self) -> Rules:
        """The exceptions from the rules: the exercise's and the variant's own."""
        allowed = self.exercise.policy.with_more(self.variant.policy)
        return Rules(frozenset(allowed.torch), frozenset(allowed.lifted))

    @cached_property
    def tolerance(self) -> Tolerance:
        return self.exercise.tolerance_of(self.variant)

    @cached_property
    def magnitude(self) -> str | tuple[str, ...]:
        """The tolerance's magnitude, or one for each output where they differ."""
        return self.tolerance.magnitude_of([each.name for each in self.outputs])

    @cached_property
    def signature(self) -> Sequence[Tensor | Scalar | Size]:
        return self.exercise.signature(self.variant)

    @cached_property
    def inputs(self) -> Sequence[Tensor]:
        return self.exercise.inputs(self.variant)

    @cached_property
    def outputs(self) -> Sequence[Tensor]:
        return self.exercise.outputs(self.variant)
