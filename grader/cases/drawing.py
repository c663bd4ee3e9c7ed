"""Cases that hypothesis draws.

hypothesis takes long to import, and a submission that fails in an edge case needs no drawn one. So
this module is imported where cases are drawn.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from grader.cases.case import Case, Space
from grader.spec import SizeRule, drawn_sizes
from grader.spec.formula import Relation


class _Choices(NamedTuple):
    """What a space leaves to be drawn. Many variants and dtypes have the same."""

    sizes: tuple[tuple[tuple[str, SizeRule], ...], ...]
    where: tuple[Relation, ...]
    data: tuple[str, ...]
    layouts: tuple[tuple[str, tuple[str, ...]], ...]
    patterns: tuple[tuple[str, tuple[str, ...]], ...]
    scalars: tuple[tuple[str, tuple[float | int | bool, ...]], ...]
    kinds: tuple[str, ...]  # of the scalars, since True equals 1


def drawn(space: Space, count: int) -> list[Case]:
    """So many cases of a space, in order; they depend on the space and its seed alone."""
    return [space.case(*chosen) for chosen in _drawn(_choices(space), space.seed, count)]


@functools.lru_cache(maxsize=64)
def _drawn(choices: _Choices, seed: int, count: int) -> Sequence[tuple[Any, ...]]:
    """The arguments of so many cases. Hypothesis takes a millisecond for each: they are kept."""
    arguments: list[tuple[Any, ...]] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(_strategy(choices))
    def one(chosen: tuple[Any, ...]) -> None:
        arguments.append(chosen)

    with only_what_is_drawn():
        one()
    return arguments


def _choices(space: Space) -> _Choices:
    return _Choices(
        tuple(tuple(rules.items()) for rules in space.drawn_from),
        tuple(space.task.exercise.where),
        space.task.exercise.data,
        tuple((tensor.name, tensor.layout) for tensor in space.tensors),
        tuple(space.stated.items()),
        tuple((scalar.name, scalar.values) for scalar in space.scalars),
        tuple(scalar.scalar for scalar in space.scalars),
    )


def _strategy(choices: _Choices) -> st.SearchStrategy[tuple[Any, ...]]:
    """The arguments of Space.case."""
    sizes = st.one_of(
        *(
            st.fixed_dictionaries({name: _size_strategy(rule) for name, rule in rules})
            for rules in choices.sizes
        )
    )
    if choices.where:
        sizes = sizes.filter(lambda drawn: drawn_sizes.meet(choices.where, drawn))
    named: list[Sequence[tuple[str, Sequence[Any]]]]
    named = [choices.layouts, choices.scalars, *([choices.patterns] if choices.patterns else [])]
    return st.tuples(sizes, st.sampled_from(choices.data), *map(_each_of, named))


def _each_of(known: Sequence[tuple[str, Sequence[Any]]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from(values) for name, values in known})


def _size_strategy(rule: SizeRule) -> st.SearchStrategy[int]:
    if rule.or_zero:
        return st.just(0) | _size_strategy(rule.model_copy(update={"or_zero": False}))
    if rule.choices is not None:
        return st.sampled_from(rule.choices)
    step = rule.multiple_of
    return st.integers(rule.low // step, rule.high // step).map(lambda n: n * step)


@contextlib.contextmanager
def only_what_is_drawn() -> Iterator[None]:
    """Keep hypothesis from drawing constants of this program's source files.

    Otherwise a seed's cases would depend on the loaded modules, and hypothesis would write a folder
    .hypothesis to the working directory. Versions of hypothesis that don't do this have no such
    function.
    """
    local_constants = getattr(providers, "_get_local_constants", None)
    if local_constants is None:
        yield
        return
    none = providers.Constants()
    providers._get_local_constants = lambda: none
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        providers._get_local_constants = local_constants
        providers.CONSTANTS_CACHE.cache.clear()
