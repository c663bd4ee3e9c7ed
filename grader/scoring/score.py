"""Evidence and specs in, points out. Pure: no clock, no files, no device.

    GradeScore
      ExerciseScore            one per exercise in the evidence
        VariantScore
          CheckScore           one per key of the variant's points: a size class, "performance",
                               "memory", "predictions"
            PartScore          one per dtype of a size class

Each level has three numbers, with `score <= gradable <= max_score` apart from bonuses: `score` was
earned, `gradable` could have been earned in this run, `max_score` is the spec's maximum. What this
run couldn't decide (no GPU, an error of the grader, an interruption) is not in `gradable`, so it
costs nothing.

A bonus variant adds to the score of its exercise and of the grade, and to neither's `gradable` and
`max_score`, so a score can be above 100 of 100. `bonus` is its part of the score, `gradable_bonus`
and `max_bonus` are its part in this run and by the spec.

Points are added as exact fractions and rounded once, to 4 decimals, so that full marks are exactly
the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from grader.cases import agrees
from grader.evidence import (
    Evidence,
    MemoryEvidence,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.scoring import memory_bounds, speed
from grader.spec import Exercise, Threshold, Variant
from grader.spec.predictions import PREDICTIONS
from grader.spec.task import Task
from grader.status import Status, worst

PERFORMANCE = "performance"
MEMORY = "memory"

INTERRUPTED = "the run ended before this was tried"
NEEDS_GPU = "needs a GPU"
RIGHT_FIRST = "not timed: the kernel must be right first"
UNDECIDED_FIRST = "not timed: whether the kernel is right was not decided"
RIGHT_BEFORE_MEMORY = "not counted: the kernel must be right first"
SKIPPED_AS_WRONG = (RIGHT_FIRST, RIGHT_BEFORE_MEMORY)  # messages of checks that were left out
UNDECIDED_BEFORE_MEMORY = "not counted: whether the kernel is right was not decided"
OTHER_CASE = "counted on another case than the spec names now"
OTHER_CASES = "timed on other cases than the spec names now"


@dataclass(frozen=True)
class PartScore:
    """One dtype in one size class."""

    dtype: str
    status: Status
    score: float
    max_score: float


@dataclass(frozen=True)
class CheckScore:
    """One item with points: a size class, "performance", "memory" or "predictions"."""

    name: str
    status: Status
    score: float
    gradable: float
    max_score: float
    message: str = ""  # one line; report/message.py makes a student's full text
    parts: tuple[PartScore, ...] = ()  # of a size class


@dataclass(frozen=True)
class VariantScore:
    """One variant. Its status is passed when all that could be decided here passed.

    `is_bonus`: its points come on top of the maximum of the others.
    """

    name: str
    file: str
    status: Status
    score: float
    gradable: float
    max_score: float
    checks: tuple[CheckScore, ...]
    is_bonus: bool

    @property
    def lost(self) -> tuple[CheckScore, ...]:
        """The checks that were tried and failed, whatever they are worth."""
        failed = (check for check in self.checks if check.status.is_failure)
        return tuple(check for check in failed if check.status is not Status.not_attempted)


@dataclass(frozen=True)
class ExerciseScore:
    """One exercise; `score` includes the `bonus`, `gradable` and `max_score` don't."""

    name: str
    title: str
    score: float
    gradable: float
    max_score: float
    bonus: float
    gradable_bonus: float
    max_bonus: float
    variants: tuple[VariantScore, ...]


@dataclass(frozen=True)
class GradeScore:
    """The score of one submission; `environment`, `seed` and `complete` are the evidence's.

    `score` includes the `bonus`, `gradable` and `max_score` don't.
    """

    submission: str
    seed: int
    score: float
    gradable: float
    max_score: float
    bonus: float
    gradable_bonus: float
    max_bonus: float
    exercises: tuple[ExerciseScore, ...]
    environment: dict[str, Any] = field(default_factory=dict)
    complete: bool = True


