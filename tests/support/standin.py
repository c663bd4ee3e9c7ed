"""A grading that takes milliseconds, for tests of the code around it, and a class to grade.

`quick` replaces `grade_files` in the real pool, run and store; its evidence depends on the files
alone, as a grading's does.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.batch import tasks
from grader.batch.classes import CourseClass
from grader.batch.collect import collect
from grader.batch.course.records import Gradebook
from grader.batch.pages import views
from grader.batch.run import run
from grader.batch.run.run import Machines, Options, Outcome
from grader.batch.store.store import Store
from grader.batch.tasks import Graded, HandinTask, Result, grade_files
from grader.evidence import PartEvidence, VariantEvidence, variant_to_json
from grader.grading.search import Effort
from grader.spec import Exercise
from grader.status import Status
from tests.support.small_exercise import BRIEF, SPEC, write_spec

SECONDS = 0.02  # of one task
PADDING = 4000  # characters of a failure's text, so that a store grows
ENVIRONMENT = {"gpu": None, "device": "cpu", "sandbox": "bubblewrap"}

TWO = f"""\
{SPEC.rstrip()}
  other: {{file: other.py, entry: silu, dtypes: [float32], points: {{ragged: 1}}}}
"""


class InThisProcess:
    """One task after the other, here."""

    width = 1
    lost: tuple[type[BaseException], ...] = ()

    def __init__(self, function: Callable[[HandinTask], Graded]) -> None:
        self._function = function

    def submit(self, task: HandinTask) -> Future[Graded]:
        future: Future[Graded] = Future()
        try:
            future.set_result(self._function(task))
        except Exception as error:
            future.set_exception(error)
        return future


def quick(task: HandinTask) -> Graded:
    """What a hand-in's files earn: a file that says `wrong` is wrong."""
    tasks._check_is_the_same_grader(task)
    time.sleep(SECONDS)
    return Graded(tuple(_result(task, wanted) for wanted in task.wanted), ENVIRONMENT)


def deadly(task: HandinTask) -> Graded:
    """As `quick`, but for a file that says `deadly`, on which the process is killed."""
    variants = [task.exercises[each.exercise].variants[each.variant] for each in task.wanted]
    if any(b"deadly" in task.files.get(variant.file, b"") for variant in variants):
        os.kill(os.getpid(), signal.SIGKILL)
    return quick(task)


def _result(task: HandinTask, wanted: tasks.Wanted) -> Result:
    variant = task.exercises[wanted.exercise].variants[wanted.variant]
    data = task.files.get(variant.file)
    if data is None:
        seen = VariantEvidence(
            wanted.exercise, wanted.variant, variant.file, not_attempted="there is none"
        )
        return Result(wanted.key, variant_to_json(seen))
    status = Status.wrong_values if b"wrong" in data else Status.passed
    seen = VariantEvidence(
        wanted.exercise,
        wanted.variant,
        variant.file,
        sha256=tasks.hash_of(data),
        parts=tuple(
            PartEvidence(dtype, name, status, 3, reason="." * PADDING)
            for dtype in variant.dtypes
            for name in variant.size_classes
        ),
        rules_lifted=wanted.lifted,
    )
    return Result(wanted.key, variant_to_json(seen), seconds=SECONDS)


def instant(task: Any) -> Graded:
    """As `quick`, in no time."""
    tasks._check_is_the_same_grader(task)
    return unchecked(task)


def unchecked(task: Any) -> Graded:
    """As `instant`, also for a task of another machine, or with exchanged files."""
    made = (replace(_result(task, wanted), seconds=0.0) for wanted in task.wanted)
    return Graded(tuple(made), ENVIRONMENT)


def make_class(folder: Path, count: int) -> Path:
    """A folder of hand-ins, no two alike; every third one wrong."""
    for number in range(count):
        handin = folder / f"student{number:03d}"
        handin.mkdir(parents=True)
        word = "wrong" if number % 3 == 0 else "right"
        (handin / "silu.py").write_text(f"x = '{word} {number}'\n")
        (handin / "other.py").write_text(f"x = '{word} other {number}'\n")
    return folder


def two_variants(folder: Path) -> dict[str, Exercise]:
    """The small exercise with two variants in two files."""
    return write_spec(folder, TWO)


def grade_class(
    source: Path,
    out: Path,
    exercises: Mapping[str, Exercise],
    *,
    only: Sequence[str] = (),
    seed: int | None = 7,
    function=grade_files,
    require_sandbox: bool = True,
    effort: Effort = BRIEF,
    watcher=None,
    machines: Machines | None = None,
    course: Path | None = None,
    roster: Path | None = None,
) -> tuple[Outcome, Gradebook]:
    """Do what `grader batch` does, in this process and without output."""
    collection = collect(source, exercises, leave_out=[out])
    with run.alone(out), Store(out, create=True) as store:
        course_class = CourseClass.open(store, exercises, course, roster)
        course_class.effort = effort
        run.seed_of(store, seed, course_class.course.seed)
        number = store.begin_run("test", "0", {})
        store.handins.keep(collection.handins, str(source), number)
        machines = machines or Machines("cpu", InThisProcess(function))
        options = Options(tuple(only), require_sandbox)
        outcome = run.grade(course_class, course_class.handins, machines, number, options, watcher)
        store.end_run(number)
        book = course_class.gradebook()
        views.write(book, exercises, out)
        store.keep_standings(book)
    return outcome, book
