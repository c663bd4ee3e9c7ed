"""A second, somewhat larger case than a spec's, so that knowing the spec's is no advantage."""

from __future__ import annotations

import random
from dataclasses import replace

from grader.cases.case import Case
from grader.spec import Exercise
from grader.spec.drawn_sizes import meet
from grader.spec.task import Task

_MOST_LARGER = (4, 3)  # the most by which a size grows, as a fraction
_CLASS = 64  # divisibility by powers of two matters up to here


def case_beside(task: Task, case: Case) -> Case | None:
    """A case of somewhat larger sizes of the same divisibility, drawn by its seed.

    A size with few allowed values stays the same, and so does one too small to have a neighbour;
    None where all sizes stay the same, or the larger ones don't meet the spec's `where`. Equal
    sizes stay equal.
    """
    drawn = random.Random(f"{case.seed} {task.exercise.name} {task.variant.name} {case}")
    chosen = {value: value for name, value in case.sizes if not _is_free(task.exercise, name)}
    for _, value in case.sizes:
        if value not in chosen:
            chosen[value] = drawn.choice(_sizes_beside(value) or [value])
    beside = replace(case, sizes=tuple((name, chosen[value]) for name, value in case.sizes))
    if beside == case or not meet(task.exercise.where, dict(beside.sizes)):
        return None
    return beside


def _is_free(exercise: Exercise, name: str) -> bool:
    """Whether some size class gives a size a range of values."""
    rules = exercise.rules_of(name)
    return any(rule.choices is None and rule.low < rule.high for rule in rules)


def _sizes_beside(value: int) -> list[int]:
    """Larger sizes that divide by the same powers of two."""
    step = min(value & -value, _CLASS)
    times, parts = _MOST_LARGER
    above = range(value + step, value * times // parts + 1, step)
    return [size for size in above if min(size & -size, _CLASS) == step]
