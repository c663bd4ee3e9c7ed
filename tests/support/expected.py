"""The statuses and lines that the grader must report for submissions of the corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grader.evidence import VariantEvidence
from grader.grading.check import check_memory, check_parts
from grader.grading.grade import grade_task
from grader.grading.session import Session
from grader.spec.task import Task
from grader.staff.author.trials import asked_of, status_on, unnoticed_by
from grader.staff.calibration.corpus import Submission, lines
from grader.status import Status

__all__ = ["asked_of", "lines", "observed", "status_on", "unnoticed_by"]


def observed(submission: Submission, session: Session, task: Task) -> VariantEvidence:
    """The evidence on a submission's task.

    Large sizes are planned only where the submission says something of them: the compiler may work
    for a minute on a kernel with a mistake there.
    """
    if submission.kind == "honest" or submission.check == "large":
        return grade_task(session, task)
    parts = check_parts(session, task, task.parts)
    seen = replace(session.blank_evidence(task), parts=parts)
    if seen.correctness is Status.passed and task.variant.memory is not None:
        seen = replace(seen, memory=check_memory(session, task))
    return seen


def check_large(submission: Submission, seen: VariantEvidence) -> None:
    """Whether a finding at a large size has the status, and one of the lines."""
    wanted = {f"{submission.file}:{line}" for line in lines(submission)}
    found = {(each.status, each.where) for each in seen.at_large_sizes}
    assert any((submission.status, where) in found for where in wanted), seen.at_large_sizes


def check_honest_at_large_sizes(submission: Submission, seen: VariantEvidence) -> None:
    """Whether an access is found at large sizes where an index wraps, and only there.

    Many honest kernels meet a grid's limit, which isn't asked here.
    """
    found = [each for each in seen.at_large_sizes if each.status is not Status.launch_error]
    assert bool(found) is submission.wraps, found


def write(submission: Submission, folder: Path) -> Path:
    """Make `folder` the submission: the one file, and nothing else. Returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / submission.file
    path.write_text(submission.text(), encoding="utf-8")
    return path
