"""A sequential test: candidate and baselines are timed in turn until the thresholds are decided.

It depends only on its arguments: contenders that return the time of a call, and a clock. So tests
use artificial contenders, and no time passes.

Each round times every contender once, the candidate in the middle. The order is reversed from one
round to the next, so that a drift of the machine cancels. A round with a void time is left out, and
counted by its reason.

The goal is that **the same submission gets the same points every time**, in spite of noise:

- *Noise within a run* is averaged. Intervals have CONFIDENCE over all checks of a test together,
  since repeated checks would find one interval clear of a threshold by chance. The k-th check may
  err with 1/(k (k + 1)) of the test's error. These shares add up to 1 for any number of checks, so
  the union bound holds.
- *Differences between runs* (where buffers lie, which clock the GPU settles on) are the same for
  all pairs of a test, so more pairs don't average them. So no reported interval is narrower than
  REPEATS to both sides of its median.
- *Doubt counts in favour of the student*: a threshold holds where the interval's high end reaches
  it (score.py). So the decision boundary lies at threshold / (1 + REPEATS), half-way between a
  ratio at the threshold and one 2 REPEATS below it, and both of these get the same points each
  time.
- *The boundary itself* separates speeds that differ by almost nothing, for any rule on noisy
  numbers. Here it lies where no threshold is, and the zone around it is narrow. So the test
  continues while the interval, before it is widened, contains the boundary.

Once the points can't change, the test continues until the interval of every ratio that a threshold
names is WIDEST or narrower.

benchmarks/sequential_tests.py simulates how often a kernel gets the same points, by its distance
from a threshold.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from grader.timing.bootstrap import Interval, interval, paired_ratios

CONFIDENCE = 0.999  # of all checks of a test together
REPEATS = 0.004  # how far a kernel's ratio may differ from run to run, as a share
MIN_PAIRS = 12  # before the first check: the range of fewer values covers less than CONFIDENCE
MAX_PAIRS = 200
MAX_SECONDS = 3.0  # after which a test with MIN_PAIRS ends
PATIENCE = 20.0  # times MAX_SECONDS, for a test with fewer pairs
GROWTH = 1.5  # pairs at a check over those at the one before
NARROW = 0.004  # half width, as a share: enough where no threshold asks for more
WIDEST = 0.01  # width of the interval of a ratio that a threshold names, as a share
FINEST = 0.001  # half width, as a share: finer differences don't repeat in another run
# Of all rounds. A candidate that voids the slower half of its rounds looks better by two thirds of
# the noise's standard deviation; with more void rounds nothing is measured.
MOST_VOID = 0.5
MOST_SLOWED = 0.03  # of a baseline's time in the test against its idle time, as a share
NORMAL = 1.4826  # standard deviation over median absolute deviation of a normal distribution


@dataclass(frozen=True)
class IdleBaseline:
    """A baseline's times before the candidate's process exists."""

    seconds: float  # median per call
    spread: float = 0.0  # standard deviation of one replay's time

    @classmethod
    def of(cls, times: Sequence[float]) -> IdleBaseline:
        """From the times of some replays. The spread is robust against outliers."""
        middle = statistics.median(times)
        deviation = statistics.median(abs(each - middle) for each in times)
        return cls(middle, NORMAL * deviation)

    @property
    def limit(self) -> float:
        """The longest time that noise and MOST_SLOWED explain; inf where the median is not > 0."""
        if self.seconds <= 0:
            return math.inf
        return (1 + MOST_SLOWED) * self.seconds + 2 * self.spread


class Contender(Protocol):
    """The candidate, or a baseline that it is timed against."""

    @property
    def name(self) -> str: ...

    def seconds(self) -> float:
        """Seconds per call, from one replay."""


@dataclass(frozen=True)
class Constant:
    """A baseline that always takes the same time: a roof of the device, a limit in seconds."""

    name: str
    value: float  # seconds per call

    def seconds(self) -> float:
        return self.value


@dataclass(frozen=True)
class Budget:
    """Limits of one test."""

    seconds: float = MAX_SECONDS
    pairs: int = MAX_PAIRS


@dataclass(frozen=True)
class Compared:
    """A baseline in the test with the candidate."""

    name: str
    seconds: float  # median per call, in the test
    ratio: Interval  # of baseline's time over candidate's, never narrower than REPEATS


@dataclass(frozen=True)
class Outcome:
    """The result of a test. Where `reason` says why there is none, only the counts are set."""

    reason: str = ""
    pairs: int = 0
    voids: Mapping[str, int] = field(default_factory=dict)  # rounds by reason
    budget_ended: bool = False  # before everything was decided
    seconds: Interval | None = None  # of the candidate, per call, never narrower than REPEATS
    baselines: tuple[Compared, ...] = ()
    disturbed: str = ""  # baselines that ran slower than idle; evidence for a person
    is_disturbed: bool = False  # no measurement, because rounds had slowed baselines


@dataclass
class _SequentialTest:
    candidate: Contender
    baselines: Sequence[Contender]
    thresholds: Mapping[str, Sequence[float]]  # ratios at which points change, by baseline
    budget: Budget
    now: Callable[[], float]
    idle: Mapping[str, IdleBaseline] = field(default_factory=dict)
    voids: Counter[str] = field(default_factory=Counter)
    disturbed_rounds: int = 0
    rounds: int = 0
    checks: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError where names are not distinct or a threshold names no baseline."""
        names = [self.candidate.name, *(each.name for each in self.baselines)]
        if len(set(names)) != len(names):
            raise ValueError(f"expected contenders of different names, got {', '.join(names)}")
        if unknown := set(self.thresholds) - set(names[1:]):
            raise ValueError(f"expected thresholds of {', '.join(names[1:])}, got {min(unknown)}")
        self.times: dict[str, list[float]] = {name: [] for name in names}
        self.times_of_all: dict[str, list[float]] = {name: [] for name in self.idle}  # void too

    @property
    def pairs(self) -> int:
        return len(self.times[self.candidate.name])

    @property
    def is_void(self) -> bool:
        """Whether too many rounds are void for a measurement."""
        return self.voids.total() > MOST_VOID * self.rounds

    @property
    def is_disturbed(self) -> bool:
        """Whether slowed baselines are the reason why nothing was measured.

        They made most of the void rounds, or without them few enough rounds would be void.
        """
        others = self.voids.total() - self.disturbed_rounds
        of = self.rounds - self.disturbed_rounds
        return self.is_void and (others < self.disturbed_rounds or others <= MOST_VOID * of)

    @property
    def confidence(self) -> float:
        """The confidence of the interval at this check; all checks together have CONFIDENCE."""
        return 1 - (1 - CONFIDENCE) / (self.checks * (self.checks + 1))

    def run(self) -> Outcome:
        """Time rounds until the thresholds are decided and ratios narrow, or the budget ends."""
        started = self.now()
        next_check = MIN_PAIRS
        while True:
            if self.pairs >= next_check:
                self.checks += 1
                if self._is_decided() and self._is_narrow():
                    return self._measured(budget_ended=False)
                next_check = math.ceil(self.pairs * GROWTH)
            enough = 1.0 if self.pairs >= MIN_PAIRS else PATIENCE
            is_over = self.now() >= started + enough * self.budget.seconds
            if self.pairs >= self.budget.pairs or is_over:
                break
            self._round()
            if self.rounds >= MIN_PAIRS and self.is_void:
                often = ", ".join(f"{reason} ({n})" for reason, n in self.voids.most_common(3))
                reason = f"{self.voids.total()} of {self.rounds} timed pairs are void: {often}"
                return self._unmeasured(reason, budget_ended=False)
        self.checks += 1
        if self.pairs < MIN_PAIRS:
            seconds = PATIENCE * self.budget.seconds
            reason = f"only {self.pairs} pairs were timed in {seconds:g} s"
            return self._unmeasured(reason, budget_ended=True)
        return self._measured(budget_ended=not self._is_decided())

    def _round(self) -> None:
        """Time every contender once; all of these times count or none does."""
        self.rounds += 1
        times: dict[str, float] = {}
        for contender in self._order():
            seconds = contender.seconds()
            if reason := self._why_void(contender.name, seconds):
                self.voids[reason] += 1
                return
            times[contender.name] = seconds
        for name, took in times.items():
            self.times[name].append(took)

    def _why_void(self, name: str, seconds: float) -> str:
        """Why a time doesn't count: a short phrase, equal for equal reasons; else ""."""
        if not (math.isfinite(seconds) and seconds > 0):
            return "a time that is not above 0"
        if name in self.idle:
            self.times_of_all[name].append(seconds)
            if seconds > self.idle[name].limit:
                self.disturbed_rounds += 1
                return f"{name} ran slower beside the kernel than before it"
        return ""

    def _order(self) -> list[Contender]:
        """Contenders with the candidate in the middle; each baseline gets the place next to it."""
        others = list(self.baselines)
        turn = self.rounds // 2 % len(others) if others else 0
        others = others[turn:] + others[:turn]
        half = len(others) // 2
        order = [*others[:half], self.candidate, *others[half:]]
        return order[::-1] if self.rounds % 2 else order

    def _ratio(self, name: str) -> Interval:
        """The ratio to a baseline, not yet widened."""
        ratios = paired_ratios(self.times[self.candidate.name], self.times[name])
        return interval(ratios, self.confidence)

    def _is_decided(self) -> bool:
        """Whether more pairs would change no points."""
        ratios = {each.name: self._ratio(each.name) for each in self.baselines}
        if not any(self.thresholds.values()):
            own = interval(self.times[self.candidate.name], self.confidence)
            return all(each.half_width <= NARROW for each in ratios.values() or [own])
        return all(is_clear(ratio, self.thresholds.get(name, ())) for name, ratio in ratios.items())

    def _is_narrow(self) -> bool:
        """Whether each ratio that a threshold names is reported as narrowly as WIDEST."""
        asked = (self._ratio(name) for name, steps in self.thresholds.items() if steps)
        return all(each.at_least_as_wide(REPEATS).half_width <= WIDEST / 2 for each in asked)

    def _measured(self, budget_ended: bool) -> Outcome:
        own = interval(self.times[self.candidate.name], self.confidence)
        compared = (
            Compared(
                each.name,
                statistics.median(self.times[each.name]),
                self._ratio(each.name).at_least_as_wide(REPEATS),
            )
            for each in self.baselines
        )
        return replace(
            self._unmeasured("", budget_ended),
            seconds=own.at_least_as_wide(REPEATS),
            baselines=tuple(compared),
        )

    def _unmeasured(self, reason: str, budget_ended: bool) -> Outcome:
        """An outcome with the counts alone."""
        times = ((name, each) for name, each in self.times_of_all.items() if each)
        return Outcome(
            reason,
            self.pairs,
            dict(self.voids),
            budget_ended,
            disturbed=_slowed({name: statistics.median(each) for name, each in times}, self.idle),
            is_disturbed=self.is_disturbed,
        )


