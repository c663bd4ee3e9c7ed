"""Sequential tests over made-up contenders: the same points each time, drift, voids and budgets."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from grader.timing import sequential
from grader.timing.bootstrap import Interval
from grader.timing.sequential import (
    MIN_PAIRS,
    REPEATS,
    Budget,
    Compared,
    Constant,
    IdleBaseline,
    Outcome,
    is_clear,
)

AT = 0.9  # the threshold of most tests
VOID, WHY_VOID = 0.0, "a time that is not above 0"


class Made:
    """A contender that answers from a list, over and over; it notes when it was asked."""

    def __init__(self, name, answers, log=None):
        self.name = name
        self.answers = itertools.cycle(answers)
        self.log = [] if log is None else log

    def seconds(self):
        self.log.append(self.name)
        return next(self.answers)


class Clock:
    """A clock that goes on by `step` each time it is read."""

    def __init__(self, step=0.0):
        self.step, self.time = step, 0.0

    def __call__(self):
        self.time += self.step
        return self.time


def compared(own, other, thresholds=(AT,), **options):
    """A candidate's answers against a baseline's, both in seconds."""
    contenders = Made("candidate", own), [Made("copy", other)]
    return sequential.run(*contenders, {"copy": thresholds}, options.pop("now", Clock()), **options)


def verdict(outcome: Outcome, at_least: float = AT) -> str:
    """As points are given: the doubt is the student's."""
    [found] = outcome.baselines
    if found.ratio.low >= at_least:
        return "holds"
    return "can't tell" if found.ratio.high >= at_least else "missed"


def simulated(ratio, tests, noise=0.003, runs=0.0, seed=5, tails=0.0):
    """The verdicts of many tests of a candidate with this true ratio.

    `noise` is the standard deviation of a pair's ratio, `runs` how far it may be off in a whole
    test; a share `tails` of the candidate's times is longer by up to a third.
    """
    draws = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    pairs = 0
    for _ in range(tests):
        contenders = np.exp(draws.normal(0, noise / math.sqrt(2), (2, sequential.MAX_PAIRS)))
        if tails:
            slow = draws.random(sequential.MAX_PAIRS) < tails
            contenders[0] *= 1 + slow * draws.random(sequential.MAX_PAIRS) / 3
        own = (contenders[0] * 1e-4 / (ratio * (1 + draws.uniform(-runs, runs)))).tolist()
        outcome = compared(own, (contenders[1] * 1e-4).tolist())
        counts[verdict(outcome)] += 1
        pairs += outcome.pairs
    return counts, pairs / tests


# --- the same points each time --------------------------------------------------------------------


def test_one_percent_from_a_threshold_every_grade_is_the_same_after_few_replays():
    below, pairs = simulated(0.99 * AT, 1000)
    assert below["missed"] >= 998 and pairs < 2 * MIN_PAIRS
    above, pairs = simulated(1.01 * AT, 1000)
    assert above["missed"] == 0 and pairs < 1.5 * MIN_PAIRS


def test_exactly_at_a_threshold_the_doubt_is_always_the_students():
    at, pairs = simulated(AT, 1000)
    assert at["missed"] == 0
    assert pairs < sequential.MAX_PAIRS / 5  # no need to look for what can't be found


def test_an_offset_of_a_whole_run_changes_no_points():
    """Ratios repeat within REPEATS from run to run: half of that to either side."""
    at, _ = simulated(AT, 300, runs=REPEATS / 2)
    assert at["missed"] == 0
    below, _ = simulated(0.99 * AT, 300, runs=REPEATS / 2)
    assert below["missed"] >= 298


def test_a_busy_cpu_changes_no_points():
    at, _ = simulated(AT, 200, tails=0.1)
    assert at["missed"] == 0
    below, _ = simulated(0.99 * AT, 200, tails=0.1)
    assert below["missed"] == 200


def test_the_zone_where_grades_may_differ_is_a_quarter_of_a_percent_wide():
    middle = AT / (1 + REPEATS)
    under, _ = simulated(0.9988 * middle, 200)
    over, _ = simulated(1.0012 * middle, 200)
    assert under["missed"] >= 195
    assert over["missed"] <= 5


def test_a_ratio_with_a_third_of_a_percent_of_noise_is_known_to_a_percent_after_few_replays():
    draws, pairs = np.random.default_rng(3), 0
    for _ in range(200):
        own, other = np.exp(
            draws.normal(0, 0.003 / math.sqrt(2), (2, sequential.MAX_PAIRS))
        ).tolist()
        outcome = compared(own, other, ())
        [found] = outcome.baselines
        assert found.ratio.high - found.ratio.low <= 0.01 * found.ratio.median
        assert found.ratio.low <= 1.0 <= found.ratio.high
        assert not outcome.budget_ended
        pairs += outcome.pairs
    assert pairs / 200 <= 2 * MIN_PAIRS


