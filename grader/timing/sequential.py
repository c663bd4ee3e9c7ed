"""The sequential measurement: candidate and baselines in turn, until it is decided who is faster.

Pure over what it is given: lanes that say how long a call took, and a clock. So it is tested with
made-up lanes and no time passing.

In each round every lane is measured once, the candidate in the middle and the order turned round
from one round to the next, so that a drift of the machine cancels. A round in which a lane's time
is void counts for nothing and is counted with its reason.

**The same submission gets the same points every time.** What stands between a measurement and that
promise is noise, and what is done about each kind:

- *Noise within a run* is averaged away. Intervals are at CONFIDENCE over all looks of a race
  together: looking again and again for an interval that is clear of a threshold would find one by
  chance, so the k-th look may err with 1/(k (k + 1)) of what the race may (these shares add up to
  1 for any number of looks; by the union bound the race errs no more often than it says).
- *What differs from run to run* (where buffers lie, which clock the GPU settles on) is the same in
  all pairs of a race: more of them don't show it. Measured on an H100, a kernel's ratio was 1.000,
  0.997 and 0.996 in three processes. So no interval that is reported is narrower than REPEATS to
  both sides of its median.
- *The doubt goes to the student*: a threshold holds where the interval's high end reaches it
  (score.py). With the line above, a kernel whose true ratio is the threshold, to the digit, holds
  it unless its median comes out more than 0.4 % too low. In effect the line between holding and
  missing lies at threshold / (1 + REPEATS), half-way between "at the threshold" and "0.8 % short of
  it", and both of these get the same points each time.
- *The line itself*: no rule on noisy numbers can treat two speeds alike that differ by nothing and
  lie on its two sides. What a rule can do is to put the line where no threshold is, and to make the
  zone around it narrow. So the race goes on, to the end of its budget, exactly while the interval
  (before it is widened) contains that line, and stops as soon as the points can't change any more.

Simulated with 0.3 % noise per ratio, 1000 races each: 0.5 % short of a threshold none holds it, at
the threshold and 0.2 % short of it all do; 0.4 % short of it, on the line, 47 % hold. Where a whole
race is off by up to 0.2 % besides, none holds 0.8 % short of it, 3 % do at 0.6 %, 98 % at 0.2 %,
and at the threshold all (benchmarks/races.py prints the table, with more noise too).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from grader.timing.bootstrap import Interval, interval, paired_ratios

CONFIDENCE = 0.999  # of all looks of a race together
REPEATS = 0.004  # how far the same kernel's ratio may be off from run to run, as a share
MIN_PAIRS = 12  # before the first look; of fewer, the whole range covers less than is asked for
MAX_PAIRS = 200
MAX_SECONDS = 3.0  # after which a race with MIN_PAIRS ends
PATIENCE = 20.0  # times as long, for a race that hasn't got so many yet
GROWTH = 1.5  # pairs at a look over those at the one before
NARROW = 0.004  # half width, as a share: enough where no threshold asks for more
FINEST = 0.001  # half width, as a share: more pairs tell nothing that would repeat
# Of all rounds. A candidate that could void the slower half of its rounds would look better by two
# thirds of the noise's standard deviation; more than half is no measurement.
MOST_VOID = 0.5
CALM = 0.03  # how much slower a baseline may be beside the candidate than before it, as a share
NORMAL = 1.4826  # standard deviation over median absolute deviation, of what is normal


@dataclass(frozen=True)
class Calm:
    """A baseline's times before the candidate existed."""

    seconds: float  # median per call
    spread: float = 0.0  # standard deviation of one replay's

    @classmethod
    def of(cls, times: Sequence[float]) -> Calm:
        """From the times of some replays; an odd one among them says nothing of the spread."""
        middle = statistics.median(times)
        deviation = statistics.median(abs(each - middle) for each in times)
        return cls(middle, NORMAL * deviation)

    @property
    def limit(self) -> float:
        """What noise and CALM explain, and no more; inf where there was nothing but noise."""
        if self.seconds <= 0:
            return math.inf
        return (1 + CALM) * self.seconds + 2 * self.spread


@dataclass(frozen=True)
class Void:
    """A time that doesn't count, and why: a short phrase, the same for the same reason."""

    reason: str


class Lane(Protocol):
    """One that is timed: the candidate, or a baseline."""

    name: str

    def seconds(self) -> float | Void:
        """Seconds per call, from one replay."""


