"""One source or one submission graded in this process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from grader.grading.check import check as check_task
from grader.grading.grade import grade as grade_submission
from grader.grading.grade import grade_task
from grader.grading.search import Effort
from grader.grading.session import PUBLIC_SEED, Lent, Options, Session, selected
from grader.grading.submitted import MAX_FILE_BYTES, contents
from grader.mistakes import Mistake
from grader.sandbox import Sandbox
from grader.service.results import CheckResult, GradeResult, grade_result_of, result_of
from grader.spec import Exercise
from grader.spec import course as courses
from grader.spec.task import Task

EffortName = Literal["full", "quick"]
EFFORTS: Mapping[EffortName, Effort] = {
    "full": Effort(),
    # Fewer cases, and a failure is told but not explained.
    "quick": Effort(
        edges=3, drawn=1, plain=True, gpu_seconds=1.0, enough=1, shrink_seconds=1.0, shrink_runs=5,
        shrink_timeouts=0, reruns=3, probe_seconds=0.0, compile_ahead=False, repair_seconds=0.0,
    ),
}  # fmt: skip


class RequestError(Mistake, ValueError):
    """What is asked for can't be graded: the message names it and what was expected."""


def grade(
    submission: str | Path,
    *,
    course: str | Path | None = None,
    only: Sequence[str] = (),
    seed: int = PUBLIC_SEED,
    jobs: int = 1,
    require_sandbox: bool = False,
) -> GradeResult:
    """Grade a folder like assignment/.

    `course` is a course's folder or its course.yaml; without one, it is looked for around the
    working directory. `only` names exercises (`rmsnorm`) or variants (`rmsnorm/triton`). Raises
    grader.mistakes.Mistake for a wrong folder, course or name, and where a sandbox is required and
    there is none.
    """
    exercises = exercises_of(course)
    only = [only] if isinstance(only, str) else only
    for name in only:
        if not selected(exercises, [name]):
            raise RequestError(f"{name}: expected an exercise or variant of {', '.join(exercises)}")
    options = Options(seed=seed, require_sandbox=require_sandbox)
    evidence = grade_submission(Path(submission), exercises, options, only=only, jobs=jobs)
    return grade_result_of(evidence, exercises)


def check(
    source: str | bytes | Path,
    exercise: str,
    *,
    course: str | Path | None = None,
    seed: int = PUBLIC_SEED,
    effort: EffortName = "full",
    timed: bool = True,
    require_sandbox: bool = False,
) -> CheckResult:
    """Check one source as a variant of an exercise, as in `rmsnorm/triton`; time it on a GPU.

    `source` is the file's text, or the path of the file; a link, which may lead to the solution, is
    not followed and counts as not attempted. The name of an exercise alone is enough where it has
    one variant. The effort "quick" runs fewer cases and explains no failure. With `timed` false,
    nothing is timed. Raises as `grade` does.
    """
    exercises = exercises_of(course)
    task = task_named(exercises, exercise)
    if isinstance(source, Path):
        try:
            source.lstat()
        except OSError as error:
            raise RequestError(f"{source}: expected a file to check: {error.strerror}") from None
    if effort not in EFFORTS:
        raise RequestError(f"effort: expected one of {', '.join(EFFORTS)}, got {effort!r}")
    options = Options(seed=seed, effort=EFFORTS[effort], require_sandbox=require_sandbox)
    return check_source(task, source, options, timed=timed)


def check_source(
    task: Task,
    source: str | bytes | Path,
    options: Options,
    *,
    timed: bool = True,
    sandbox: Sandbox | None = None,
    lent: Lent | None = None,
) -> CheckResult:
    """Check one source as a task. For `sandbox` and `lent` see Session.

    Raises RequestError where the task's variant has several files.
    """
    started = time.monotonic()
    name = task.variant.file
    if task.variant.compile.files:
        names = ", ".join(task.variant.files)
        got = "got one source; `warpgrade.grade` takes a folder"
        raise RequestError(f"{task}: expected a folder with {names}, {got}")
    files: dict[str, bytes | str]
    if isinstance(source, Path):
        files = {name: contents(source)}
    else:
        data = source.encode() if isinstance(source, str) else source
        too_large = f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB"
        files = {name: data if len(data) <= MAX_FILE_BYTES else too_large}
    exercises = {task.exercise.name: task.exercise}
    folder = Path(f"/nonexistent/{task.exercise.name}")  # all files are given: it is never read
    with Session(folder, exercises, options, sandbox=sandbox, files=files, lent=lent) as session:
        observe = grade_task if timed else check_task
        observed = observe(session, task, at_large_sizes=False)  # the result has no place for that
        has_gpu = session.device == "cuda"
    return result_of(task, observed, options.seed, has_gpu, time.monotonic() - started)


def exercises_of(course: str | Path | None) -> dict[str, Exercise]:
    """The exercises of a course. Raises SpecError where one is wrong."""
    return courses.find(Path(course) if course is not None else None).exercises


def task_named(exercises: Mapping[str, Exercise], name: str) -> Task:
    """The one variant that a name stands for. Raises RequestError."""
    tasks = selected(exercises, [name])
    if len(tasks) != 1:
        among = tasks or selected(exercises)
        names = ", ".join(map(str, among))
        raise RequestError(f"exercise: expected one of {names}, got {name!r}")
    return tasks[0]
