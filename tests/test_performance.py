"""How fast your kernels are, on a machine with an NVIDIA GPU: `pytest tests/test_performance.py`.

One group per variant that has a performance case: your kernel, torch's operator, the same under
torch.compile, and the staff's solution where it is at hand. A round is one replay of as many calls
as the group's name says, each on inputs and outputs of its own, in a process of its own, as in a
grade; `extra_info` has the time of one call by the device's own clock. Every output of your kernel
is judged: a wrong one fails.

    pytest tests/test_performance.py -k rmsnorm
    pytest tests/test_performance.py --benchmark-json=now.json
    pytest tests/test_performance.py --benchmark-autosave      before a change, and after it:
    pytest tests/test_performance.py --benchmark-compare

Kernels are timed one after the other here. A grade, and `grader bench`, take them in turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.grading.session import Session
from grader.instruments import bench, rounds
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import Exercise, SpecError, Variant, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing.failures import TimingFailed

try:
    EXERCISES = load_all()
except SpecError as error:
    if not error.right:
        raise pytest.Collector.CollectError(str(error)) from None
    EXERCISES = error.right  # the others' mistakes are those of tests/test_assignment.py

KERNELS = [
    pytest.param(exercise, variant, kernel, id=f"{exercise.name}-{variant.name}-{kernel}")
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    if variant.performance is not None
    for kernel in rounds.kernels_of(Task(exercise, variant))
]


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The submission, in a sandbox that lives as long as the tests."""
    if reason := rounds.why_none():
        pytest.skip(reason)
    with Session(Path(request.config.getoption("--submission")), EXERCISES) as opened:
        yield opened


@pytest.fixture(scope="session")
def trusted(session: Session) -> Iterator[Sandbox]:
    """Where everything runs but the submission."""
    with Sandbox(session.device, Level.limits) as opened:
        yield opened


# The plugin would warn of each test that is skipped.
@pytest.mark.filterwarnings("ignore:Benchmark fixture was not used")
@pytest.mark.parametrize(("exercise", "variant", "kernel"), KERNELS)
def test_performance(
    session: Session,
    trusted: Sandbox,
    benchmark: Any,
    exercise: Exercise,
    variant: Variant,
    kernel: str,
) -> None:
    """One kernel on the performance case of a variant."""
    name = f"{exercise.name}/{variant.name}"
    if kernel == rounds.STUDENT and (found := bench.why_not(session, Task(exercise, variant))):
        _end(name, *found)
    try:
        with contextlib.ExitStack() as opened:
            timed = rounds.stand_by(session, trusted, exercise, variant, kernel, opened)
            benchmark.group = f"{name} ({timed.calls} calls a round)"
            benchmark.pedantic(timed.run, setup=timed.prepare, rounds=rounds.ROUNDS)
            timed.finish()
            benchmark.extra_info |= {
                "case": str(rounds.case_of(exercise, variant, session.seed)),
                "calls_per_round": timed.calls,
                **rounds.microseconds(timed.seconds_per_call()),
            }
    except TimingFailed as failed:
        _end(f"{name} ({kernel})", failed.status, str(failed))


def _end(name: str, status: Status, reason: str) -> None:
    """Skip what there is nothing to time of; fail where a kernel is at fault."""
    message = f"{name}: {status.headline}: {reason}"
    if status in (Status.not_attempted, Status.not_measured):
        pytest.skip(message)
    pytest.fail(message, pytrace=False)