def test_what_is_far_from_every_threshold_takes_few_pairs():
    for ratio in (0.8, 1.0):
        _, pairs = simulated(ratio, 100)
        assert pairs <= 1.6 * MIN_PAIRS


def test_more_noise_than_the_budget_can_average_away_is_the_students_gain():
    outcomes, _ = simulated(0.98 * AT, 100, noise=0.3)
    assert outcomes["holds"] <= 1
    assert outcomes["can't tell"] >= 90


# --- when it ends ---------------------------------------------------------------------------------


def test_no_decision_rests_on_fewer_pairs_than_the_least():
    assert compared([1.0], [0.1]).pairs == MIN_PAIRS


def test_the_sequential_test_goes_on_while_any_threshold_is_open():
    """Between the rungs of linear points it is decided soon, at the line of one it isn't."""
    rungs = [0.54 + 0.04 * each for each in range(10)]
    noisy = [1.0, 1.006, 0.994, 1.004, 0.996]
    assert compared(noisy, [0.70]).pairs < 60
    outcome = compared(noisy, [0.70], [0.70 * (1 + REPEATS)])
    assert (outcome.pairs, outcome.budget_ended) == (sequential.MAX_PAIRS, True)
    assert compared(noisy, [0.70 / (1 + REPEATS)], rungs).pairs == sequential.MAX_PAIRS


def test_a_ratio_that_points_depend_on_is_told_to_a_percent():
    """Far from its threshold it is decided at once; it is measured until it is narrow."""
    draws = np.random.default_rng(4)
    own, other = np.exp(draws.normal(0, 0.005, (2, sequential.MAX_PAIRS))).tolist()
    outcome = compared(own, other, [0.5])
    [found] = outcome.baselines
    assert found.ratio.high - found.ratio.low <= sequential.WIDEST * found.ratio.median
    assert MIN_PAIRS < outcome.pairs < sequential.MAX_PAIRS


def test_a_baseline_without_a_threshold_keeps_no_test_going():
    noisy = Made("copy", [1.0, 1.05, 0.95])
    outcome = sequential.run(
        Made("candidate", [1.0]), [noisy, Made("torch", [1.0])], {"torch": [0.5]}, Clock()
    )
    assert outcome.pairs == MIN_PAIRS


def test_every_baseline_has_to_be_decided():
    noisy = Made("candidate", [1.0, 1.03, 0.97, 1.02, 0.98])
    baselines = [Made("copy", [1.0]), Made("torch", [0.9 / (1 + REPEATS)])]
    outcome = sequential.run(noisy, baselines, {"copy": [0.8], "torch": [0.9]}, Clock())
    assert outcome.budget_ended
    outcome = sequential.run(noisy, baselines, {"copy": [0.8]}, Clock())
    assert not outcome.budget_ended


def test_without_thresholds_it_ends_when_every_interval_is_narrow():
    draws = np.random.default_rng(2)
    own, other = np.exp(draws.normal(0, 0.004, (2, sequential.MAX_PAIRS))).tolist()
    outcome = compared(own, other, ())
    assert MIN_PAIRS < outcome.pairs < sequential.MAX_PAIRS
    assert not outcome.budget_ended
    [found] = outcome.baselines
    assert found.ratio.half_width <= 1.05 * sequential.NARROW  # widened where one side is narrower


def test_what_has_no_noise_is_decided_even_at_the_line():
    outcome = compared([1.0], [AT / (1 + REPEATS)])
    assert (outcome.pairs, outcome.budget_ended) == (MIN_PAIRS, False)


@pytest.mark.parametrize(
    ("budget", "now", "pairs"), [(Budget(pairs=30), Clock(), 30), (Budget(2.5), Clock(0.1), 24)]
)
def test_the_budget_ends_a_sequential_test_that_is_not_decided(budget, now, pairs):
    noisy = [1.0, 1.05, 0.95]
    outcome = compared(noisy, [AT / (1 + REPEATS)], budget=budget, now=now)
    assert outcome.budget_ended
    assert outcome.reason == ""
    assert abs(outcome.pairs - pairs) <= 1


def test_a_sequential_test_of_long_calls_goes_on_until_it_has_the_least_of_pairs():
    outcome = compared([1.0], [1.0], budget=Budget(0.5), now=Clock(0.1))
    assert outcome.reason == "" and outcome.pairs == MIN_PAIRS