@dataclass(frozen=True)
class Constant:
    """A baseline that takes the same time always: a roof of the device, a limit in seconds."""

    name: str
    value: float  # seconds per call

    def seconds(self) -> float:
        return self.value


@dataclass(frozen=True)
class Budget:
    """What one race may use up."""

    seconds: float = MAX_SECONDS
    pairs: int = MAX_PAIRS


@dataclass(frozen=True)
class Compared:
    """A baseline beside the candidate."""

    name: str
    seconds: float  # median per call, beside the candidate
    ratio: Interval  # of baseline's time over candidate's, never narrower than REPEATS


@dataclass(frozen=True)
class Outcome:
    """What a race came to. Where `reason` says why there is no measurement, only counts are set."""

    reason: str = ""
    pairs: int = 0
    voids: Mapping[str, int] = field(default_factory=dict)  # rounds by reason
    budget_ended: bool = False  # before everything was decided
    seconds: Interval | None = None  # of the candidate, per call, never narrower than REPEATS
    baselines: tuple[Compared, ...] = ()
    disturbed: str = ""  # which baselines ran slower than in the calm; evidence for a person
    is_disturbed: bool = False  # no measurement, for rounds in which baselines were slower


@dataclass
class _Race:
    candidate: Lane
    baselines: Sequence[Lane]
    lines: Mapping[str, Sequence[float]]  # ratios at which points change, by baseline
    budget: Budget
    now: Callable[[], float]
    times: dict[str, list[float]]
    calm: Mapping[str, Calm] = field(default_factory=dict)
    beside: dict[str, list[float]] = field(default_factory=dict)  # in rounds that are void too
    voids: Counter[str] = field(default_factory=Counter)
    disturbed_rounds: int = 0
    rounds: int = 0
    looks: int = 0

    @property
    def pairs(self) -> int:
        return len(self.times[self.candidate.name])

    @property
    def is_void(self) -> bool:
        """Whether more rounds are void than a measurement may have."""
        return self.voids.total() > MOST_VOID * self.rounds

    @property
    def is_disturbed(self) -> bool:
        """Whether there is no measurement for rounds in which baselines were slower.

        Most of the void ones are that, or without them few enough would be void.
        """
        others = self.voids.total() - self.disturbed_rounds
        of = self.rounds - self.disturbed_rounds
        return self.is_void and (others < self.disturbed_rounds or others <= MOST_VOID * of)

    def run(self) -> tuple[str, bool]:
        """Measure. Returns why there is no measurement, or "", and whether the budget ended."""
        started = self.now()
        next_look = MIN_PAIRS
        while True:
            if self.pairs >= next_look:
                self.looks += 1
                if self._is_decided():
                    return "", False
                next_look = math.ceil(self.pairs * GROWTH)
            enough = 1.0 if self.pairs >= MIN_PAIRS else PATIENCE
            is_over = self.now() >= started + enough * self.budget.seconds
            if self.pairs >= self.budget.pairs or is_over:
                break
            self._round()
            if self.rounds >= MIN_PAIRS and self.is_void:
                often = ", ".join(f"{reason} ({n})" for reason, n in self.voids.most_common(3))
                void = self.voids.total()
                return f"{void} of {self.rounds} timed pairs are void: {often}", False
        self.looks += 1
        if self.pairs < MIN_PAIRS:
            seconds = PATIENCE * self.budget.seconds
            return f"only {self.pairs} pairs were timed in {seconds:g} s", True
        return "", not self._is_decided()

    def _round(self) -> None:
        """One measurement of every lane; all or none of them count."""
        self.rounds += 1
        found: dict[str, float] = {}
        for lane in self._order():
            seconds = lane.seconds()
            if not isinstance(seconds, Void):
                seconds = self._seen(lane.name, seconds)
            if isinstance(seconds, Void):
                self.voids[seconds.reason] += 1
                return
            found[lane.name] = seconds
        for name, seconds in found.items():
            self.times[name].append(seconds)

    def _seen(self, name: str, seconds: float) -> float | Void:
        """The time, if it can count."""
        if not (math.isfinite(seconds) and seconds > 0):
            return Void("a time that is not above 0")
        if name in self.calm:
            self.beside[name].append(seconds)
            if seconds > self.calm[name].limit:
                self.disturbed_rounds += 1
                return Void(f"{name} ran slower beside the kernel than before it")
        return seconds

    @property
    def disturbed(self) -> str:
        """Which baselines ran slower than in the calm."""
        beside = {name: statistics.median(seen) for name, seen in self.beside.items() if seen}
        return disturbance(beside, self.calm)

    def _order(self) -> list[Lane]:
        """The candidate in the middle, every baseline next to it in turn, before and after."""
        others = list(self.baselines)
        turn = self.rounds // 2 % len(others) if others else 0
        others = others[turn:] + others[:turn]
        half = len(others) // 2
        order = [*others[:half], self.candidate, *others[half:]]
        return order[::-1] if self.rounds % 2 else order

    @property
    def confidence(self) -> float:
        """Of the interval at this look, so that all of them together have CONFIDENCE."""
        return 1 - (1 - CONFIDENCE) / (self.looks * (self.looks + 1))

    def ratio(self, name: str) -> Interval:
        """The ratio to a baseline, before it is widened."""
        return interval(
            paired_ratios(self.times[self.candidate.name], self.times[name]), self.confidence
        )

    def _is_decided(self) -> bool:
        """Whether more pairs would change no points."""
        if not any(self.lines.values()):
            own = interval(self.times[self.candidate.name], self.confidence)
            found = [self.ratio(each.name) for each in self.baselines] or [own]
            return all(each.half_width <= NARROW for each in found)
        return all(
            is_clear(self.ratio(each.name), self.lines.get(each.name, ()))
            for each in self.baselines
        )


