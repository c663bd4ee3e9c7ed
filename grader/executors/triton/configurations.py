"""Configurations that an autotuner chooses from, read from the trials in a plan.

On a GPU timings decide which one runs; so each of them has to be right. A configuration has a
number, and takes the place of the one that the planner chose. In a tuning with fewer configurations
the numbers begin again at the first.

Triton's tuner passes over a configuration that doesn't compile for the GPU. Such kernels are given
as `passed_over`, by frontend.key_of; the configuration after one of them takes its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from grader.cases import Case
from grader.executors.compile.frontend import key_of
from grader.executors.executor import Manner
from grader.plan import Launch, Plan, Specialisation, Step, reorder
from grader.sandbox import untrusted

MAX_TRIED = 64  # configurations that one case is run with
_MAX_WORDS = 120  # characters of a configuration's name


def names_of(plan: Plan) -> list[str]:
    """The configurations of the first call's longest tuning in words; [] where nothing is tuned.

    'BLOCK=64 num_warps=8': what differs between its configurations.
    """
    return words_of(_longest(plan))


def standing(plan: Plan, passed_over: Collection[str]) -> list[int]:
    """The numbers of those configurations that a GPU has a choice of."""
    longest = _longest(plan)
    return [number for number, each in enumerate(longest) if key_of(each) not in passed_over]


def tunings(plan: Plan) -> dict[int, tuple[Specialisation, ...]]:
    """The configurations that a kernel was tuned among, by the kernel's number in the plan."""
    tried: dict[tuple[int, str], dict[int, Specialisation]] = {}
    for step in (each for call in plan.calls for each in call):
        if isinstance(step, Launch) and step.trial >= 0:
            kernel = _kernel(plan, step)
            tried.setdefault((step.trial, kernel.function), {})[step.specialisation] = kernel
    return {number: tuple(each.values()) for each in tried.values() for number in each}


def kernels_of(plan: Plan) -> Sequence[Specialisation]:
    """The kernels of a plan of Triton, by their numbers."""
    return [each for each in plan.specialisations if isinstance(each, Specialisation)]


def steps_in(manner: Manner, plan: Plan, passed_over: Collection[str]) -> tuple[Step, ...]:
    """The steps of a plan that a manner does; in the place of what is passed over, others."""
    done = steps(plan, manner.call, manner.configuration, manner.without, passed_over)
    return reorder(done, memory_waits=False) if manner.reordered else done


def steps(
    plan: Plan,
    call: int = 0,
    number: int | None = None,
    without: Collection[int] = (),
    passed_over: Collection[str] = (),
) -> tuple[Step, ...]:
    """The steps of a call without the trials, each tuned launch in the configuration `number`.

    With None the launches are those that the planner chose. The steps at the places `without` of
    the call are left out.
    """
    kept: list[Step] = []
    for place, step, tried in _with_trials(plan, call):
        chosen = step
        if number is not None and tried:
            begin = number % len(tried)
            turned = tried[begin:] + tried[:begin]
            taken = (each for each in turned if key_of(_kernel(plan, each)) not in passed_over)
            chosen = next(taken, turned[0])
        if place not in without:
            kept.append(chosen)
    return tuple(kept)


def _longest(plan: Plan) -> list[Specialisation]:
    """The configurations of the first call's longest tuning; [] where nothing is tuned."""
    longest = max((tried for *_, tried in _with_trials(plan, 0)), key=len, default=[])
    return [_kernel(plan, each) for each in longest] if len(longest) > 1 else []


def _with_trials(plan: Plan, call: int) -> Iterator[tuple[int, Step, list[Launch]]]:
    """The steps of a call that are no trials, by place; with a tuned launch the trials before it.

    They are those of the last tuning before the launch, and of the same function.
    """
    trials: list[Launch] = []
    for place, step in enumerate(plan.calls[call]):
        if not isinstance(step, Launch):
            yield place, step, []
        elif step.trial >= 0:
            trials = [each for each in trials if each.trial == step.trial] + [step]
        else:
            function = _kernel(plan, step).function
            yield place, step, [x for x in trials if _kernel(plan, x).function == function]
            trials = []


def first_for(case: Case, count: int) -> int:
    """Which of so many configurations a case is run with: the same whenever it is run."""
    digest = hashlib.sha256(str(case).encode()).digest()
    return int.from_bytes(digest[:8], "little") % count


def label(number: int, names: Sequence[str]) -> str:
    """'configuration 2 of 5 (BLOCK=64)'."""
    name = f" ({names[number]})" if names[number] else ""
    return f"configuration {number + 1} of {len(names)}{name}"


def _kernel(plan: Plan, launch: Launch) -> Specialisation:
    kernel = plan.specialisations[launch.specialisation]
    assert isinstance(kernel, Specialisation)  # a plan of Triton has no others
    return kernel


def words_of(kernels: Sequence[Specialisation]) -> list[str]:
    """Each configuration by what differs between them."""
    if not kernels:
        return []
    values = [{**each.constants, **each.options} for each in kernels]
    keys = dict.fromkeys(key for each in values for key in each)
    differing = [key for key in keys if any(each.get(key) != values[0].get(key) for each in values)]
    words = [" ".join(f"{key}={each[key]}" for key in differing if key in each) for each in values]
    return [untrusted.brief(each, _MAX_WORDS) for each in words]