def test_a_budget_too_short_for_the_least_is_no_measurement():
    outcome = compared([1.0], [1.0], budget=Budget(0.5), now=Clock(2.0))
    assert outcome.reason == "only 4 pairs were timed in 10 s"
    assert outcome.baselines == ()
    assert outcome.budget_ended


def test_checks_share_what_a_test_may_err_by():
    test = sequential._SequentialTest(Made("c", [1]), [], {}, Budget(), Clock())
    doubts = []
    for test.checks in range(1, 5000):
        doubts.append(1 - test.confidence)
    assert sum(doubts) <= 1 - sequential.CONFIDENCE + 1e-12
    assert sorted(doubts, reverse=True) == doubts


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.80, 0.8964, True),  # missed, though 0.4 % more be added
        (0.80, 0.8965, False),
        (0.8964, 0.95, False),
        (0.8965, 0.95, True),  # it holds: at worst in doubt
    ],
)
def test_a_threshold_is_decided_where_the_points_can_not_change(low, high, expected):
    assert is_clear(Interval((low + high) / 2, low, high, 20), [AT]) is expected


# --- order and voids ------------------------------------------------------------------------------


def test_drift_of_the_machine_cancels():
    """The GPU gets slower while the test is on: whoever comes first in a pair gains nothing."""
    clock = itertools.count()

    class Drifting(Made):
        def seconds(self):
            return next(self.answers) * (1 + next(clock) / 100)

    contenders = Drifting("candidate", [1.0]), [Drifting("copy", [1.0])]
    outcome = sequential.run(*contenders, {"copy": [0.5, 2.0]}, Clock())
    assert outcome.baselines[0].ratio.median == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_baseline_stands_on_both_sides_of_the_candidate_equally_often(count):
    log: list[str] = []
    others = [Made(f"y{each}", [1.0], log) for each in range(count)]
    test = sequential._SequentialTest(Made("c", [1.0], log), others, {}, Budget(), Clock())
    places = Counter()
    for test.rounds in range(2 * count * 2):
        order = [each.name for each in test._order()]
        assert sorted(order) == sorted(["c", *(each.name for each in others)])
        for name in order:
            places[name, order.index(name) < order.index("c")] += 1
    for each in others:
        assert places[each.name, True] == places[each.name, False]


def test_a_void_pair_counts_for_nothing_and_is_counted_with_its_reason():
    idle = {"copy": IdleBaseline(0.5)}
    candidate, baseline = [1.0, VOID, 1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.5, 0.75]
    outcome = compared(candidate, baseline, thresholds=[0.9], idle=idle)
    assert outcome.reason == ""
    assert outcome.baselines[0].ratio == Interval(0.5, 0.5, 0.5, 12).at_least_as_wide(REPEATS)
    assert set(outcome.voids) == {WHY_VOID, "copy ran slower beside the kernel than before it"}
    assert sum(outcome.voids.values()) in (5, 6)


def test_a_baselines_void_voids_the_candidates_time_too():
    """Each candidate's time stands beside the baseline's of the same round, or nowhere."""
    outcome = compared([1.0], [4.0, 4.0, VOID])
    assert (outcome.pairs, outcome.voids) == (MIN_PAIRS, {WHY_VOID: 5})
    assert (outcome.seconds.count, outcome.baselines[0].ratio.count) == (MIN_PAIRS, MIN_PAIRS)


def test_too_many_voids_end_the_sequential_test_without_a_measurement():
    outcome = compared([VOID, VOID, 1.0], [1.0])
    assert outcome.reason.startswith(f"8 of 12 timed pairs are void: {WHY_VOID} (8)")
    assert outcome.baselines == ()
    assert outcome.seconds is None
    assert outcome.voids == {WHY_VOID: 8}


@pytest.mark.parametrize("time", [0.0, -1e-6, math.nan, math.inf])
def test_a_time_that_is_none_is_void(time):
    outcome = compared([time], [1.0])
    assert outcome.voids == {"a time that is not above 0": MIN_PAIRS}
    assert "are void" in outcome.reason


# --- what is told ---------------------------------------------------------------------------------


def test_no_interval_is_narrower_than_what_repeats():
    outcome = compared([1e-4], [1.2e-4])
    assert outcome.seconds == Interval(1e-4, 1e-4 / (1 + REPEATS), 1e-4 * (1 + REPEATS), MIN_PAIRS)
    [found] = outcome.baselines
    assert (found.name, found.seconds) == ("copy", 1.2e-4)
    assert (found.ratio.low, found.ratio.high) == pytest.approx(
        (1.2 / (1 + REPEATS), 1.2 * (1 + REPEATS))
    )


