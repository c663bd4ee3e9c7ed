"""Cases of large sizes, which are planned and never run as a whole: planning costs no data.

    the graded ones      of the variant's performance block
    one size beyond int  each size alone so large that a tensor has more than 2^31 elements
    one size as a grid   each size alone so large that a block of 64 for each of its tiles passes
                         65,535, the end of a grid's y and z; the other sizes are the smallest

They follow from an exercise's shapes and sizes, with the graded case of a sibling where a variant
has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from grader.cases.case import Case, fixed_case
from grader.spec import SizeRule, drawn_sizes
from grader.spec.formula import FormulaError
from grader.spec.task import Task

# Elements of a tensor: a 32-bit index wraps for a third of them, an unsigned one is still right.
BEYOND_INT = 3 << 30
# The most that is given as an int: a loop's last step of up to 2^20 still fits.
MOST_AS_INT = (1 << 31) - (1 << 20)
GRID_SIZE = 64 * 65_536
_STEP = 64  # of sizes that are divisible by it in the graded case


def is_plannable(task: Task) -> bool:
    """Whether planning costs no data: all tensors are on the device."""
    return all(each.space == "device" for each in (*task.inputs, *task.outputs))


def graded_cases(task: Task, seed: int) -> list[Case]:
    """The cases on which speed is measured."""
    if task.variant.performance is None:
        return []
    return [fixed_case(task, each, seed) for each in task.variant.timed.every_case]


def named_cases(task: Task, dtype: str, size_class: str, seed: int) -> list[Case]:
    """The cases at which the spec says that launches must be possible, of one part."""
    named = task.exercise.launches_at.get(size_class, ())
    return [fixed_case(task, {**sizes, "dtype": dtype}, seed) for sizes in named]


def beyond_int(task: Task, seed: int) -> list[Case]:
    """The base case with each size alone so large that a tensor has BEYOND_INT elements."""
    base = _base(task, seed)
    grown = (_grown(task, base, name) for name in _free(task))
    return [each for each in dict.fromkeys(grown) if _most_elements(task, each) > 1 << 30]


def at_grid_limits(task: Task, seed: int) -> list[Case]:
    """Cases in which one size is GRID_SIZE and the others are the smallest.

    An exercise with a single size has none: beyond_int makes it as long.
    """
    names, base = _free(task), _base(task, seed)
    if len(names) < 2:
        return []
    least = {name: min(rule.low for rule in _rules(task, name)) for name in names}
    smallest = replace(base, sizes=tuple((n, least.get(n, value)) for n, value in base.sizes))
    grown = [smallest.with_size(name, GRID_SIZE) for name in names]
    return [each for each in grown if _most_elements(task, each) >= 0]


def _base(task: Task, seed: int) -> Case:
    """The variant's graded case, a sibling's, the one of its memory block, or the largest sizes."""
    exercise, variant = task.exercise, task.variant
    given = next(_named(task), None)
    if given is None:
        first = next(iter(exercise.sizes.values()))[0]
        given = {name: rule.high for name, rule in first.items()}
    sizes = {name: given[name] for name in exercise.sizes_names}
    for name in sizes:  # of a variant for one row, a sibling's case has more
        if all(rule.low == rule.high for rule in _rules(task, name)):
            sizes[name] = _rules(task, name)[0].low
    dtype = given.get("dtype", variant.dtypes[0])
    chosen = dtype if dtype in variant.dtypes else variant.dtypes[0]
    return fixed_case(task, {**sizes, "dtype": chosen}, seed)


def _named(task: Task) -> Iterator[Mapping[str, Any]]:
    for variant in (task.variant, *task.exercise.variants.values()):
        if variant.performance is not None:
            yield from variant.performance.every_case
    if task.variant.memory is not None:
        yield task.variant.memory.case


def _free(task: Task) -> list[str]:
    """The sizes that some size class of the variant gives a range of values."""
    return [
        name
        for name in task.exercise.sizes_names
        if any(rule.choices is None and rule.low < rule.high for rule in _rules(task, name))
    ]


def _rules(task: Task, name: str) -> list[SizeRule]:
    classes = (task.exercise.sizes[each] for each in task.variant.size_classes)
    return [each[name] for alternatives in classes for each in alternatives]


def _most_elements(task: Task, case: Case) -> int:
    """The elements of the largest tensor; -1 where the spec allows no such sizes together."""
    sizes = dict(case.sizes)
    if not drawn_sizes.meet(task.exercise.where, sizes):
        return -1
    try:
        tensors = (*task.inputs, *task.outputs)
        return max(math.prod(each.concrete_shape(sizes)) for each in tensors)
    except FormulaError:
        return -1


def _grown(task: Task, base: Case, name: str) -> Case:
    """The case with one size large enough for BEYOND_INT, as far as the signature's ints reach."""
    step = _STEP if base.size(name) % _STEP == 0 else 1
    most = MOST_AS_INT if task.variant.language == "cuda" else BEYOND_INT + _STEP
    low, high = base.size(name) // step, most // step
    while low < high:
        middle = (low + high) // 2
        if _most_elements(task, base.with_size(name, middle * step)) >= BEYOND_INT:
            high = middle
        else:
            low = middle + 1
    return base.with_size(name, low * step)
