"""The cases that `grader bench` times: those of the spec, and the first one smaller and larger.

What changes is the largest size of that case, together with the sizes equal to it: rows and cols of
a square matrix, M, N and K, as many queries as keys. The others stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grader.mistakes import Mistake
from grader.spec import Tensor
from grader.spec.formula import FormulaError
from grader.spec.task import Task

EIGHTHS = (1, 2, 4, 16)  # of the size in the spec, which is timed as it is
MOST = 1 << 31  # what an index of 32 bits holds


@dataclass(frozen=True)
class Planned:
    """A case to time, as a spec would give it.

    `size` is the one that changes; None where the case is of other proportions than the first one.
    """

    size: int | None
    given: Mapping[str, Any]
    is_scored: bool  # it is the spec's own


def scaled_names(task: Task) -> tuple[str, ...]:
    """The sizes that change together: the largest of the first case, and those equal to it."""
    first, sizes = task.variant.timed.every_case[0], task.exercise.sizes_names
    largest = max(first[name] for name in sizes)
    return tuple(name for name in sizes if first[name] == largest)


def plan(task: Task, sizes: Sequence[int] | None = None) -> list[Planned]:
    """The cases to time, the spec's own first; `sizes` in the place of those derived from it.

    Needs a variant with a performance block. Raises Mistake where a tensor can't have such a
    size.
    """
    first, *others = task.variant.timed.every_case
    names = scaled_names(task)
    own = first[names[0]]
    if sizes is None:
        sizes = [max(1, own * eighths // 8) for eighths in EIGHTHS]
    planned = [Planned(own, first, True), *(Planned(None, given, True) for given in others)]
    for size in sorted(set(sizes) - {own}):
        given = {**first, **dict.fromkeys(names, size)}
        _expect_possible(task, given, size)
        planned.append(Planned(size, given, False))
    return planned


def parse(text: str) -> list[int]:
    """'1024,2048' as numbers. Raises Mistake."""
    sizes = []
    for word in text.split(","):
        word = word.strip()
        if not (word.isascii() and word.isdecimal() and len(word) < 12 and 0 < int(word) < MOST):
            raise Mistake(
                f"--sizes: expected whole numbers from 1 on, as in 1024,2048, got {word!r}"
            )
        sizes.append(int(word))
    return sizes


def _expect_possible(task: Task, given: Mapping[str, Any], size: int) -> None:
    sizes = {name: given[name] for name in task.exercise.sizes_names}
    for tensor in task.signature:
        if isinstance(tensor, Tensor):
            try:
                tensor.concrete_shape(sizes)
            except FormulaError as error:
                raise Mistake(f"--sizes: {size}: the shape of {tensor.name}: {error}") from None
