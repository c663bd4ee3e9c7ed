"""People's decisions about evidence, and what still waits for one. Pure.

A person may lift the rules for a variant with a policy violation, and accept or reject an
implausible time. The stored evidence stays as it was observed; decisions change a copy of it before
it is scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from grader.batch.course.records import Adjustment, AdjustmentKind, Attempt
from grader.evidence import Evidence, MemoryEvidence, PerformanceEvidence, VariantEvidence
from grader.scoring.score import GradeScore
from grader.scoring.speed import implausible
from grader.status import Status

ON_EVIDENCE = frozenset(
    {AdjustmentKind.lift, AdjustmentKind.accept_time, AdjustmentKind.reject_time}
)
_ON_TIMES = frozenset({AdjustmentKind.accept_time, AdjustmentKind.reject_time})
_UNDECIDED = {
    Status.grader_error: "the grader failed on",
    Status.implausible_time: "a person has to decide on the time of",
}
TO_RUN = "its rules were lifted: it has to be graded again"


def decided(evidence: Evidence, adjustments: Iterable[Adjustment]) -> Evidence:
    """The evidence as it counts after the decisions of people.

    accept_time   an implausible time becomes a time as any other
    reject_time   an implausible time becomes a missed target, with the reason: no points
    lift          what has a policy violation becomes not measured, until a run with lifted rules

    Where two decisions about times hold for one variant, the later one does.
    """
    decisions = sorted((a for a in adjustments if a.kind in ON_EVIDENCE), key=_order)
    if not decisions:
        return evidence
    variants = tuple(_decided(variant, decisions) for variant in evidence.variants)
    return evidence if variants == evidence.variants else replace(evidence, variants=variants)


def waits_for(attempt: Attempt) -> tuple[str, ...]:
    """Why the score of a readable hand-in may still change, a line for each reason."""
    if attempt.grade is None:
        return ("not graded yet",)
    statuses = list(_statuses(attempt.grade))
    lines = [f"{_UNDECIDED[status]} {name}" for name, status in statuses if status in _UNDECIDED]
    if attempt.evidence is not None:
        lines += [
            f"{variant.exercise}/{variant.variant}: {TO_RUN}"
            for variant in attempt.evidence.variants
            if any(part.reason == TO_RUN for part in variant.parts)
        ]
    if not attempt.grade.complete:
        lines.append("its grading was interrupted")
    return tuple(dict.fromkeys(lines))


def _decided(variant: VariantEvidence, decisions: list[Adjustment]) -> VariantEvidence:
    about = ("", variant.exercise, f"{variant.exercise}/{variant.variant}")
    mine = [each for each in decisions if each.only in about]
    if any(each.kind is AdjustmentKind.lift for each in mine) and _breaks_rules(variant):
        variant = _unrun(variant)
    on_time = [each for each in mine if each.kind in _ON_TIMES]
    if on_time and variant.performance is not None:
        variant = replace(variant, performance=_judged(variant.performance, on_time[-1]))
    return variant


def _judged(timed: PerformanceEvidence, decision: Adjustment) -> PerformanceEvidence:
    """The timing with a person's decision on implausible times, in all of the spec's cases."""
    further = tuple(_judged(each, decision) for each in timed.further)
    if decision.kind is AdjustmentKind.reject_time:
        if not any(map(implausible, timed.every)):
            return timed
        reason = f"a person has looked at this time and does not believe it: {decision.reason}"
        return replace(timed, status=Status.target_missed, reason=reason, further=further)
    if implausible(timed):
        timed = replace(timed, status=Status.passed, accepted=True)
    return replace(timed, further=further)


def _breaks_rules(variant: VariantEvidence) -> bool:
    statuses = [each.status for each in (*variant.parts, variant.memory) if each is not None]
    return not variant.rules_lifted and Status.policy_violation in statuses


def _unrun(variant: VariantEvidence) -> VariantEvidence:
    """A variant of which nothing was observed yet."""
    undecided = Status.not_measured
    parts = (replace(p, status=undecided, reason=TO_RUN, failures=()) for p in variant.parts)
    return replace(
        variant,
        parts=tuple(parts),
        performance=variant.performance and PerformanceEvidence(undecided, TO_RUN),
        memory=variant.memory and MemoryEvidence(undecided, TO_RUN),
    )


def _statuses(grade: GradeScore) -> Iterator[tuple[str, Status]]:
    for exercise in grade.exercises:
        for variant in exercise.variants:
            for check in variant.checks:
                for status in {check.status, *(part.status for part in check.parts)}:
                    yield f"{exercise.name}/{variant.name}", status


def _order(adjustment: Adjustment) -> tuple[float, str, str, str]:
    return (time_order(adjustment.at), adjustment.kind.value, adjustment.only, adjustment.reason)


def time_order(time: datetime | None) -> float:
    """Seconds since 1970, for sorting; what has no time comes first, no offset means UTC."""
    if time is None:
        return float("-inf")
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp()
