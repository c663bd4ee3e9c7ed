"""Cases that hypothesis draws.

hypothesis takes long to import, and a submission that fails in an edge case needs no drawn one. So
this module is imported where cases are drawn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from grader.cases.case import Case, Space
from grader.spec import SizeRule, drawn_sizes


def drawn(space: Space, count: int) -> list[Case]:
    """So many cases of a space, in order; they depend on the space and its seed alone."""
    cases: list[Case] = []

    @hypothesis.seed(space.seed)
    @hypothesis.settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy(space))
    def one(case: Case) -> None:
        cases.append(case)

    with only_what_is_drawn():
        one()
    return cases


def strategy(space: Space) -> st.SearchStrategy[Case]:
    """The cases of a space, for hypothesis to draw."""
    sizes = st.one_of(
        *(
            st.fixed_dictionaries({name: _size_strategy(rule) for name, rule in rules.items()})
            for rules in space.alternatives
        )
    )
    where = space.exercise.where
    if where:
        sizes = sizes.filter(lambda drawn: drawn_sizes.meet(where, drawn))
    layouts = st.fixed_dictionaries(
        {tensor.name: st.sampled_from(tensor.layout) for tensor in space.tensors}
    )
    scalars = st.fixed_dictionaries(
        {scalar.name: st.sampled_from(scalar.values) for scalar in space.scalars}
    )
    chosen = (sizes, st.sampled_from(space.exercise.data), layouts, scalars)
    if not space.stated:
        return st.builds(space.case, *chosen)
    patterns = {name: st.sampled_from(known) for name, known in space.stated.items()}
    return st.builds(space.case, *chosen, st.fixed_dictionaries(patterns))


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