def is_clear(ratio: Interval, thresholds: Iterable[float]) -> bool:
    """Whether more pairs could not change which thresholds hold.

    `ratio` is not yet widened. A threshold is decided where the interval lies on one side of
    threshold / (1 + REPEATS): from there on, the widened interval reaches it.
    """
    if ratio.half_width <= FINEST:
        return True
    lines = [each / (1 + REPEATS) for each in thresholds]
    return not any(ratio.low < line <= ratio.high for line in lines)


def run(
    candidate: Contender,
    baselines: Sequence[Contender],
    thresholds: Mapping[str, Sequence[float]],
    now: Callable[[], float],
    *,
    budget: Budget | None = None,
    idle: Mapping[str, IdleBaseline] | None = None,
) -> Outcome:
    """Time the candidate and the baselines in turn until points and ratios are known.

    The budget may end it sooner.

    `thresholds` has, for each baseline, the ratios (baseline's time over candidate's) at which
    points change, including each step of linear points. A limit in seconds is a Constant with the
    threshold 1. Without thresholds, the test ends when every ratio's interval is within NARROW.
    `now` returns seconds. `idle` has the baselines' times before the candidate's process existed: a
    round in which a baseline exceeds its limit is void.

    Raises ValueError where names are not distinct or a threshold names no baseline, and what a
    contender raises.
    """
    test = _SequentialTest(candidate, baselines, thresholds, budget or Budget(), now, idle or {})
    return test.run()


def _slowed(observed: Mapping[str, float], idle: Mapping[str, IdleBaseline]) -> str:
    """The baselines that took longer than when idle, by more than MOST_SLOWED; or ""."""
    return "; ".join(
        f"{name} took {took / idle[name].seconds - 1:.1%} longer beside the kernel than before it "
        f"({1e6 * took:.4g} us and {1e6 * idle[name].seconds:.4g} us)"
        for name, took in observed.items()
        if took > (1 + MOST_SLOWED) * idle[name].seconds > 0
    )