class _Points(NamedTuple):
    score: Fraction
    gradable: Fraction
    max_score: Fraction

    @classmethod
    def total(cls, points: Iterable[_Points]) -> _Points:
        columns = list(zip(*points, strict=True)) or [(), (), ()]
        return cls(*(sum(column, Fraction(0)) for column in columns))

    def rounded(self) -> dict[str, float]:
        names = ("score", "gradable", "max_score")
        return {name: float(round(value, 4)) for name, value in zip(names, self, strict=True)}


def _sums(points: Iterable[tuple[_Points, bool]]) -> dict[str, float]:
    """The sums of several variants' exact points, each with whether they are a bonus."""
    every = list(points)
    regular = _Points.total(each for each, is_bonus in every if not is_bonus)
    bonus = _Points.total(each for each, is_bonus in every if is_bonus)
    both = regular._replace(score=regular.score + bonus.score)
    names = ("bonus", "gradable_bonus", "max_bonus")
    return {**both.rounded(), **dict(zip(names, bonus.rounded().values(), strict=True))}


class _Verdict(NamedTuple):
    """The outcome of a check before its points are computed."""

    status: Status
    score: Fraction = Fraction(0)
    gradable: Fraction = Fraction(0)
    message: str = ""


def score(evidence: Evidence, exercises: Mapping[str, Exercise]) -> GradeScore:
    """Points for evidence, by the specs in `exercises` (keyed by name).

    Only variants in the evidence count, for the maximum too. Evidence of an exercise, variant,
    dtype or size class that the specs no longer have is ignored; a part that the evidence lacks is
    not_measured.
    """
    has_gpu = bool(evidence.environment.get("gpu"))
    by_name = evidence.by_name
    scored: list[ExerciseScore] = []
    every: list[tuple[_Points, bool]] = []
    for name, exercise in exercises.items():
        rows = [
            _score_variant(exercise, variant, by_name[name, variant_name], has_gpu)
            for variant_name, variant in exercise.graded.items()
            if (name, variant_name) in by_name
        ]
        if rows:
            points = [(each, row.is_bonus) for row, each in rows]
            variants = tuple(row for row, _ in rows)
            scored.append(ExerciseScore(name, exercise.title, variants=variants, **_sums(points)))
            every += points
    return GradeScore(
        submission=evidence.submission,
        seed=evidence.seed,
        exercises=tuple(scored),
        environment=evidence.environment,
        complete=evidence.complete,
        **_sums(every),
    )


def score_variant(task: Task, observed: VariantEvidence, has_gpu: bool) -> VariantScore:
    """Points for the evidence of one task, as `score` gives them."""
    return _score_variant(task.exercise, task.variant, observed, has_gpu)[0]


def _score_variant(
    exercise: Exercise, variant: Variant, observed: VariantEvidence, has_gpu: bool
) -> tuple[VariantScore, _Points]:
    classes = [_score_class(variant, name, observed) for name in variant.size_classes]
    rows = list(classes)
    correctness = _overall(check.status for check, _ in classes)
    if PERFORMANCE in variant.points:
        verdict = _decide_performance(Task(exercise, variant), observed, correctness, has_gpu)
        rows.append(_close(PERFORMANCE, verdict, exact(variant.points[PERFORMANCE])))
    if MEMORY in variant.points:
        verdict = _decide_memory(exercise, variant, observed, correctness)
        rows.append(_close(MEMORY, verdict, exact(variant.points[MEMORY])))
    if PREDICTIONS in variant.points:
        offered = exact(variant.points[PREDICTIONS])
        rows.append(_close(PREDICTIONS, _decide_predictions(observed, offered), offered))
    points = _Points.total(points for _, points in rows)
    checks = tuple(check for check, _ in rows)
    # Checks that need another machine don't hide that the rest passed.
    decided = [c.status for c in checks if c.parts or c.status is not Status.not_measured]
    row = VariantScore(
        variant.name,
        variant.file,
        _overall(decided),
        checks=checks,
        is_bonus=variant.bonus,
        **points.rounded(),
    )
    return row, points


