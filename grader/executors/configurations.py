"""Configurations that an autotuner chooses from, read from the trials in a plan.

A GPU's clock decides which one runs there; without one each of them has to be right. A
configuration has a number, and stands in for the one that the planner chose: in a tuning with fewer
configurations they begin again at the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

from grader import hostile
from grader.cases import Case
from grader.plan import Launch, Plan, Specialisation, Step
from grader.worker.compile import tuned

MAX_TRIED = 64  # configurations that one case is run with
_MAX_WORDS = 120  # characters of a configuration's name


def names_of(plan: Plan) -> list[str]:
    """The configurations of the first call's longest tuning in words; [] where nothing is tuned.

    'BLOCK=64 num_warps=8': what differs between its configurations.
    """
    longest: list[Specialisation] = []
    trials: list[Launch] = []
    for step in plan.calls[0]:
        if not isinstance(step, Launch):
            continue
        if step.trial >= 0:
            if trials and trials[-1].trial != step.trial:
                trials = []
            trials.append(step)
        if step.trial >= 0 or not trials:
            continue
        function = _kernel(plan, step).function
        same = [made for each in trials if (made := _kernel(plan, each)).function == function]
        longest = max(longest, same, key=len)
        trials = []
    return _names(longest) if len(longest) > 1 else []


def fitting(plan: Plan) -> set[str]:
    """The configurations that a planner has compiled to see whether a GPU can hold them.

    That is the first of each tuning, by tuned.key_of. Other planners take the planner's word: what
    doesn't fit all the same fails when it becomes a cubin.
    """
    first: dict[int, Specialisation] = {}
    for step in (each for call in plan.calls for each in call):
        if isinstance(step, Launch) and step.trial >= 0:
            first.setdefault(step.trial, _kernel(plan, step))
    return {tuned.key_of(vars(each)) for each in first.values()}


def steps(
    plan: Plan, call: int = 0, number: int | None = None, without: Collection[int] = ()
) -> tuple[Step, ...]:
    """The steps of a call without the trials, each tuned launch in the configuration `number`.

    With None the launches are those that the planner chose. The steps at the places `without` of
    the call are left out.
    """
    kept: list[Step] = []
    trials: list[Launch] = []
    for place, step in enumerate(plan.calls[call]):
        if isinstance(step, Launch) and step.trial >= 0:
            if trials and trials[-1].trial != step.trial:
                trials = []
            trials.append(step)
            continue
        chosen = step
        if isinstance(step, Launch):
            function = _kernel(plan, step).function
            same = [each for each in trials if _kernel(plan, each).function == function]
            chosen = step if number is None or not same else same[number % len(same)]
            trials = []
        if place not in without:
            kept.append(chosen)
    return tuple(kept)


def first_for(case: Case, count: int) -> int:
    """Which of so many configurations a case is run with: the same whenever it is run."""
    digest = hashlib.sha256(str(case).encode()).digest()
    return int.from_bytes(digest[:8], "little") % count


def label(number: int, names: Sequence[str]) -> str:
    """'configuration 2 of 5 (BLOCK=64)'."""
    name = f" ({names[number]})" if names[number] else ""
    return f"configuration {number + 1} of {len(names)}{name}"


def _kernel(plan: Plan, launch: Launch) -> Specialisation:
    return plan.specialisations[launch.specialisation]


def _names(kernels: Sequence[Specialisation]) -> list[str]:
    values = [{**each.constants, **each.options} for each in kernels]
    keys = dict.fromkeys(key for each in values for key in each)
    differing = [key for key in keys if any(each.get(key) != values[0].get(key) for each in values)]
    words = [" ".join(f"{key}={each[key]}" for key in differing if key in each) for each in values]
    return [hostile.one_line(hostile.clean(each), _MAX_WORDS) for each in words]
