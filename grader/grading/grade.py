"""Grading of one submission, for `grader grade`, pytest and batch."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.cases import gpu_memory
from grader.evidence import Evidence, VariantEvidence
from grader.grading import plan_files, predictions, submitted
from grader.grading.check import LEAST_ON_A_GPU, check
from grader.grading.measure import measure
from grader.grading.parallel import Checked, checked_side_by_side
from grader.grading.session import Options, Progress, Session, selected, unwatched
from grader.mistakes import Mistake
from grader.spec import Exercise
from grader.spec.course import around, option_for
from grader.spec.exercise import REFERENCE
from grader.spec.task import Task


def grade(
    submission: Path,
    exercises: Mapping[str, Exercise],
    options: Options | None = None,
    *,
    only: Sequence[str] = (),
    jobs: int = 1,
    on_step: Progress = unwatched,
) -> Evidence:
    """All evidence about a submission that this machine can observe.

    `only` holds names of exercises (`rmsnorm`) or variants (`rmsnorm/triton`). With `jobs`
    processes, tasks are checked in parallel, on all GPUs. This process times each right one on the
    first GPU while others are still checked. Ctrl-C ends it with the evidence of the finished
    tasks, marked incomplete. Raises Mistake when the folder doesn't exist or has the course in it,
    ConfinementError where a sandbox is required and none is available.
    """
    started = time.monotonic()
    _expect_no_course(submission, exercises)
    with Session(submission, exercises, options) as session:
        variants, complete = _observed(session, selected(exercises, only), jobs, on_step)
        variants += predictions.answered(session, only)
        environment = _environment(session)
    return Evidence(
        submission=(submission.name or str(submission)).encode("utf-8", "replace").decode(),
        seed=session.seed,
        variants=tuple(variants),
        environment=environment,
        seconds=round(time.monotonic() - started, 3),
        complete=complete,
    )


def _observed(
    session: Session, tasks: Sequence[Task], jobs: int, on_step: Progress
) -> tuple[list[VariantEvidence], bool]:
    """The evidence on each task, and whether it is complete: Ctrl-C interrupts.

    Tasks that aren't attempted take no process: each would open a session only to say so.
    """
    attempted = [i for i, task in enumerate(tasks) if not session.not_attempted(task)]
    checked: dict[int, Checked] = {}
    done: dict[int, VariantEvidence] = {}
    complete = True
    if any(tasks[index].variant.is_graded_on_speed for index in attempted):
        session.stopwatch.begin()
    try:
        if jobs > 1 and len(attempted) > 1:
            chosen = [tasks[index] for index in attempted]
            side_by_side = checked_side_by_side(session, chosen, jobs, on_step)
            with contextlib.closing(side_by_side):  # which ends its processes
                for place, each in side_by_side:
                    index = attempted[place]
                    checked[index] = each
                    done[index] = _measured(session, tasks[index], each, on_step)
        for index, task in enumerate(tasks):
            if index not in done:
                checked[index] = Checked(check(session, task, on_step))
                done[index] = _measured(session, task, checked[index], on_step)
    except KeyboardInterrupt:
        complete = False
        if session.device != "cuda":  # without a GPU, nothing more is run for these
            for index in checked.keys() - done.keys():
                done[index] = _measured(session, tasks[index], checked[index], unwatched)
    return [done.get(i) or session.blank_evidence(task) for i, task in enumerate(tasks)], complete


def _measured(session: Session, task: Task, checked: Checked, on_step: Progress) -> VariantEvidence:
    """The evidence of a checked task with its speed, by the plans that were made meanwhile."""
    plans = plan_files.documents_of(checked.plans) if checked.plans else None
    return measure(session, task, checked.evidence, on_step, plans)


def grade_task(
    session: Session,
    task: Task,
    on_step: Progress = unwatched,
    at_large_sizes: bool = True,
) -> VariantEvidence:
    """Check and time one task in an open session. For `at_large_sizes` see check.check."""
    if task.variant.is_graded_on_speed:
        session.stopwatch.begin()
    return measure(session, task, check(session, task, on_step, at_large_sizes), on_step)


def _environment(session: Session) -> dict[str, Any]:
    """The evidence's description of the machine, the sandbox and the options."""
    environment = session.environment()
    if session.device == "cuda":
        environment["gpu_memory"] = how_memory_reaches_workers(session.runners.not_shared)
        environment["cases_on_the_gpu"] = CASES_ON_A_GPU
        if gpu_memory.reaches_host_memory():
            environment["gpu_reach"] = gpu_memory.REACHES_HOST_MEMORY
    exercise = next(iter(session.exercises.values()))
    if exercise.reference != REFERENCE:  # "." is the course around the working directory
        environment["course"] = shlex.split(option_for(exercise) or ".")[-1]
    if session.options.lifted:
        environment["rules_lifted"] = sorted(session.options.lifted)
    return environment


CASES_ON_A_GPU = (
    "each set of constants, dtypes and options once, each kernel of CUDA C++ with each size of its "
    f"blocks, and at least {LEAST_ON_A_GPU['triton']} of each size class in Triton and "
    f"{LEAST_ON_A_GPU['cuda']} in CUDA C++; all cases run without a GPU, too"
)


def how_memory_reaches_workers(refused: str) -> str:
    """How tensors reach kernels on the GPU, for the evidence; `refused` is why not shared."""
    refused = refused or gpu_memory.why_not_shared()
    return f"copied: {refused}" if refused else "shared with workers"


def expect_files(submission: Path, exercises: Mapping[str, Exercise]) -> None:
    """Raise Mistake for a folder without a file of any exercise: a wrong folder.

    So does one that has the exercises' course in it. Call it before the oracles are loaded.
    """
    _expect_no_course(submission, exercises)
    names = [name for e in exercises.values() for v in e.variants.values() for name in v.files]
    if submission.is_dir() and not any((submission / name).exists() for name in names):
        oracles = (submission / "oracles.py").exists()
        why = ": the students' release has no solutions" if oracles else ""
        why = why or submitted.one_level_down(submission, names)
        why = why or next(filter(None, (submitted.renamed(submission / n) for n in names)), "")
        raise Mistake(
            f"{submission}: expected a folder like assignment/, with {names[0]} or other files of "
            f"exercises; found none{why}"
        )


def _expect_no_course(submission: Path, exercises: Mapping[str, Exercise]) -> None:
    """Raise Mistake where a submission has brought the course that it would be judged by."""
    for reference in {each.reference for each in exercises.values()} - {REFERENCE}:
        course = around(reference)
        if course is not None and course.root.is_relative_to(submission.resolve()):
            raise Mistake(
                f"{submission}: expected a folder without a course, got the one that would judge "
                f"it, {course.root}: go to the course's own folder, or give --course"
            )
