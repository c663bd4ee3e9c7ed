"""Whether each case that a spec can draw can be made: tried when the spec is read.

Edge cases are all tried, and some drawn ones. What can't be made is a mistake of the spec at its
line, not a surprise while something is graded.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from grader.spec import drawn_sizes
from grader.spec.blocks import Scalar, Tensor, derived_size
from grader.spec.formula import FormulaError, Number
from grader.spec.values import INTEGERS, Mistake

if TYPE_CHECKING:
    from grader.spec.exercise import Exercise

DRAWN = 64  # sizes that are tried for each class and alternative, beside the edges
LEAST_SHARE = 0.05  # of drawn sizes that meet `where`: hypothesis gives up where fewer do
MOST_ELEMENTS = 1 << 26  # of a drawn case's tensor


class Tried(NamedTuple):
    """The sizes of a case that may be drawn, and where they come from."""

    size_class: str
    sizes: dict[str, int]

    @property
    def given(self) -> str:
        """`n=3, k=5 (class ragged)`."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f"{sizes} (class {self.size_class})"


def tried_sizes(exercise: Exercise) -> Iterator[Tried]:
    """The sizes of every edge case, and of some drawn ones."""
    for name, alternatives in exercise.sizes.items():
        for rules in alternatives:
            chooser = random.Random(name)
            drawn = (drawn_sizes.drawn(rules, chooser) for _ in range(DRAWN))
            extremes = itertools.islice(drawn_sizes.extremes(rules), DRAWN)
            met = (
                sizes
                for sizes in itertools.chain(extremes, drawn)
                if drawn_sizes.meet(exercise.where, sizes)
            )
            edges = drawn_sizes.edges(rules, exercise.where, 1)
            yield from (Tried(name, sizes) for sizes in itertools.chain(met, edges))


def impossible_cases(exercise: Exercise) -> Iterator[Mistake]:
    """Mistakes that only show in a case; for a spec whose names are right."""
    yield from _unmet_relations(exercise)
    reported: set[tuple[str | int, ...]] = set()
    for tried in tried_sizes(exercise) if _depends_on_sizes(exercise) else _largest(exercise):
        for mistake in _mistakes_in(exercise, tried):
            if mistake.path not in reported:  # the first case is enough
                reported.add(mistake.path)
                yield mistake


def _depends_on_sizes(exercise: Exercise) -> bool:
    """Whether more than the extents of tensors follows from sizes."""
    return bool(exercise.derived or exercise.where) or any(
        each.follows is not None
        if isinstance(each, Scalar)
        else each.contents.kind in ("range", "offsets", "permutation")
        for each in exercise.arguments
    )


def _largest(exercise: Exercise) -> Iterator[Tried]:
    """The largest sizes of each class: reading a spec takes less time than with all of them."""
    for name, alternatives in exercise.sizes.items():
        for rules in alternatives:
            yield Tried(name, {size: rule.high for size, rule in rules.items()})


def _unmet_relations(exercise: Exercise) -> Iterator[Mistake]:
    for name, alternatives in exercise.sizes.items() if exercise.where else ():
        for index, rules in enumerate(alternatives):
            chooser = random.Random(name)
            drawn = [drawn_sizes.drawn(rules, chooser) for _ in range(10 * DRAWN)]
            met = sum(drawn_sizes.meet(exercise.where, sizes) for sizes in drawn)
            if met < LEAST_SHARE * len(drawn):
                yield Mistake(
                    ("sizes", name, index),
                    f"expected sizes of which {LEAST_SHARE:.0%} or more meet `where`, got {met} of "
                    f"{len(drawn)}: draw fewer sizes, and derive the others",
                )


def _mistakes_in(exercise: Exercise, tried: Tried) -> Iterator[Mistake]:
    """The mistakes that one case shows."""
    for name, formula in exercise.derived.items():
        try:
            derived_size(formula, tried.sizes)
        except FormulaError as error:
            yield Mistake(("derived", name), f"{error}, {tried.given}")
    for index, argument in enumerate(exercise.arguments):
        key = "values" if isinstance(argument, Tensor) else "follows"
        try:
            if isinstance(argument, Scalar):
                if argument.follows is not None:
                    argument.followed(tried.sizes)
                continue
            if problem := _too_large(argument, tried.sizes):
                key = "shape"
                raise FormulaError(problem)
            for env in _environments(exercise, argument, tried.sizes):
                for dtype in _dtypes(exercise, argument):
                    _try_contents(argument, dtype, tried.sizes, env)
        except FormulaError as error:
            yield Mistake(("arguments", index, key), f"{error}, {tried.given}")


def _too_large(tensor: Tensor, sizes: Mapping[str, int]) -> str:
    elements = math.prod(tensor.concrete_shape(sizes))
    if elements <= MOST_ELEMENTS:
        return ""
    return f"expected a tensor of at most {MOST_ELEMENTS} elements, got {elements}"


def _environments(
    exercise: Exercise, tensor: Tensor, sizes: Mapping[str, int]
) -> Iterator[dict[str, Number]]:
    """The sizes, with each choice of the scalars that the tensor's contents depend on."""
    scalars = [
        each
        for each in exercise.arguments
        if isinstance(each, Scalar) and each.name in tensor.contents.names
    ]
    choices = [each.values or (each.followed(sizes),) for each in scalars]
    for values in itertools.product(*choices):
        yield {**sizes, **{s.name: v for s, v in zip(scalars, values, strict=True)}}


def _dtypes(exercise: Exercise, tensor: Tensor) -> list[str]:
    dtypes = [dtype for each in exercise.variants.values() for dtype in each.dtypes]
    return [*dict.fromkeys(map(tensor.concrete_dtype, dtypes))]


def _try_contents(
    tensor: Tensor, dtype: str, sizes: Mapping[str, int], env: Mapping[str, Number]
) -> None:
    """Raise FormulaError where a tensor's elements can't be what `values` says."""
    contents, shape = tensor.contents, tensor.concrete_shape(sizes)
    if contents.kind in ("range", "offsets") and 0 not in shape:
        ends = contents.ends(env, dtype)
        if contents.kind == "offsets" and shape[-1] == 1 and ends.high:
            raise FormulaError(f"expected 2 elements or more in a row of offsets to {ends.high}")
    if contents.kind == "permutation" and shape[-1] - 1 > INTEGERS[dtype][1]:
        most = INTEGERS[dtype][1] + 1
        raise FormulaError(f"expected a row of at most {most} elements of {dtype}, got {shape[-1]}")
