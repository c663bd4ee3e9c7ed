"""Medians and intervals: they cover, they are the same each time, they move the right way."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.timing.bootstrap import FEWEST, Interval, interval, paired_ratios

TIMES = st.lists(st.floats(0.5, 2.0), min_size=1, max_size=40)


def simulated(name: str, runs: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Times of a candidate and of a baseline that is 1.25 times as slow, by noise."""
    draws = np.random.default_rng(11)
    noise = [
        {
            "log-normal": lambda: 0.015 * draws.normal(size=(runs, pairs)),
            "heavy tails": lambda: 0.01 * draws.standard_t(2, size=(runs, pairs)),
            "one-sided": lambda: 0.02 * draws.exponential(size=(runs, pairs)),
        }[name]()
        for _ in range(2)
    ]
    # The clock drops by a fifth during the test, in a wave: both contenders see it.
    drift = 1 + 0.2 * np.linspace(0, 1, pairs) + 0.03 * np.sin(np.linspace(0, 9, pairs))
    return drift * np.exp(noise[0]), 1.25 * drift * np.exp(noise[1])


@pytest.mark.parametrize("noise", ["log-normal", "heavy tails", "one-sided"])
@pytest.mark.parametrize(
    ("pairs", "confidence", "least", "most"),
    [(12, 0.95, 0.95, 0.995), (60, 0.95, 0.945, 0.98), (60, 0.999, 0.997, 1.0)],
)
def test_the_interval_covers_the_true_ratio_as_often_as_it_says(
    noise, pairs, confidence, least, most
):
    runs = 1200
    own, other = simulated(noise, runs, pairs)
    found = [
        interval(paired_ratios(mine, theirs), confidence)
        for mine, theirs in zip(own, other, strict=True)
    ]
    covered = sum(each.low <= 1.25 <= each.high for each in found) / runs
    assert least <= covered <= most


@given(TIMES, st.integers(0, 1000))
def test_the_same_evidence_gives_the_same_interval_in_whatever_order(values, seed):
    shuffled = values.copy()
    random.Random(seed).shuffle(shuffled)
    assert interval(shuffled) == interval(values)


@given(TIMES, st.sampled_from([0.1, 0.5, 0.9, 0.95, 0.999]))
def test_low_median_and_high_are_in_order_within_the_range(values, confidence):
    found = interval(values, confidence)
    assert min(values) <= found.low <= found.median <= found.high <= max(values)


@given(TIMES)
def test_more_confidence_is_never_narrower(values):
    widths = [interval(values, each) for each in (0.5, 0.9, 0.99, 0.9999)]
    assert all(
        outer.low <= inner.low and inner.high <= outer.high
        for inner, outer in itertools.pairwise(widths)
    )


@given(TIMES, st.data())
def test_a_larger_value_never_lowers_an_end(values, data):
    index = data.draw(st.integers(0, len(values) - 1))
    larger = values.copy()
    larger[index] += data.draw(st.floats(0.001, 3))
    before, after = interval(values), interval(larger)
    assert before.low <= after.low
    assert before.median <= after.median
    assert before.high <= after.high


def test_few_values_have_their_range_for_an_interval():
    for count in range(1, FEWEST):
        values = [1.0 + 0.1 * each for each in range(count)]
        found = interval(values, 0.5)
        assert (found.low, found.high, found.count) == (min(values), max(values), count)


def test_ties_are_no_trouble():
    assert interval([1.5] * 30) == Interval(1.5, 1.5, 1.5, 30)
    found = interval([1.0] * 20 + [2.0] * 20)
    assert (found.low, found.median, found.high) == (1.0, 1.5, 2.0)


def test_an_outlier_moves_an_end_by_a_rank_at_most():
    values = [1 + 0.001 * each for each in range(30)]
    found = interval([*values, 1e9])
    assert found.high < values[-5]


def test_more_values_are_a_narrower_interval():
    draws = random.Random(3)
    values = [draws.gauss(1, 0.015) for _ in range(400)]
    widths = [interval(values[:n], 0.999).half_width for n in (12, 50, 400)]
    assert widths[0] > widths[1] > widths[2]
    assert widths[2] < 0.005


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused(value):
    with pytest.raises(ValueError, match="expected finite numbers, got"):
        interval([1.0, value])


def test_nothing_and_an_odd_confidence_are_refused():
    with pytest.raises(ValueError, match="at least one value, got none"):
        interval([])
    with pytest.raises(ValueError, match="between 0 and 1, got 95"):
        interval([1.0], 95)


def test_ratios_are_above_one_where_the_candidate_is_faster():
    assert paired_ratios([1.0, 2.0], [2.0, 1.0]) == [2.0, 0.5]


@pytest.mark.parametrize("own", [0.0, -1e-6, math.nan])
def test_a_ratio_of_a_time_that_is_none_is_refused(own):
    with pytest.raises(ValueError, match="times above 0, got"):
        paired_ratios([own], [1.0])
    with pytest.raises(ValueError, match="times above 0, got"):
        paired_ratios([1.0], [own])


def test_pairs_of_different_number_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        paired_ratios([1.0, 1.0], [1.0])


def test_a_least_width_widens_to_both_sides_and_never_narrows():
    assert Interval(1.0, 0.999, 1.001, 9).at_least_as_wide(0.01) == Interval(1.0, 1 / 1.01, 1.01, 9)
    wide = Interval(1.0, 0.9, 1.1, 9)
    assert wide.at_least_as_wide(0.01) == wide
