"""The suite's samples have some of every exercise, check and status that the corpora have."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from grader.staff.calibration import corpus
from tests.grader.grading.test_attacks import CORPUS, sample
from tests.support.sampling import ONE_IN, sampled


@pytest.mark.parametrize("language", ["triton", "cuda"])
@pytest.mark.parametrize("kind", ["wrong", "honest"])
def test_of_each_exercise_and_of_each_check_and_status_some_are_in_the_sample(kind, language):
    parameters = sampled(corpus.load(kind, language))
    every = [each.values[0] for each in parameters]
    taken = [each.values[0] for each in parameters if not each.marks]
    assert [each.id for each in corpus.load(kind, language)] == [each.id for each in parameters]
    of_exercises = Counter(each.exercise for each in taken)
    whole = Counter(each.exercise for each in every)
    assert all(of_exercises[name] >= count / ONE_IN for name, count in whole.items())
    assert {(e.check, e.status) for e in every} == {(e.check, e.status) for e in taken}
    assert len(taken) < len(every) / 2


def test_of_attacks_a_fifth_is_taken_and_some_of_each_status_and_layer():
    parameters = sample(CORPUS)
    taken = [each.values[0] for each in parameters if not each.marks]
    assert [each.values[0] for each in parameters] == CORPUS
    assert {each.status for each in taken} == {each.status for each in CORPUS}
    assert {layer for e in taken for layer in e.layers} == {
        layer for e in CORPUS for layer in e.layers
    }
    assert len(CORPUS) / 5 <= len(taken) < len(CORPUS) / 2


def test_examples_of_hypothesis_may_take_any_time():
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    assert HealthCheck.too_slow in settings(max_examples=5).suppress_health_check