def _score_class(
    variant: Variant, size_class: str, observed: VariantEvidence
) -> tuple[CheckScore, _Points]:
    """A size class: its points are split evenly over the variant's dtypes."""
    parts_by_dtype = {
        part.dtype: part for part in reversed(observed.parts) if part.size_class == size_class
    }
    share = exact(variant.points[size_class]) / len(variant.dtypes)
    statuses: dict[str, Status] = {}
    parts, points = [], []
    for dtype in variant.dtypes:
        status = statuses[dtype] = _part_status(parts_by_dtype.get(dtype), observed)
        earned = share if status is Status.passed else Fraction(0)
        points.append(_Points(earned, share if status.is_failure else earned, share))
        values = points[-1].rounded()
        parts.append(PartScore(dtype, status, values["score"], values["max_score"]))
    total = _Points.total(points)
    status = _overall(statuses.values())
    message = _class_message(status, statuses, parts_by_dtype, observed)
    return CheckScore(
        size_class, status, message=message, parts=tuple(parts), **total.rounded()
    ), total


def _part_status(part: PartEvidence | None, observed: VariantEvidence) -> Status:
    if observed.not_attempted:
        # Parts that this machine can't decide don't become lost by leaving the variant out.
        undecided = part is not None and part.status is Status.not_measured
        return Status.not_measured if undecided else Status.not_attempted
    return Status.not_measured if part is None else part.status


def _class_message(
    status: Status,
    statuses: Mapping[str, Status],
    parts: Mapping[str, PartEvidence],
    observed: VariantEvidence,
) -> str:
    if status is Status.passed:
        return ""
    if status is Status.not_attempted:
        return observed.not_attempted
    part = parts.get(next(dtype for dtype, came in statuses.items() if came is status))
    if part is None:
        return INTERRUPTED
    failure_text = next((failure.what for failure in part.failures), "")
    return (failure_text or part.reason) if status.is_failure else (part.reason or failure_text)


def _decide_performance(
    task: Task, observed: VariantEvidence, correctness: Status, has_gpu: bool
) -> _Verdict:
    variant = task.variant
    offered = exact(variant.points[PERFORMANCE])
    timed = observed.performance
    if observed.not_attempted:
        gradable = offered if has_gpu else Fraction(0)
        return _Verdict(Status.not_attempted, gradable=gradable, message=observed.not_attempted)
    if not has_gpu:
        return _Verdict(Status.not_measured, message=NEEDS_GPU)
    if correctness.is_failure:
        return _Verdict(correctness, gradable=offered, message=RIGHT_FIRST)
    if correctness is not Status.passed:
        return _Verdict(Status.not_measured, message=UNDECIDED_FIRST)
    if timed is None:
        return _Verdict(Status.not_measured, message=INTERRUPTED)
    if timed.status is Status.passed:
        if not _is_of_spec(timed, variant):
            return _Verdict(Status.not_measured, message=OTHER_CASES)
        if doubtful := next(filter(None, map(speed.implausible, timed.every)), ""):
            return _Verdict(Status.implausible_time, message=doubtful)
        asked = variant.timed.on(timed.device)
        verdict = _decide_thresholds(asked.steps, timed)
        sentences = (verdict.message, *speed.remarks(timed, asked, task.exercise.gpu))
        return verdict._replace(message="; ".join(sentences))
    gradable = offered if timed.status.is_failure else Fraction(0)
    return _Verdict(timed.status, gradable=gradable, message=timed.reason)


def _is_of_spec(timed: PerformanceEvidence, variant: Variant) -> bool:
    """Whether the timed cases are the spec's current ones, and at most one drawn near them."""
    named = variant.timed.every_case
    more = len(timed.every) - len(named)
    return 0 <= more <= variant.timed.beside and all(
        agrees(each.case, variant, case) for each, case in zip(timed.every, named, strict=False)
    )


def _decide_thresholds(thresholds: Iterable[Threshold], timed: PerformanceEvidence) -> _Verdict:
    """The points of the first threshold that holds.

    A threshold that this run can't decide (its baseline wasn't timed, it is for another GPU) is
    passed over and not gradable.
    """
    decided = speed.decided(thresholds, timed)
    if not decided:
        return _Verdict(Status.not_measured, message="timed, but not against what the spec asks")
    gradable = max(exact(each.threshold.points) for each in decided)
    for each in decided:
        if each.holds:
            return _Verdict(Status.passed, exact(each.threshold.points), gradable, each.message)
    # For each baseline the least target: the next one to reach.
    easiest: dict[str, str] = {}
    for threshold, _, message in decided:
        limit = threshold.milliseconds
        easiest[threshold.speed_vs or (limit.gpu if limit else "")] = message
    return _Verdict(Status.target_missed, gradable=gradable, message="; ".join(easiest.values()))


