"""The clock of `grader grade`: it stands in the grader's process, outside the submission's.

The simpler of two; timing/ is to take its place. The time per call is a slope, (t(n) - t(n/4)) /
(3n/4) for requests of n and of n/4 calls, so that what a request costs once (the way there and
back, the last synchronisation) cancels. Candidate and yardstick are timed in turn, in workers of
their own, and compared pair by pair; what counts is the median of the ratios. The work is done in
copies of the arguments that together exceed the L2 cache by far. The worker is still believed when
it says that the device has finished.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from grader import estimate, machine, oracle, race
from grader import inputs as inputs_of_case
from grader.arena import Arena, Placed, Slot, required_bytes
from grader.cases import Case, fixed_case
from grader.compare import Verdict, judge
from grader.confinement import Level
from grader.evidence import PerformanceEvidence, Yardstick
from grader.inputs import Inputs, blank_argument
from grader.runner import YARDSTICKS
from grader.sandbox import Sandbox
from grader.spec import ITEMSIZE, Exercise, Scalar, Tensor, Variant
from grader.status import Status
from grader.supervision import Limits, Worker
from grader.timing.worker import TimingFailed, expect_ok
from grader.worker.protocol import Operation

PAIRS = 21
COPIES = 3  # of all arguments on the device, used in turn
TARGET_SECONDS = 0.02  # of a long request: long against its overhead, short against drift
LIMITS = Limits(cpu_seconds=120.0, memory_bytes=16 << 30)


@dataclass
class _Racer:
    """A worker with its arguments on the device."""

    worker: Worker
    placed: list[Placed]
    calls: int = 4

    def seconds(self, calls: int) -> float:
        """Wall seconds of one request for so many calls."""
        started = time.perf_counter()
        answer = self.worker.ask(Operation.time, repeat=calls)
        elapsed = time.perf_counter() - started
        expect_ok(answer)
        return elapsed

    def settle(self) -> None:
        """Warm up, and choose how many calls a long request has."""
        self.seconds(2 * COPIES)
        estimate = max(self.seconds(8) / 8, 1e-6)
        self.calls = 4 * max(1, min(1000, math.ceil(TARGET_SECONDS / estimate / 4)))

    def slope(self) -> float:
        """Seconds per call, once."""
        short = self.seconds(self.calls // 4)
        return (self.seconds(self.calls) - short) / (self.calls - self.calls // 4)


def measure(
    sandbox: Sandbox, exercise: Exercise, variant: Variant, path: Path, seed: int
) -> PerformanceEvidence:
    """Time a variant on each performance case, against the yardsticks its thresholds name.

    The results of the timed cases are judged too; the first case that can't be timed ends it.
    Needs a sandbox whose device is `cuda`. The yardsticks run in another, where no submission can
    disturb them.
    """
    timed: list[PerformanceEvidence] = []
    for given in variant.performance.every_case:
        case = fixed_case(exercise, variant, given, seed)
        seen = _measure_case(sandbox, exercise, variant, path, case)
        if seen.status is not Status.passed:
            return seen
        timed.append(seen)
    return replace(timed[0], further=tuple(timed[1:]))


def _measure_case(
    sandbox: Sandbox, exercise: Exercise, variant: Variant, path: Path, case: Case
) -> PerformanceEvidence:
    spec = variant.performance
    made = inputs_of_case.make(exercise, variant, case)
    sizes = dict(case.sizes) | {"itemsize": ITEMSIZE[case.dtype]}
    moved = int(spec.bytes.evaluate(sizes))
    names = sorted({t.speed_vs for t in spec.thresholds if t.speed_vs} & {"torch", "copy"})
    base = PerformanceEvidence(
        Status.passed,
        device=machine.gpu_name() or "",
        case=str(case),
        bytes=moved,
        flops=float(spec.flops.evaluate(sizes)) if spec.flops is not None else None,
    )
    with contextlib.ExitStack() as opened:
        arena = opened.enter_context(Arena(*_capacities(made)))
        try:
            candidate = _racer(sandbox, path, variant.entry, arena, made, opened)
            verdict = _judged(candidate, exercise, variant, arena, made)
            if not verdict.passed:
                return _with(base, verdict.status, f"on the timed case: {verdict.what}")
            trusted = opened.enter_context(Sandbox(sandbox.device, Level.limits))
            trusted.start()
            racers = {
                name: _yardstick(trusted, name, exercise, variant, made, moved, opened)
                for name in names
            }
            return _race(base, candidate, racers)
        except TimingFailed as failed:
            return _with(base, failed.status, str(failed))


def _race(
    base: PerformanceEvidence, candidate: _Racer, racers: dict[str, _Racer]
) -> PerformanceEvidence:
    for racer in (candidate, *racers.values()):
        racer.settle()
    own: list[float] = []
    others: dict[str, list[float]] = {name: [] for name in racers}
    for _ in range(PAIRS):
        own.append(candidate.slope())
        for name, racer in racers.items():
            others[name].append(racer.slope())
    if statistics.median(own) <= 0:
        return _with(base, Status.not_measured, "the kernel is too short for this clock")
    took = _interval(own)
    return replace(
        base,
        microseconds=round(took.median * 1e6, 3),
        microseconds_low=round(took.low * 1e6, 3),
        microseconds_high=round(took.high * 1e6, 3),
        samples=PAIRS,
        yardsticks=tuple(_compared(name, own, times) for name, times in others.items()),
    )


def _compared(name: str, own: Sequence[float], other: Sequence[float]) -> Yardstick:
    ratio = _interval([theirs / ours for ours, theirs in zip(own, other, strict=True) if ours > 0])
    return Yardstick(
        name,
        round(statistics.median(other) * 1e6, 3),
        round(ratio.median, 4),
        round(ratio.low, 4),
        round(ratio.high, 4),
    )


def _interval(values: Sequence[float]) -> estimate.Interval:
    return estimate.interval(values, race.CONFIDENCE).at_least_as_wide(race.REPEATS)


# --- workers -----------------------------------------------------------------------------------


def _yardstick(
    sandbox: Sandbox,
    name: str,
    exercise: Exercise,
    variant: Variant,
    made: Inputs,
    moved: int,
    opened: contextlib.ExitStack,
) -> _Racer:
    if name == "torch":
        source = _torch_yardstick(exercise, variant)
        path = sandbox.hold(f"yardstick_{exercise.name}.py", source.encode())
        arena = opened.enter_context(Arena(*_capacities(made)))
        return _racer(sandbox, path, "yardstick", arena, made, opened)
    half = (moved // 2,)
    slots = (
        Slot("source", "uint8", half, (1,), values=torch.zeros(half, dtype=torch.uint8).random_()),
        Slot("destination", "uint8", half, (1,), role="output"),
    )
    copied = Inputs(slots, {}, {})
    arena = opened.enter_context(Arena(*_capacities(copied)))
    return _racer(sandbox, YARDSTICKS, "copy", arena, copied, opened)


def _racer(sandbox, path: Path, entry: str, arena: Arena, made: Inputs, opened) -> _Racer:
    worker = sandbox.worker(path, entry, arena.buffers, LIMITS)
    opened.callback(worker.close)
    expect_ok(worker.ask(Operation.load, [blank_argument()] * len(made.order)))
    placed = arena.place(made.slots)
    arguments = made.arguments([item.argument for item in placed])
    expect_ok(worker.ask(Operation.prepare, arguments, repeat=COPIES))
    return _Racer(worker, placed)


def _judged(candidate: _Racer, exercise, variant, arena: Arena, made: Inputs) -> Verdict:
    """The verdict on what the timed case computed, taken before the race."""
    candidate.seconds(COPIES)
    expect_ok(candidate.worker.ask(Operation.collect, repeat=0))
    tolerance = exercise.tolerance_of(variant)
    threads = torch.get_num_threads()
    torch.set_num_threads(8)  # here the tensors are large
    try:
        truths = oracle.load(exercise.oracle).truths(
            made.tensors, made.scalars, tolerance.magnitude
        )
        return judge(arena.collect(candidate.placed), truths, tolerance)
    finally:
        torch.set_num_threads(threads)


def _capacities(made: Inputs) -> tuple[int, int]:
    return (
        required_bytes([slot for slot in made.slots if slot.role == "input"]),
        required_bytes([slot for slot in made.slots if slot.role != "input"]),
    )


def _torch_yardstick(exercise: Exercise, variant: Variant) -> str:
    """A file whose entry takes the variant's arguments and calls torch's own operator."""
    arguments = exercise.signature(variant)
    parameters = ", ".join(argument.name for argument in arguments)
    passed = ", ".join(
        f"{argument.name}={argument.name}"
        for argument in arguments
        if isinstance(argument, Scalar) or (isinstance(argument, Tensor) and argument.is_input)
    )
    return (
        "import importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('oracles', {str(oracle.ORACLES)!r})\n"
        "oracles = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(oracles)\n"
        f"own = getattr(oracles, '{exercise.oracle}_torch', oracles.{exercise.oracle})\n"
        f"def yardstick({parameters}):\n"
        f"    own({passed})\n"
    )


def _with(base: PerformanceEvidence, status: Status, reason: str) -> PerformanceEvidence:
    return replace(base, status=status, reason=reason)
