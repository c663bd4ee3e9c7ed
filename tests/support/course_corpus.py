"""The submissions of a course's folder, each with what a grade of it must be.

Solutions must earn everything that can be graded here and stubs nothing. The entries of wrong/ and
honest/ say for themselves what they must be (grader/staff/calibration/corpus.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.evidence import VariantEvidence
from grader.grading.check import check
from grader.grading.grade import Options, Session
from grader.grading.search import Effort
from grader.scoring import memory_bounds
from grader.spec import Course, Exercise
from grader.spec import course as courses
from grader.spec.task import Task
from grader.staff.calibration import corpus
from grader.status import Status
from tests.support import expected

BRIEF = Effort(
    repair_seconds=0,
    edges=10,
    drawn=3,
    shrink_runs=2,
    shrink_seconds=1.0,
    probe_seconds=0.0,
    shrink_timeouts=0,
    reruns=2,
    enough=2,
    compile_ahead=False,
)


@dataclass(frozen=True)
class Result:
    """What a submission's grade was; `trouble` says why it isn't what it must be, or is ""."""

    was: str
    trouble: str = ""


@dataclass(frozen=True)
class Graded:
    """One submission: `run` makes it in a folder and grades it."""

    name: str
    about: str
    wanted: str
    run: Callable[[Path], Result]


def every(folder: Path) -> Iterator[Graded]:
    """All submissions of a course: by exercise its solutions, stubs, and its two corpora."""
    course = courses.find(folder)
    exercises = course.exercises
    for exercise in exercises.values():
        for variant in exercise.variants:
            task = Task(exercise, exercise.variants[variant])
            yield _of_folder(course.reference, exercises, task)
            yield _of_folder(course.assignment, exercises, task)
        for kind in ("wrong", "honest"):
            for entry in entries(course, kind, exercise.name):
                yield _of_entry(exercises, entry)


def entries(course: Course, kind: corpus.Kind, exercise: str) -> list[corpus.Submission]:
    """The entries about one exercise, of both languages."""
    both = (*corpus.load(kind, "triton", course), *corpus.load(kind, "cuda", course))
    return [each for each in both if each.exercise == exercise]


def _of_folder(folder: Path, exercises: dict[str, Exercise], task: Task) -> Graded:
    solved = folder.name == "reference"

    def run(into: Path) -> Result:
        into.mkdir(parents=True)
        shutil.copy(folder / task.variant.file, into)
        seen = _seen(exercises, into, task)
        if not solved:
            right = seen.correctness is Status.not_attempted
            return Result(seen.correctness.value, "" if right else _told(seen))
        return Result("full marks", "" if _is_full(seen, task) else _told(seen))

    wanted = "full marks" if solved else "not_attempted"
    return Graded(f"{folder.name}/{task}", task.exercise.title, wanted, run)


def _of_entry(exercises: dict[str, Exercise], entry: corpus.Submission) -> Graded:
    exercise = exercises[entry.exercise]
    variant = expected.asked_of(entry, exercise.variants[entry.variant])
    task = Task(exercise, variant)

    def run(into: Path) -> Result:
        expected.write(entry, into)
        lines = {f"{entry.file}:{line}" for line in expected.lines(entry)}
        seen = _seen(exercises, into, task)
        if entry.kind == "honest":
            return Result("full marks", "" if _is_full(seen, task) else _told(seen))
        trouble = _differs(entry, seen, task, lines)
        return Result(entry.status.value, f"{trouble}\n{_told(seen)}" if trouble else "")

    wanted = "full marks" if entry.kind == "honest" else _wanted(entry)
    return Graded(f"{entry.kind}/{entry.id}", entry.mistake or entry.about, wanted, run)


def _wanted(entry: corpus.Submission) -> str:
    where = entry.check if entry.check != "sizes" else ", ".join(entry.classes)
    return f"{entry.status.value} in {where}"


def _seen(exercises: dict[str, Exercise], folder: Path, task: Task) -> VariantEvidence:
    options = Options(seed=7, device="interpreter", effort=BRIEF, check_with_nvcc=False)
    with Session(folder, exercises, options) as session:
        return check(session, task)


def _is_full(seen: VariantEvidence, task: Task) -> bool:
    """Whether all parts passed, no bound on memory is missed, and large sizes are right."""
    wraps = [each for each in seen.at_large_sizes if each.status is not Status.launch_error]
    if seen.correctness is not Status.passed or wraps:
        return False
    if task.variant.memory is None:
        return True
    if seen.memory is None or seen.memory.status is not Status.passed:
        return False
    return not memory_bounds.shortfalls(seen.memory, task.variant)


def _differs(entry: corpus.Submission, seen: VariantEvidence, task: Task, lines: set[str]) -> str:
    """How the evidence on a wrong submission differs from what its entry says."""
    if entry.check in ("memory", "large"):
        if seen.correctness is not Status.passed:
            return "expected every size class to pass"
        if entry.check == "large":
            found = {each.status for each in seen.at_large_sizes}
            return "" if entry.status in found else "expected a finding at a large size"
        is_missed = seen.memory is not None and (
            seen.memory.status is Status.target_missed
            or bool(memory_bounds.shortfalls(seen.memory, task.variant))
        )
        return "" if is_missed else "expected a bound on memory to be missed"
    for part in seen.parts:
        if entry.dtypes and part.dtype in entry.dtypes and part.size_class in entry.classes:
            fails = True
        elif part.dtype in entry.passes_dtypes or part.size_class in entry.passes:
            fails = False
        elif not entry.dtypes and part.size_class in entry.classes:
            fails = True
        else:
            continue
        wanted = entry.status if fails else Status.passed
        if part.status is not wanted:
            return f"{part.dtype} {part.size_class}: expected {wanted.value}"
        if fails and lines and part.failures[0].where not in lines:
            return f"{part.dtype} {part.size_class}: expected {lines}"
    return ""


def _told(seen: VariantEvidence) -> str:
    """The evidence in lines, to read where it isn't what it must be."""
    told = []
    for part in seen.parts:
        told.append(
            f"{part.dtype} {part.size_class}: {part.status.value} {part.reason[-300:]}".rstrip()
        )
        told += [f"    {each.where} {each.what} [{each.case}]" for each in part.failures[:1]]
        if part.status is Status.grader_error:
            break
    if seen.memory is not None:
        told.append(f"memory: {seen.memory.status.value} {seen.memory.reason}")
        told += [f"    {each.name} = {each.value}" for each in seen.memory.metrics]
    told += [f"large: {each.status.value} {each.where} {each.what}" for each in seen.at_large_sizes]
    return "\n".join(told) or seen.correctness.value
