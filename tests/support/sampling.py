"""Which submissions of the corpora the suite grades without a GPU.

`grader author check` grades every one of them, and asks the same of it. A test that grades a part
takes `sampled`; with pytest's option `--every-submission` it takes them all.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest

from grader.staff.calibration.corpus import Submission

ONE_IN = 3
MARK = "beyond_the_sample"


def sampled(submissions: Iterable[Submission]) -> list[Any]:
    """The submissions as parameters of a test, those outside the sample marked.

    Of each exercise, language, kind of check and status one in three is in it, and at least one.
    """
    parameters = []
    for _, group in groupby(sorted(submissions, key=_group), _group):
        members = sorted(group, key=lambda each: zlib.crc32(each.id.encode()))
        taken = -(-len(members) // ONE_IN)
        for number, each in enumerate(members):
            marks = () if number < taken else (getattr(pytest.mark, MARK),)
            parameters.append(pytest.param(each, id=each.id, marks=marks))
    return parameters


def _group(submission: Submission) -> tuple[str, ...]:
    status = submission.status.value
    return (submission.exercise, submission.language, submission.kind, submission.check, status)
