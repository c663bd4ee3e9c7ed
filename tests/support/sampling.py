"""What the suite takes a sample of: submissions of the corpora, attacks on one layer, features.

`grader author check` grades every submission, and asks the same of it; `make attacks` tries every
attack on every layer. With pytest's option `--every-submission` the suite takes all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

from grader.staff.calibration.corpus import Submission

ONE_IN = 10
MARK = "beyond_the_sample"


def sampled(submissions: Iterable[Submission]) -> list[Any]:
    """The submissions as parameters of a test, those outside the sample marked.

    Of each exercise, language, kind of check and status one in ten is in it, and at least one.
    """
    parameters = [pytest.param(each, id=each.id) for each in submissions]
    return sampled_by(parameters, lambda values: _group(values[0]))


def sampled_by(parameters: Iterable[Any], group_of: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """Parameters of a test with those outside the sample marked.

    Of each group of their values one in ten is in it, and at least one.
    """

    def key(parameter: Any) -> Any:
        return group_of(parameter.values)

    chosen = []
    for _, group in groupby(sorted(parameters, key=key), key):
        members = sorted(group, key=lambda each: zlib.crc32(each.id.encode()))
        taken = -(-len(members) // ONE_IN)
        mark = getattr(pytest.mark, MARK)
        chosen += members[:taken]
        chosen += [pytest.param(*each.values, id=each.id, marks=mark) for each in members[taken:]]
    return chosen


def _group(submission: Submission) -> tuple[str, ...]:
    status = submission.status.value
    return (submission.exercise, submission.language, submission.kind, submission.check, status)
