"""The results of a class in numbers: pure views of a gradebook.

A group's attempt counts once everywhere here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grader.batch.course.records import Attempt, Entry, Gradebook
from grader.evidence import PerformanceEvidence, VariantEvidence
from grader.report import summary
from grader.scoring.score import PERFORMANCE, CheckScore, GradeScore, VariantScore
from grader.spec import Exercise, Threshold
from grader.status import Status


@dataclass(frozen=True)
class Submission:
    """A counted attempt that was graded, and the entries that it counts for."""

    attempt: Attempt
    entries: tuple[Entry, ...]

    @property
    def grade(self) -> GradeScore:
        """The attempt's score."""
        assert self.attempt.grade is not None  # `submissions` takes no others
        return self.attempt.grade

    @property
    def grader_errors(self) -> list[tuple[str, str]]:
        """(where, detail) of everything that the grader itself broke on."""
        assert self.attempt.evidence is not None
        return summary.grader_errors(self.attempt.evidence, self.grade)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its people, as the gradebook has them."""
        return tuple(entry.student.name or entry.student.id for entry in self.entries)

    def variant(self, exercise: str, variant: str) -> VariantScore | None:
        """The score of a variant, or None where it wasn't asked for."""
        rows = (row for row in self.grade.exercises if row.name == exercise)
        return next((each for row in rows for each in row.variants if each.name == variant), None)

    def observed(self, exercise: str, variant: str) -> VariantEvidence | None:
        """The evidence of a variant."""
        evidence = self.attempt.evidence
        return evidence.by_name.get((exercise, variant)) if evidence else None


def submissions(gradebook: Gradebook) -> tuple[Submission, ...]:
    """The counted attempts that were graded, each once, in the order of the entries."""
    by_identity: dict[tuple[object, ...], tuple[Attempt, list[Entry]]] = {}
    for entry in gradebook.entries:
        attempt = entry.counted
        if attempt is not None and attempt.is_graded:
            by_identity.setdefault(_identity(attempt), (attempt, []))[1].append(entry)
    return tuple(Submission(attempt, tuple(entries)) for attempt, entries in by_identity.values())


def _identity(attempt: Attempt) -> tuple[object, ...]:
    """A key by which hand-ins are told apart.

    Their ids don't: a resubmission has the id of what it replaces. Nor do the objects: a group's
    attempt may have been read once for each member.
    """
    handin = attempt.handin
    variants = attempt.evidence.variants if attempt.evidence is not None else ()
    files = frozenset((each.file, each.sha256) for each in variants)
    people = tuple(member.id for member in handin.members)
    return handin.id, people, handin.submitted_at, handin.sha256, files


# --- how many passed ------------------------------------------------------------------------------


@dataclass(frozen=True)
class VariantTally:
    """The numbers of submissions by status in one variant; each has one status in it."""

    exercise: str
    variant: str
    asked: int  # submissions that were graded in it
    attempted: int
    passed: int
    statuses: tuple[tuple[Status, int], ...]  # of the attempted ones, the most frequent first


def tally(
    everyone: Iterable[Submission], exercises: Mapping[str, Exercise]
) -> tuple[VariantTally, ...]:
    """A row for each variant that any submission was graded in, in the order of the specs."""
    every = tuple(everyone)
    rows = []
    for exercise in exercises.values():
        for name in exercise.variants:
            scores = [each.variant(exercise.name, name) for each in every]
            counts = Counter(score.status for score in scores if score is not None)
            asked = sum(counts.values())
            if not asked:
                continue
            attempted = asked - counts.pop(Status.not_attempted, 0)
            order = sorted(counts.items(), key=lambda pair: (-pair[1], list(Status).index(pair[0])))
            passed = counts[Status.passed]
            rows.append(VariantTally(exercise.name, name, asked, attempted, passed, tuple(order)))
    return tuple(rows)


