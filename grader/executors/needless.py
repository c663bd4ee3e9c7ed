"""Launches that a plan's result doesn't need: their traffic says nothing about the work.

A launch is needless where the result is as right without it. They are left out one after the other
in the order of the plan, so that of two launches that do the same work one stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from grader.cases import Case
from grader.plan import KernelName, Launch, Plan, Step
from grader.plan.model import Copy, HostOp, Upload
from grader.sandbox import untrusted

MOST_TRIED = 16  # groups of launches that are left out, one after the other
_MAX_NAME = 60  # characters of a kernel's name


def places(
    plan: Plan, case: Case, is_right_without: Callable[[Case, Collection[int]], bool]
) -> frozenset[int]:
    """The places of needless launches among the steps of a plan's first call.

    More than MOST_TRIED launches are tried kernel by kernel; kernels after the last that is tried
    are taken to be needed.
    """
    steps = plan.calls[0]
    launches = {n for n, step in enumerate(steps) if isinstance(step, Launch) and step.trial < 0}
    # Without any launch nothing can have been computed, unless something else moves data.
    moves = any(isinstance(step, Copy | HostOp | Upload) for step in steps)
    left_out: frozenset[int] = frozenset()
    for group in _groups(plan, launches):
        without = left_out | group
        if (moves or without != launches) and is_right_without(case, without):
            left_out = without
    return left_out


def sentences(plan: Plan, left_out: Collection[int], file: str) -> Iterator[str]:
    """'pad, launched at t.py:30, changes nothing of the result: its traffic doesn't count.'"""
    steps = [plan.calls[0][place] for place in sorted(left_out)]
    counts = Counter((_name_of(plan, step), step.line) for step in steps)
    for (name, line), times in counts.items():
        at = f" at {file}:{line}" if line else ""
        which = f"{name}, launched{f' {times} times' if times > 1 else ''}{at}"
        yield f"{which}, changes nothing of the result: its traffic doesn't count."


def _groups(plan: Plan, launches: Collection[int]) -> list[frozenset[int]]:
    """The launches one by one, or by kernel where there are too many."""
    if len(launches) <= MOST_TRIED:
        return [frozenset({place}) for place in sorted(launches)]
    by_name: dict[str, set[int]] = {}
    for place in sorted(launches):
        by_name.setdefault(_name_of(plan, plan.calls[0][place]), set()).add(place)
    return [frozenset(group) for group in by_name.values()][:MOST_TRIED]


def _name_of(plan: Plan, step: Step) -> str:
    """The name of the kernel that a step launches."""
    assert isinstance(step, Launch)
    kernel = plan.specialisations[step.specialisation]
    name = kernel.kernel if isinstance(kernel, KernelName) else kernel.function
    return untrusted.brief(name, _MAX_NAME)
