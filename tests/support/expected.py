"""The statuses and lines that the grader must report for submissions of the corpus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grader.evidence import VariantEvidence
from grader.grading.check import check_memory, check_parts
from grader.grading.grade import Session, grade_task
from grader.spec import Variant
from grader.spec.task import Task
from grader.staff.calibration.corpus import CorpusError, Submission, behind
from grader.status import Status


def asked_of(submission: Submission, variant: Variant) -> Variant:
    """The variant, cut to the size classes that the submission's entry mentions."""
    if submission.check == "performance":
        variant = variant.model_copy(update={"memory": None, "performance": None})
    told = {*submission.classes, *submission.passes}
    if not told:
        return variant
    kept = {k: v for k, v in variant.points.items() if k in told or k == "memory"}
    return variant.model_copy(update={"points": kept})


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


def unnoticed_by(submission: Submission, triton: str) -> str:
    """Why this version of Triton lets it pass; "" where it doesn't."""
    since = submission.since_triton
    if not since or _minor(triton) >= _minor(since):
        return ""
    return f"Triton {triton} takes no notice of it, {since} does"


def _minor(version: str) -> tuple[int, int]:
    """(3, 9) of 3.9.0."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def status_on(submission: Submission, gpu: bool) -> Status:
    """The status that a machine with or without a GPU must find."""
    return submission.gpu_status if gpu and submission.gpu_status is not None else submission.status


def lines(submission: Submission) -> tuple[int, ...]:
    """The numbers, from 1, of the lines of which the message must point at one.

    Raises CorpusError where a line's text is not in the file, or not once.
    """
    text = submission.text()
    start = behind(submission.after, text, submission.place)
    numbers = []
    for wanted in submission.line:
        times = text.count(wanted, start)
        if times == 0 or (times > 1 and not submission.after):
            raise CorpusError(f"{submission.place}: line: expected {wanted!r} once, got {times}")
        numbers.append(text.count("\n", 0, text.index(wanted, start)) + 1)
    return tuple(numbers)


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
