"""The exclusive phase of a grade: the speed of a right task.

Each GPU times one task at a time, under its exclusive lock: nothing else is checked or timed there
meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from grader.evidence import PerformanceEvidence, VariantEvidence
from grader.grading.session import Progress, Session, Step, unwatched
from grader.spec.task import Task
from grader.status import Status

if TYPE_CHECKING:
    from grader.timing.contenders import Documents


def measure(
    session: Session,
    task: Task,
    evidence: VariantEvidence,
    on_step: Progress = unwatched,
    documents: Documents | None = None,
) -> VariantEvidence:
    """The evidence of `check` with the task's speed added, where it is to be timed.

    `documents` are the plans to be timed, if another process has made them already.
    """
    if task.variant.is_graded_on_speed:
        on_step(Step.at(task, "timing"))
        performance = _performance(session, task, evidence, on_step, documents)
        performance = session.files.placed(task.variant, performance)
        evidence = replace(evidence, performance=performance)
    session.runners.close_variant(task)
    return evidence


def is_timed(task: Task, evidence: VariantEvidence) -> bool:
    """Whether a task's speed is to be measured: it is right, and its spec has thresholds."""
    return task.variant.is_graded_on_speed and evidence.correctness is Status.passed


def _performance(
    session: Session,
    task: Task,
    evidence: VariantEvidence,
    on_step: Progress,
    documents: Documents | None,
) -> PerformanceEvidence | None:
    if session.device != "cuda":
        return PerformanceEvidence(Status.not_measured, "timing needs an NVIDIA GPU")
    if reason := session.stopwatch.why_not(task.variant):
        return PerformanceEvidence(Status.not_measured, reason)
    if evidence.correctness is not Status.passed:
        return None
    waiting = Step.at(task, "waiting for the GPU")
    return session.stopwatch.time(task, lambda: on_step(waiting), documents)