def _decide_memory(
    exercise: Exercise, variant: Variant, observed: VariantEvidence, correctness: Status
) -> _Verdict:
    offered = exact(variant.points[MEMORY])
    counted = observed.memory
    if observed.not_attempted:
        # Thresholds that this machine can't decide don't become lost by leaving the variant out.
        undecided = counted is not None and not counted.status.is_gradable
        gradable = Fraction(0) if undecided else offered
        return _Verdict(Status.not_attempted, gradable=gradable, message=observed.not_attempted)
    if correctness.is_failure:
        return _Verdict(correctness, gradable=offered, message=RIGHT_BEFORE_MEMORY)
    if counted is not None and counted.status is Status.grader_error:
        return _Verdict(Status.grader_error, message=counted.reason)
    if correctness is not Status.passed:
        return _Verdict(Status.not_measured, message=UNDECIDED_BEFORE_MEMORY)
    if counted is None:
        return _Verdict(Status.not_measured, message=INTERRUPTED)
    if counted.status is not Status.passed:
        gradable = offered if counted.status.is_failure else Fraction(0)
        return _Verdict(counted.status, gradable=gradable, message=counted.reason)
    if variant.memory is None or not memory_bounds.is_case_of(variant, counted.case):
        return _Verdict(Status.not_measured, message=OTHER_CASE)
    return _decide_bounds(exercise, variant, counted, offered)


def _decide_bounds(
    exercise: Exercise, variant: Variant, counted: MemoryEvidence, offered: Fraction
) -> _Verdict:
    """All points where every bound of the variant holds in every run, else none."""
    missed = memory_bounds.shortfalls(counted, variant)
    if not missed:
        message = " ".join(memory_bounds.sentences(counted, exercise, variant))
        return _Verdict(Status.passed, offered, offered, message)
    message = "; ".join(
        memory_bounds.missed(each, run.lines, variant.file, run.run) for run, each in missed
    )
    message = " ".join((f"{message}.", *counted.notes)) if counted.notes else message
    return _Verdict(Status.target_missed, gradable=offered, message=message)


def _decide_predictions(observed: VariantEvidence, offered: Fraction) -> _Verdict:
    """Each right answer has the same share of the points."""
    made = observed.predictions
    if observed.not_attempted:
        return _Verdict(Status.not_attempted, gradable=offered, message=observed.not_attempted)
    if made is None:
        return _Verdict(Status.not_measured, message=INTERRUPTED)
    if made.status is not Status.passed:
        gradable = offered if made.status.is_failure else Fraction(0)
        return _Verdict(made.status, gradable=gradable, message=made.reason)
    wrong = [each.question for each in made.answers if not each.is_right]
    right = len(made.answers) - len(wrong)
    message = f"{right} of {len(made.answers)} answers are right"
    if not wrong:
        return _Verdict(Status.passed, offered, offered, message)
    share = Fraction(right, len(made.answers))
    message += f"; not {', '.join(wrong)}"
    return _Verdict(Status.wrong_values, share * offered, offered, message)


def _close(name: str, verdict: _Verdict, offered: Fraction) -> tuple[CheckScore, _Points]:
    points = _Points(min(verdict.score, offered), min(verdict.gradable, offered), offered)
    check = CheckScore(name, verdict.status, message=verdict.message, parts=(), **points.rounded())
    return check, points


def _overall(statuses: Iterable[Status]) -> Status:
    """One status for several: a failure, else an undecided one, else passed."""
    every = list(statuses)
    if Status.not_attempted in every:
        return Status.not_attempted
    return worst([s for s in every if s.is_failure] or every or [Status.not_measured])


def exact(points: float) -> Fraction:
    """The number the instructor wrote: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(repr(float(points)))