def is_clear(ratio: Interval, thresholds: Iterable[float]) -> bool:
    """Whether it is decided which of the thresholds hold, or no more can be found out.

    `ratio` is as measured. Decided is at which side of threshold / (1 + REPEATS) it lies: there,
    the widened interval begins to reach the threshold.
    """
    if ratio.half_width <= FINEST:
        return True
    lines = [each / (1 + REPEATS) for each in thresholds]
    return not any(ratio.low < line <= ratio.high for line in lines)


def run(
    candidate: Lane,
    baselines: Sequence[Lane],
    thresholds: Mapping[str, Sequence[float]],
    now: Callable[[], float],
    *,
    budget: Budget | None = None,
    calm: Mapping[str, Calm] | None = None,
) -> Outcome:
    """Time the candidate beside the baselines until the points are decided, or the budget ends.

    `thresholds` are, by baseline, the ratios (baseline's time over candidate's) at which points
    change: every rung of linear points too. A limit in seconds is a Constant with the threshold 1.
    With none at all, the race ends when every ratio's interval is within NARROW. `now` is in
    seconds; `calm` says how long baselines took per call before the candidate existed: a round in
    which one of them takes longer than that explains is void.

    Raises ValueError where names are not distinct or a threshold names no baseline. What a lane
    raises is let through.
    """
    names = [candidate.name, *(each.name for each in baselines)]
    if len(set(names)) != len(names):
        raise ValueError(f"expected lanes of different names, got {', '.join(names)}")
    if unknown := set(thresholds) - set(names[1:]):
        raise ValueError(f"expected thresholds of {', '.join(names[1:])}, got {min(unknown)}")
    race = _Race(
        candidate,
        baselines,
        thresholds,
        budget or Budget(),
        now,
        {name: [] for name in names},
        calm or {},
        {name: [] for name in calm or {}},
    )
    reason, budget_ended = race.run()
    if reason:
        return Outcome(
            reason,
            race.pairs,
            dict(race.voids),
            budget_ended,
            disturbed=race.disturbed,
            is_disturbed=race.is_disturbed,
        )
    own = interval(race.times[candidate.name], race.confidence)
    return Outcome(
        pairs=race.pairs,
        voids=dict(race.voids),
        budget_ended=budget_ended,
        seconds=own.at_least_as_wide(REPEATS),
        baselines=tuple(
            Compared(
                each.name,
                statistics.median(race.times[each.name]),
                race.ratio(each.name).at_least_as_wide(REPEATS),
            )
            for each in baselines
        ),
        disturbed=race.disturbed,
    )


def disturbance(beside: Mapping[str, float], calm: Mapping[str, Calm]) -> str:
    """Which baselines ran slower beside the candidate than before it, by more than CALM; or ""."""
    told = [
        f"{name} took {took / calm[name].seconds - 1:.1%} longer beside the kernel than before it "
        f"({1e6 * took:.4g} us and {1e6 * calm[name].seconds:.4g} us)"
        for name, took in beside.items()
        if took > (1 + CALM) * calm[name].seconds > 0
    ]
    return "; ".join(told)