def test_rounds_in_which_a_baseline_is_slower_than_idle_are_void_and_told():
    idle = {"copy": IdleBaseline(1e-4)}
    quiet = compared([1e-4], [1.02e-4], idle=idle)
    assert quiet.disturbed == "" and not quiet.voids
    assert compared([1e-4], [0.5e-4], idle=idle).disturbed == ""

    loud = compared([1e-4], [1.05e-4], idle=idle)
    assert loud.disturbed == (
        "copy took 5.0% longer beside the kernel than before it (105 us and 100 us)"
    )
    assert loud.seconds is None and "copy ran slower beside the kernel" in loud.reason

    now_and_then = compared([1e-4], [1e-4, 1e-4, 1e-4, 1.5e-4], idle=idle)
    [found] = now_and_then.baselines
    assert (found.seconds, found.ratio.median) == (1e-4, pytest.approx(1.0))
    assert set(now_and_then.voids) == {"copy ran slower beside the kernel than before it"}
    assert now_and_then.disturbed == ""


@pytest.mark.parametrize(
    ("candidate", "is_void", "is_disturbed"),
    [
        ("..", False, False),  # a quarter of the rounds is void, by the baseline
        ("-.", True, True),  # half of the others too
        ("--.", True, False),  # most of the others
        ("-", True, False),
    ],
)
def test_a_sequential_test_is_disturbed_where_it_would_stand_without_the_slower_baseline(
    candidate, is_void, is_disturbed
):
    of = {"-": VOID, ".": 1e-4}
    outcome = compared(
        [of[each] for each in candidate],
        [1.5e-4, 1e-4, 1e-4, 1e-4],
        idle={"copy": IdleBaseline(1e-4)},
    )
    assert (outcome.seconds is None, outcome.is_disturbed) == (is_void, is_disturbed)


def test_a_sequential_test_is_disturbed_where_baselines_void_most_rounds_and_more_than_others_do():
    idle = {"copy": IdleBaseline(1e-4)}
    assert compared([1e-4], [1.05e-4], idle=idle).is_disturbed
    assert not compared([1e-4], [1e-4], idle=idle).is_disturbed
    assert not compared([VOID], [1.0e-4], idle=idle).is_disturbed
    # Too slow for the budget, and one round in eight disturbed: trying again would be no better.
    slow = Clock(step=sequential.PATIENCE * sequential.MAX_SECONDS / 10)
    few = compared([1e-4], [1e-4] * 7 + [1.5e-4], idle=idle, now=slow)
    assert few.reason.startswith("only") and few.voids and not few.is_disturbed


def test_what_is_noise_idle_is_noise_afterwards():
    rough = IdleBaseline.of([1e-4, 1.04e-4, 0.96e-4, 1.08e-4, 0.92e-4, 1.0e-4, 3e-4])
    assert rough.seconds == 1e-4 and 0.03e-4 < rough.spread < 0.12e-4
    assert not compared([1e-4], [1e-4, 1.08e-4], idle={"copy": rough}).voids
    assert compared([1e-4], [1e-4, 1e-4, 1e-4, 1.5e-4], idle={"copy": rough}).voids
    nothing_but_noise = compared([1e-4], [1e-4], idle={"copy": IdleBaseline(-2e-6)})
    assert not nothing_but_noise.voids and not nothing_but_noise.disturbed


def test_a_limit_in_seconds_is_a_contender_of_its_own():
    candidate = Made("candidate", [1e-3])
    outcome = sequential.run(candidate, [Constant("2 ms", 2e-3)], {"2 ms": [1.0]}, Clock())
    widened = Interval(2.0, 2.0, 2.0, MIN_PAIRS).at_least_as_wide(REPEATS)
    assert outcome.baselines == (Compared("2 ms", 2e-3, widened),)


def test_a_candidate_alone_is_timed_until_its_time_is_known():
    outcome = sequential.run(Made("candidate", [1.0]), [], {}, Clock())
    assert (outcome.pairs, outcome.baselines) == (MIN_PAIRS, ())
    assert outcome.seconds.median == 1.0


def test_contenders_that_can_not_be_told_apart_are_refused():
    with pytest.raises(ValueError, match="contenders of different names, got copy, copy"):
        sequential.run(Made("copy", [1.0]), [Made("copy", [1.0])], {}, Clock())
    with pytest.raises(ValueError, match="thresholds of copy, got torch"):
        sequential.run(Made("candidate", [1.0]), [Made("copy", [1.0])], {"torch": [1.0]}, Clock())
