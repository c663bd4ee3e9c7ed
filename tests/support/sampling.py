"""What the suite takes a sample of: submissions of the corpora, attacks, features.

`grader author check` grades every submission, and asks the same of it; `make attacks` tries every
attack on every layer. With pytest's option `--every-submission` the suite takes all of them.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Container, Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

from grader.staff.calibration.corpus import Submission

ONE_IN = 10
MARK = "beyond_the_sample"


def sampled(submissions: Iterable[Submission]) -> list[Any]:
    """The submissions as parameters of a test, those outside the sample marked.

    Of each exercise one in ten is in it, and of each status and kind of check at least one.
    """
    parameters = [pytest.param(each, id=each.id) for each in submissions]
    by_exercise = _taken(parameters, lambda values: (values[0].exercise,), ONE_IN)
    by_status = _taken(parameters, lambda values: (values[0].check, values[0].status.value))
    return _marked(parameters, by_exercise | by_status)


def sampled_by(
    parameters: Iterable[Any], group_of: Callable[[Sequence[Any]], Any], one_in: int = ONE_IN
) -> list[Any]:
    """Parameters of a test with those outside the sample marked.

    Of each group of their values one in ten, or `one_in`, is in it, and at least one.
    """
    parameters = list(parameters)
    return _marked(parameters, _taken(parameters, group_of, one_in))


def _taken(
    parameters: Iterable[Any],
    group_of: Callable[[Sequence[Any]], Any],
    one_in: float = math.inf,
) -> set[str]:
    """The ids of the parameters in the sample, the same ones each time."""

    def key(parameter: Any) -> Any:
        return group_of(parameter.values)

    taken: set[str] = set()
    for _, group in groupby(sorted(parameters, key=key), key):
        members = sorted((each.id for each in group), key=lambda id: zlib.crc32(id.encode()))
        taken |= {*members[: max(1, math.ceil(len(members) / one_in))]}
    return taken


def _marked(parameters: Iterable[Any], taken: Container[str]) -> list[Any]:
    """The parameters, with a mark on those that aren't taken."""
    mark = getattr(pytest.mark, MARK)
    return [
        each if each.id in taken else pytest.param(*each.values, id=each.id, marks=mark)
        for each in parameters
    ]
