"""The suite's sample of submissions has some of every check and status that the corpora have."""

from __future__ import annotations

from collections import Counter

import pytest

from grader.staff.calibration import corpus
from tests.support.sampling import ONE_IN, sampled


@pytest.mark.parametrize("kind", ["wrong", "honest"])
def test_of_each_exercise_language_check_and_status_some_are_in_the_sample(kind: corpus.Kind):
    parameters = sampled(corpus.load(kind))
    whole = Counter(group(each.values[0]) for each in parameters)
    taken = Counter(group(each.values[0]) for each in parameters if not each.marks)
    assert {each.id for each in corpus.load(kind)} == {each.id for each in parameters}
    assert all(taken[key] >= count / ONE_IN for key, count in whole.items())
    assert taken.total() < whole.total() / 2


def group(each: corpus.Submission) -> tuple[str, ...]:
    return (each.exercise, each.language, each.check, each.status.value)
