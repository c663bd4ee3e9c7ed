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
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.cases import Case, fixed_case
from grader.gpu import machine
from grader.grading.session import Session
from grader.instruments import bench
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec import Exercise, SpecError, Variant, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import bootstrap, contenders
from grader.timing.baselines import Baselines
from grader.timing.bootstrap import Interval
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.graph_replays import Replays

STUDENT = "student"
BASELINES = {"reference": "reference", "torch": "torch", "torch.compile": "compile"}
ROUNDS = 15

try:
    EXERCISES = load_all()
except SpecError as error:
    if not error.right:
        raise pytest.Collector.CollectError(str(error)) from None
    EXERCISES = error.right  # the others' mistakes are those of tests/test_assignment.py


def kernels_of(task: Task) -> list[str]:
    """The kernels that are compared; the reference where the staff's solution is here."""
    has_reference = contenders.has_reference(task)
    here = [name for name in BASELINES if name != "reference" or has_reference]
    return [STUDENT, *here]


KERNELS = [
    pytest.param(exercise, variant, kernel, id=f"{exercise.name}-{variant.name}-{kernel}")
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    if variant.performance is not None
    for kernel in kernels_of(Task(exercise, variant))
]


def why_none() -> str:
    """Why nothing can be timed on this machine, or ""."""
    return "" if machine.gpu_name() else "timing needs an NVIDIA GPU; there is none here"


@pytest.fixture(scope="session")
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """The submission, in a sandbox that lives as long as the tests."""
    if reason := why_none():
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
    if kernel == STUDENT and (found := bench.why_not(session, Task(exercise, variant))):
        _end(name, *found)
    try:
        with contextlib.ExitStack() as opened:
            timed = stand_by(session, trusted, exercise, variant, kernel, opened)
            benchmark.group = f"{name} ({timed.calls} calls a round)"
            benchmark.pedantic(timed.run, setup=timed.prepare, rounds=ROUNDS)
            timed.finish()
            benchmark.extra_info |= {
                "case": str(case_of(exercise, variant, session.seed)),
                "calls_per_round": timed.calls,
                **microseconds(timed.seconds_per_call()),
            }
    except TimingFailed as failed:
        _end(f"{name} ({kernel})", failed.status, str(failed))


def _end(name: str, status: Status, reason: str) -> None:
    """Skip what there is nothing to time of; fail where a kernel is at fault."""
    message = f"{name}: {status.headline}: {reason}"
    if status in (Status.not_attempted, Status.not_measured):
        pytest.skip(message)
    pytest.fail(message, pytrace=False)


def case_of(exercise: Exercise, variant: Variant, seed: int) -> Case:
    """The variant's performance case, the first of several."""
    return fixed_case(Task(exercise, variant), variant.timed.every_case[0], seed)


class Rounds:
    """A kernel ready to be timed: `prepare` before each round, `finish` after the last."""

    def __init__(self, replays: Replays) -> None:
        self.calls = replays.calls
        self._replays = replays
        self._took: list[float] = []
        self._is_judged = True

    def prepare(self) -> None:
        """Judge the round before, and make the next one ready. Raises TimingFailed."""
        self.finish()
        self._replays.prepare()

    def run(self) -> None:
        """The round: from the request until the device has finished."""
        self._took.append(self._replays.replay() / self.calls)
        self._is_judged = False

    def finish(self) -> None:
        """Judge the last round. Raises TimingFailed where an output of it is wrong."""
        if not self._is_judged:
            self._replays.finish()
            self._is_judged = True

    def seconds_per_call(self) -> Interval:
        """The time of a call by the device's clock, from all rounds."""
        return bootstrap.interval(self._took)


def stand_by(
    session: Session,
    trusted: Sandbox,
    exercise: Exercise,
    variant: Variant,
    kernel: str,
    opened: contextlib.ExitStack,
) -> Rounds:
    """One of `kernels_of(task)`, started and warmed up; it ends with `opened`.

    torch and torch.compile run in `trusted`. Raises TimingFailed as the clock does, with
    `not_measured` where the GPU has too little memory.
    """
    case = case_of(exercise, variant, session.seed)
    if session.device == "cuda":
        torch.cuda.empty_cache()  # or there would be less for buffers
    try:
        if kernel == STUDENT:
            replays = session.stopwatch.planned(Task(exercise, variant)).begin(case, opened)
        else:
            reference = partial(session.stopwatch.reference, Task(exercise, variant))
            executors = session.runners.sandbox_of("cuda")
            given = (trusted, executors, Task(exercise, variant), [case], reference)
            baselines = opened.enter_context(Baselines(*given))
            replays = baselines.begin(BASELINES[kernel], case, opened)
        replays.settle()
        return Rounds(replays)
    except (TooLittleMemory, ValueError) as error:
        raise TimingFailed(str(error), Status.not_measured) from None


def microseconds(seconds: Interval) -> dict[str, float]:
    """For a benchmark's extra_info: the median per call and where it may lie."""
    return {
        "microseconds_per_call": round(1e6 * seconds.median, 3),
        "microseconds_low": round(1e6 * seconds.low, 3),
        "microseconds_high": round(1e6 * seconds.high, 3),
    }
