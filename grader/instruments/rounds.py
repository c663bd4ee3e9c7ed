"""What `tests/test_performance.py` times: rounds of calls of one worker, by the grade's own clock.

A round is one request for a number of calls, which is the same for all kernels of a case, so that
their rounds can be compared. What a call takes without what a request costs is worked out besides,
from long and short runs (timing/pairs.py).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable

import torch

from grader import estimate, machine, race
from grader.cases import Case, fixed_case
from grader.estimate import Interval
from grader.sandbox import Sandbox
from grader.session import Session
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.timing import lanes
from grader.timing.pairs import FixedCost, TimedPairs, credited
from grader.timing.worker import Run, TimingFailed

STUDENT = "student"
YARDSTICKS = {"reference": "reference", "torch": "torch", "torch.compile": "compile"}
CALLS = 16  # of a round: 1.5 ms for a kernel of 100 us, of which a request's cost is a fiftieth
ROUNDS = 15
PAIRS = 9  # long and short runs, for the time of a call


def why_none() -> str:
    """Why nothing can be timed here, or ""."""
    return "" if machine.gpu_name() else "timing needs an NVIDIA GPU; there is none here"


def kernels_of(variant: Variant) -> list[str]:
    """What is timed beside each other; the reference where the staff's solution is here."""
    here = [name for name in YARDSTICKS if name != "reference" or lanes.has_reference(variant)]
    return [STUDENT, *here]


def case_of(exercise: Exercise, variant: Variant, seed: int) -> Case:
    """The variant's performance case, the first of several."""
    return fixed_case(exercise, variant, variant.performance.every_case[0], seed)


class Rounds:
    """A kernel that stands by. `prepare` before each round, `finish` after the last."""

    def __init__(self, lane: TimedPairs, fixed: FixedCost | None) -> None:
        """`fixed`: what a trusted worker's request costs; None where this is one."""
        self.calls = min(CALLS, lane.most_calls)
        self._lane = lane
        self._fixed = fixed
        self._ready: Callable[[], Run[torch.Tensor]] | None = None
        self._last: Run[torch.Tensor] | None = None

    def prepare(self) -> None:
        """Judge the round before, and make the next one ready. Raises TimingFailed."""
        self.finish()
        self._ready = self._lane.prepare(self.calls)

    def run(self) -> None:
        """The round: from the request until some of its outputs were read."""
        self._last = self._ready()

    def finish(self) -> None:
        """Judge the last round. Raises TimingFailed where an output of it is wrong."""
        if self._last is not None:
            self._lane.expect_right(self._last)
            self._last = None

    def seconds_per_call(self) -> Interval:
        """What a call takes, from PAIRS pairs of runs. Raises TimingFailed where most are void."""
        found = [self._credited() for _ in range(PAIRS)]
        times = [each for each in found if not isinstance(each, race.Void)]
        if 2 * len(times) < len(found):
            reason = next(each.reason for each in found if isinstance(each, race.Void))
            raise TimingFailed(f"most timed pairs are void: {reason}", Status.not_measured)
        return estimate.interval(times)

    def _credited(self) -> float | race.Void:
        pair = self._lane.pair()
        # A trusted worker's fixed cost is its own.
        return credited(pair, math.inf if self._fixed is None else self._fixed.seconds)


def stand_by(
    session: Session,
    trusted: Sandbox,
    exercise: Exercise,
    variant: Variant,
    kernel: str,
    opened: contextlib.ExitStack,
) -> Rounds:
    """Start one of `kernels_of(variant)` and warm it up; it ends with `opened`.

    The student's runs in the session's sandbox, everything else in `trusted`. Raises TimingFailed
    as the clock does, with `not_measured` where the GPU has too little memory.
    """
    case = case_of(exercise, variant, session.seed)
    if session.device == "cuda":
        torch.cuda.empty_cache()  # or there would be less for buffers, and fewer calls a round

    def yardstick(name: str, until: contextlib.ExitStack) -> TimedPairs:
        moved = lanes.moved_bytes(variant, case)
        lane = lanes.yardstick(trusted, name, exercise, variant, case, moved, until).ready()
        lane.settle()
        return lane

    try:
        if kernel != STUDENT:
            return Rounds(yardstick(YARDSTICKS[kernel], opened), None)
        with contextlib.ExitStack() as before:
            fixed = FixedCost()
            control = yardstick("copy", before)
            for _ in range(PAIRS):
                fixed.add(control.pair())
        sandbox, path = session.stopwatch.file(exercise, variant)
        lane = lanes.candidate(sandbox, exercise, variant, case, path, opened)
        lane.settle()
        return Rounds(lane, fixed)
    except (lanes.TooLittleMemory, ValueError) as error:
        raise TimingFailed(str(error), Status.not_measured) from None


def microseconds(found: Interval) -> dict[str, float]:
    """For a benchmark's extra_info: the median per call and where it may lie."""
    return {
        "microseconds_per_call": round(1e6 * found.median, 3),
        "microseconds_low": round(1e6 * found.low, 3),
        "microseconds_high": round(1e6 * found.high, 3),
    }
