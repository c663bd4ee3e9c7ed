"""A Task: one exercise and one variant of it, which is what a runner judges.

The two belong together: a variant's limits, rules, tolerance and signature may be its own or the
exercise's. Whatever is judged is named by a task, "silu/triton".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.policy import Rules
from grader.spec.blocks import Limits, Scalar, Size, Tensor, Tolerance
from grader.spec.exercise import Exercise, Variant


@dataclass(frozen=True)
class Task:
    """An exercise and a variant of it."""

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

    @property
    def limits(self) -> Limits:
        """What one call of the entry may use."""
        return self.exercise.limits_of(self.variant)

    @property
    def rules(self) -> Rules:
        """What the spec allows beyond the rules, or lifts."""
        return self.exercise.rules_of(self.variant)

    @property
    def tolerance(self) -> Tolerance:
        """How far outputs may be off."""
        return self.exercise.tolerance_of(self.variant)

    @property
    def signature(self) -> Sequence[Tensor | Scalar | Size]:
        """The entry's arguments, in order."""
        return self.exercise.signature(self.variant)

    @property
    def outputs(self) -> Sequence[Tensor]:
        """The tensors that the entry writes."""
        return self.exercise.outputs(self.variant)
