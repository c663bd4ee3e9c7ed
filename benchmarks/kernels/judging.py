"""Ratios of paired times, and the goals they reach. Arithmetic; needs no GPU."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarks.kernels.goals import Aim, Case, Goal, MeanGoal
from grader.timing.bootstrap import paired_ratios


@dataclass(frozen=True)
class Spread:
    """The median of values, and their 10th and 90th percentiles."""

    median: float
    p10: float
    p90: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Raises ValueError for fewer than two."""
        if len(values) < 2:
            raise ValueError(f"expected two values or more, got {len(values)}")
        tenths = statistics.quantiles(values, n=10, method="inclusive")
        return cls(statistics.median(values), tenths[0], tenths[-1], len(values))


@dataclass(frozen=True)
class Checked:
    """The correctness of a version's result, of the worst output.

    `error` and `limit` are norms of the difference to float64 over the truth's own; `torch` is the
    error of torch's operator. `wrong` describes a fault, or is "".
    """

    error: float
    limit: float
    torch: float
    wrong: str = ""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case. Times in microseconds per call, a value per round, by contender."""

    case: Case
    moved: float  # bytes that must be moved, each once
    flops: float
    times: Mapping[str, Sequence[float]]
    checked: Mapping[str, Checked]  # by version
    missing: Mapping[str, str]  # contenders that are unavailable or wrong, and why
    calls: int = 1  # in one turn of a round
    sets: int = 1  # of buffers

    def time(self, contender: str) -> Spread | None:
        """The time of a call; None where it wasn't timed."""
        return Spread.of(self.times[contender]) if contender in self.times else None

    def ratio(self, version: str, peer: str) -> Spread | None:
        """The peer's time over the version's, round by round."""
        if version not in self.times or peer not in self.times:
            return None
        return Spread.of(paired_ratios(self.times[version], self.times[peer]))


class Verdict(Enum):
    """Whether goals were reached. `unknown`: one of their peers was not timed."""

    reached = "yes"
    missed = "no"
    unknown = "?"


def misses(outcome: Outcome, version: str, aim: Aim) -> list[tuple[Goal, float | None]]:
    """The goals that a version misses, with its ratio, or None where that is unknown."""
    found: list[tuple[Goal, float | None]] = []
    for goal in aim.goals:
        ratio = outcome.ratio(version, goal.peer)
        if ratio is None and goal.if_there:
            continue
        if ratio is None or ratio.median < goal.at_least:
            found.append((goal, None if ratio is None else ratio.median))
    return found


def verdict(outcome: Outcome, version: str, aim: Aim) -> Verdict:
    """The verdict on one version."""
    missed = misses(outcome, version, aim)
    if not missed:
        return Verdict.reached
    if version not in outcome.times:
        return Verdict.missed
    return Verdict.missed if any(ratio for _, ratio in missed) else Verdict.unknown


def overall(outcome: Outcome, aim: Aim) -> Verdict:
    """The best verdict on the aim's versions."""
    found = [verdict(outcome, version, aim) for version in aim.by]
    for best in (Verdict.reached, Verdict.unknown):
        if best in found:
            return best
    return Verdict.missed


def geometric_means(goal: MeanGoal, outcomes: Iterable[Outcome]) -> dict[tuple[str, str], float]:
    """The mean over the goal's cases, by version and dtype, if all of them were timed."""
    cases = [each for each in outcomes if each.case.kernel == goal.kernel]
    found = {}
    for dtype in dict.fromkeys(each.case.dtype for each in cases):
        of_dtype = [each for each in cases if each.case.dtype == dtype]
        for version in dict.fromkeys(name for each in of_dtype for name in each.checked):
            ratios = [each.ratio(version, goal.peer) for each in of_dtype]
            timed = [each for each in ratios if each is not None]
            if len(timed) == len(ratios):
                logs = [math.log(each.median) for each in timed]
                found[version, dtype] = math.exp(statistics.fmean(logs))
    return found
