"""Ladders: the variants v0 to v4 of an exercise, each of which asks for one improvement more."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.spec.exercise import Variant

_RUNG = re.compile(r"(?P<ladder>\w+)_v(?P<number>\d+)")


def rung_of(variant: str) -> tuple[str, int] | None:
    """`triton_v3` is rung 3 of the ladder `triton`; None for what is on no ladder."""
    match = _RUNG.fullmatch(variant)
    return (match["ladder"], int(match["number"])) if match else None


def on_one_case(rungs: Sequence[Variant]) -> list[Variant]:
    """Rungs, each with the first performance case of the highest, in a dtype that all of them take.

    Empty where no dtype is common to all. The last of the rungs with a performance block is the
    highest.
    """
    [*_, top] = (each for each in rungs if each.performance is not None)
    case = dict(top.timed.every_case[0])
    shared = [dtype for dtype in top.dtypes if all(dtype in each.dtypes for each in rungs)]
    if not shared:
        return []
    case["dtype"] = case.get("dtype") if case.get("dtype") in shared else shared[0]
    performance = top.timed.model_copy(update={"case": case, "cases": None})
    return [each.model_copy(update={"performance": performance}) for each in rungs]
