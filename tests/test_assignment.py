"""Your kernels, checked as the grade checks them: `pytest`, or `pytest -k rmsnorm`.

One test per exercise, variant, dtype and size class, made from grader/exercises/*.yaml. What you
have not attempted is skipped; what fails says what is wrong, where, and how to repeat it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.grade import Session
from grader.report import part_block
from grader.spec import Exercise, SpecError, Variant, load_all
from grader.status import Status

NARROWEST, WIDEST = 60, 96  # columns of a message

try:
    EXERCISES = load_all()
except SpecError as error:
    raise pytest.Collector.CollectError(str(error)) from None

PARTS = [
    pytest.param(exercise, variant, dtype, size_class, id="-".join(
        (exercise.name, variant.name, dtype, size_class)
    ))
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    for dtype in variant.dtypes
    for size_class in variant.size_classes
]  # fmt: skip


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The submission, in a sandbox that lives as long as the tests."""
    with Session(Path(request.config.getoption("--submission")), EXERCISES) as opened:
        yield opened


@pytest.mark.parametrize(("exercise", "variant", "dtype", "size_class"), PARTS)
def test_assignment(
    session: Session, exercise: Exercise, variant: Variant, dtype: str, size_class: str
) -> None:
    """One part of one variant."""
    reason = session.not_attempted(variant)
    if reason:
        pytest.skip(f"{exercise.name}/{variant.name} not attempted: {reason}")
    part = session.part(exercise, variant, dtype, size_class)
    if part.status is Status.not_measured:
        pytest.skip(f"not measured here: {part.reason}")
    if part.status is not Status.passed:
        columns = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
        message = part_block(exercise.name, variant.name, part, columns)
        pytest.fail(message, pytrace=False)
