"""What a caller gets: the points of one variant or of a submission, and why points are missing."""

from __future__ import annotations

from dataclasses import dataclass

import pydantic

from grader.evidence import Evidence, Failure, VariantEvidence
from grader.scoring.score import CheckScore, VariantScore, score, score_variant
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status


@dataclass(frozen=True)
class CheckResult:
    """The verdict on one file, as one variant of one exercise.

    `gradable` are the points that this machine could decide about: without a GPU, those for speed
    are not among them.
    """

    exercise: str
    variant: str
    status: Status
    score: float
    gradable: float
    max_score: float
    checks: tuple[CheckScore, ...]  # a row per size class, "performance" and "memory"
    failures: tuple[Failure, ...]  # the one to fix first comes first
    seed: int  # of the drawn cases; with the same one the check can be repeated
    reason: str = ""  # why nothing ran, or why the grader failed
    microseconds: float | None = None  # median per call, where a GPU timed it
    sha256: str = ""  # of the source
    seconds: float = 0.0  # of wall time

    @property
    def passed(self) -> bool:
        """Whether all that could be decided here passed."""
        return self.status is Status.passed

    @property
    def message(self) -> str:
        """Why points are missing, in one sentence or two; empty where none is."""
        return self.failures[0].what if self.failures else self.reason

    def to_json(self) -> str:
        """The result as one line of JSON."""
        return _ADAPTER.dump_json(self).decode()


@dataclass(frozen=True)
class GradeResult:
    """The points of a submission, and the result of each variant that was asked for."""

    score: float
    gradable: float
    max_score: float
    variants: tuple[CheckResult, ...]
    evidence: Evidence  # all that was observed; `grader.evidence.to_json` writes it

    @property
    def complete(self) -> bool:
        """Whether nobody interrupted the grade."""
        return self.evidence.complete


_ADAPTER = pydantic.TypeAdapter(CheckResult)


def result_of(
    task: Task, observed: VariantEvidence, seed: int, has_gpu: bool, seconds: float = 0.0
) -> CheckResult:
    """The result for the evidence on a task."""
    return _result(
        score_variant(task, observed, has_gpu), observed, task.exercise.name, seed, seconds
    )


def grade_result_of(evidence: Evidence, exercises: dict[str, Exercise]) -> GradeResult:
    """The result for the evidence on a submission."""
    scored = score(evidence, exercises)
    variants = tuple(
        _result(row, evidence.by_name[each.name, row.name], each.name, evidence.seed)
        for each in scored.exercises
        for row in each.variants
    )
    return GradeResult(scored.score, scored.gradable, scored.max_score, variants, evidence)


def _result(
    row: VariantScore, observed: VariantEvidence, exercise: str, seed: int, seconds: float = 0.0
) -> CheckResult:
    failing = sorted(
        (f for part in observed.parts for f in part.failures), key=lambda each: _ORDER[each.status]
    )
    reasons = [part.reason for part in observed.parts if part.status is Status.grader_error]
    timed = observed.performance
    return CheckResult(
        exercise,
        row.name,
        row.status,
        row.score,
        row.gradable,
        row.max_score,
        row.checks,
        failures=tuple(failing),
        seed=seed,
        reason=observed.not_attempted or next(iter(reasons), ""),
        microseconds=timed.microseconds if timed else None,
        sha256=observed.sha256,
        seconds=round(seconds, 3),
    )


_ORDER = {status: rank for rank, status in enumerate(Status)}