# --- timings --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """One submission that was timed and is right; by measure, the worst of its cases.

    A measure is a baseline's name, with the ratio of its time to the kernel's, or MILLISECONDS.
    `at_best` is what the measurement's doubt makes of a value in the student's favour: by it
    thresholds are held.
    """

    submission: Submission
    values: Mapping[str, float]
    at_best: Mapping[str, float]
    points: float  # as scored


@dataclass(frozen=True)
class Strip:
    """The timings of one variant beside the thresholds that it is scored by."""

    exercise: str
    variant: str
    points: float  # that the spec offers for performance
    thresholds: tuple[Threshold, ...]
    timings: tuple[Timing, ...]
    untimed: int  # attempted, but not right, or not timed for another reason
    implausible: int  # of those, times that wait for a person

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that thresholds name, in their order."""
        return tuple(dict.fromkeys(measure_of(each) for each in self.thresholds))


MILLISECONDS = "ms"


def measure_of(threshold: Threshold) -> str:
    """The baseline of a threshold, or MILLISECONDS."""
    return threshold.speed_vs or MILLISECONDS


def strips(everyone: Iterable[Submission], exercises: Mapping[str, Exercise]) -> tuple[Strip, ...]:
    """A strip for each variant that anybody was timed in, in the order of the specs."""
    every = tuple(everyone)
    drawn = []
    for exercise in exercises.values():
        for variant in exercise.variants.values():
            if not variant.is_graded_on_speed:
                continue
            thresholds = variant.timed.steps
            checks = [(each, _check(each, exercise.name, variant.name)) for each in every]
            timings = tuple(
                _timing(each, timed, check, thresholds)
                for each, check in checks
                if check is not None and check.status in (Status.passed, Status.target_missed)
                if (evidence := each.observed(exercise.name, variant.name)) is not None
                if (timed := evidence.performance) is not None
            )
            statuses = Counter(check.status for _, check in checks if check is not None)
            tried = sum(statuses.values()) - statuses[Status.not_attempted]
            implausible, untimed = statuses[Status.implausible_time], tried - len(timings)
            if timings or implausible:
                names, points = (exercise.name, variant.name), variant.points[PERFORMANCE]
                drawn.append(Strip(*names, points, thresholds, timings, untimed, implausible))
    return tuple(drawn)


def _check(submission: Submission, exercise: str, variant: str) -> CheckScore | None:
    """The performance check of a variant."""
    score = submission.variant(exercise, variant)
    checks = score.checks if score is not None else ()
    return next((each for each in checks if each.name == PERFORMANCE), None)


def _timing(
    submission: Submission,
    timed: PerformanceEvidence,
    check: CheckScore,
    thresholds: Iterable[Threshold],
) -> Timing:
    values, at_best = {}, {}
    for threshold in thresholds:
        measure = measure_of(threshold)
        if threshold.milliseconds is None:
            ratios = [_ratios(each, measure) for each in timed.every]
            value, best = (_least(column) for column in zip(*ratios, strict=True))
        elif threshold.milliseconds.gpu.lower() in timed.device.lower():
            value = _slowest(each.microseconds for each in timed.every)
            best = _slowest(each.microseconds_at_best for each in timed.every)
        else:
            continue
        if math.isfinite(value) and math.isfinite(best):
            values[measure], at_best[measure] = value, best
    return Timing(submission, values, at_best, check.score)


def _least(ratios: Sequence[float]) -> float:
    """The smallest ratio; nan where one wasn't taken."""
    return math.nan if any(map(math.isnan, ratios)) else min(ratios)


def _slowest(times: Iterable[float | None]) -> float:
    """The longest of times in microseconds, in milliseconds; nan where one wasn't taken."""
    every = list(times)
    taken = [time for time in every if time is not None]
    return max(taken) / 1000 if len(taken) == len(every) else math.nan


def _ratios(timed: PerformanceEvidence, baseline: str) -> tuple[float, float]:
    """The ratio as measured, and at best."""
    for each in timed.baselines:
        numbers = (each.ratio, each.at_best)
        if each.name == baseline and all(map(math.isfinite, numbers)):
            return numbers
    return math.nan, math.nan


def reached(values: Mapping[str, float], thresholds: Iterable[Threshold]) -> int | None:
    """The number of the first threshold that holds, -1 where none does, None where undecided.

    As score.py decides: a threshold whose measure wasn't taken is passed over.
    """
    is_decided = False
    for number, each in enumerate(thresholds):
        if measure_of(each) in values:
            is_decided = True
            value, limit = values[measure_of(each)], each.limit
            if value >= limit if each.speed_vs else value <= limit:
                return number
    return -1 if is_decided else None
