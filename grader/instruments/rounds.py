"""Rounds of calls of one worker, as `tests/test_performance.py` times them, by the grade's clock.

A round is one replay of a number of calls: see timing/graph_replays.py. The time of a call by the
device's own clock is given too.
"""

from __future__ import annotations

import contextlib
from functools import partial

import torch

from grader.cases import Case, fixed_case
from grader.gpu import machine
from grader.grading.session import Session
from grader.sandbox import Sandbox
from grader.spec import Exercise, Variant
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


def why_none() -> str:
    """Why nothing can be timed on this machine, or ""."""
    return "" if machine.gpu_name() else "timing needs an NVIDIA GPU; there is none here"


def kernels_of(task: Task) -> list[str]:
    """The kernels that are compared; the reference where the staff's solution is here."""
    has_reference = contenders.has_reference(task)
    here = [name for name in BASELINES if name != "reference" or has_reference]
    return [STUDENT, *here]


def case_of(exercise: Exercise, variant: Variant, seed: int) -> Case:
    """The variant's performance case, the first of several."""
    return fixed_case(exercise, variant, variant.timed.every_case[0], seed)


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
            replays = session.stopwatch.planned(exercise, variant).begin(case, opened)
        else:
            reference = partial(session.stopwatch.reference, exercise, variant)
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
