"""Your kernels, checked as the grade checks them: `pytest`, or `pytest -k rmsnorm`.

One test per exercise, variant, dtype and size class, made from exercises/*.yaml, one for how
a variant uses memory, and one for its speed, where these earn points. What you have not attempted
is skipped, and so is what this machine can't measure; what fails says what is wrong, where, and how
to repeat it.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader.evidence import PartEvidence
from grader.grading.check import check_memory, check_part, check_parts
from grader.grading.measure import measure
from grader.grading.session import Session
from grader.scoring import memory_bounds
from grader.scoring.score import PERFORMANCE, RIGHT_BEFORE_MEMORY, RIGHT_FIRST, score_variant
from grader.spec import Exercise, SpecError, Variant, load_all
from grader.spec.task import Task
from grader.status import Status

NARROWEST, WIDEST = 40, 96  # columns of a message

WRONG_SPECS: tuple[str, ...] = ()
try:
    EXERCISES = load_all()
except SpecError as error:
    if not error.right:
        raise pytest.Collector.CollectError(str(error)) from None
    EXERCISES, WRONG_SPECS = error.right, error.mistakes

PARTS = [
    pytest.param(exercise, variant, dtype, size_class, id="-".join(
        (exercise.name, variant.name, dtype, size_class)
    ))
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    for dtype in variant.dtypes
    for size_class in variant.size_classes
]  # fmt: skip

MEMORY = [
    pytest.param(exercise, variant, id=f"{exercise.name}-{variant.name}-memory")
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    if variant.memory is not None
]


SPEED = [
    pytest.param(exercise, variant, id=f"{exercise.name}-{variant.name}-performance")
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    if variant.is_graded_on_speed
]


told: dict[tuple[str, ...], str] = {}  # the first part that failed, by kind of failure
right_on: Counter[str] = Counter()  # cases passed, by variant; below 0 where one did not
checked: dict[tuple[str, str, str], PartEvidence] = {}  # by variant, dtype and size class


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The submission, in a sandbox that lives as long as the tests."""
    with Session(Path(request.config.getoption("--submission")), EXERCISES) as opened:
        wanted = (getattr(item, "callspec", None) for item in request.session.items)
        given = (each.params for each in wanted if each is not None)
        opened.begin_building(
            Task(each["exercise"], each["variant"])
            for each in given
            if isinstance(each.get("variant"), Variant)
        )
        yield opened


@pytest.mark.parametrize(("exercise", "variant", "dtype", "size_class"), PARTS)
def test_assignment(
    session: Session, exercise: Exercise, variant: Variant, dtype: str, size_class: str
) -> None:
    """One part of one variant."""
    task = Task(exercise, variant)
    reason = session.not_attempted(task)
    if reason:
        pytest.skip(f"{task} not attempted: {reason}")
    part = check_part(session, task, dtype, size_class)
    checked[str(task), dtype, size_class] = part
    if part.status is Status.not_measured:
        pytest.skip(f"not measured here: {part.reason}")
    if part.status is not Status.passed:
        from grader.report import part_block  # only a failure needs it

        columns = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
        message = part_block(exercise.name, variant.name, part, columns, told)
        right_on[str(task)] = -sys.maxsize
        pytest.fail(message, pytrace=False)
    right_on[str(task)] += part.cases_run


@pytest.mark.parametrize("mistake", WRONG_SPECS)
def test_spec(mistake: str) -> None:
    """A spec that can't be read fails alone: the tests of other exercises run."""
    pytest.fail(mistake, pytrace=False)


@pytest.mark.parametrize(("exercise", "variant"), MEMORY)
def test_memory(
    session: Session,
    exercise: Exercise,
    variant: Variant,
    record_measured: Callable[[str], None],
) -> None:
    """How one variant uses memory, on the case that its spec names."""
    task = Task(exercise, variant)
    if reason := session.not_attempted(task):
        pytest.skip(f"{task} not attempted: {reason}")
    if right_on[str(task)] < 0:
        pytest.skip(RIGHT_BEFORE_MEMORY)
    seen = check_memory(session, task)
    if not seen.status.is_gradable:
        pytest.skip(f"not measured here: {seen.reason}")
    if seen.status.is_failure:
        message = f"{task}: {seen.status.headline} on the case whose accesses are counted: "
        pytest.fail(message + seen.reason, pytrace=False)
    told = memory_bounds.sentences(seen, exercise, variant)
    missed = [
        memory_bounds.missed(each, run.lines, variant.file, run.run)
        for run, each in memory_bounds.shortfalls(seen, variant)
    ]
    if missed:
        pytest.fail(f"{task}: short of the target: {'; '.join(missed)}.", pytrace=False)
    start = f"right on all {right_on[str(task)]} cases. " if right_on[str(task)] > 0 else ""
    record_measured(f"{task}: {start}{' '.join(told)}")


@pytest.mark.parametrize(("exercise", "variant"), SPEED)
def test_speed(
    session: Session,
    exercise: Exercise,
    variant: Variant,
    record_measured: Callable[[str], None],
) -> None:
    """How fast one variant is on a GPU, against the targets of its spec."""
    task = Task(exercise, variant)
    if reason := session.not_attempted(task):
        pytest.skip(f"{task} not attempted: {reason}")
    if session.device != "cuda":
        pytest.skip("not measured here: timing needs an NVIDIA GPU")
    if right_on[str(task)] < 0:
        pytest.skip(RIGHT_FIRST)
    here = {name: checked.get((str(task), *name)) for name in task.parts}
    missing = check_parts(session, task, [name for name in here if here[name] is None])
    parts = (*filter(None, here.values()), *missing)
    seen = measure(session, task, replace(session.blank_evidence(task), parts=parts))
    checks = score_variant(task, seen, has_gpu=True).checks
    speed = next(check for check in checks if check.name == PERFORMANCE)
    if speed.status.is_failure:
        pytest.fail(f"{task}: {speed.status.headline}: {speed.message}", pytrace=False)
    if speed.status is not Status.passed:
        pytest.skip(f"not measured here: {speed.message}")
    record_measured(f"{task}: {speed.message}")
