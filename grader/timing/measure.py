"""One variant timed: candidate and yardsticks side by side until the points are decided.

The yardsticks are timed in the calm first, before the candidate's worker exists: what they pay for
a request is the measure of a fixed cost, and a yardstick that is slower afterwards was disturbed.
In turn, as they are later: what ran before it, at which clock, is part of a kernel's time. Where
that they were disturbed kept a race from a result, the control disagrees with the device, or the
calm is none, it all begins anew, in fresh workers: that was noise that may have passed, and if it
was the candidate's doing, it comes again.

A load that is there all the time makes no yardstick slower than before. So before the calm and
after the last pair a kernel sees whether somebody else has the GPU (onlooker.py); not between
pairs, which it would disturb. It can't see everywhere, so the calm is looked at by itself as well:
a load makes the control's times differ, as the GPU goes from one process to the other, and slower
than this GPU is known to copy. Nobody else's process has to be visible for either, as none is in
most containers.

In every race runs `copy`, asked for or not. It is the control: its calls are short and steady, and
its time by the device's own clock says whether this one can be believed.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from grader import gpu_turns, machine, race
from grader.allowed_paths import DeviceName
from grader.cases import Case, fixed_case
from grader.confinement import Level
from grader.estimate import Interval
from grader.evidence import PerformanceEvidence, Yardstick
from grader.gpu_state import Observed
from grader.roofline import Roofs
from grader.sandbox import Sandbox
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.timing import kernels, lanes
from grader.timing.pairs import FixedCost, Pair, TimedPairs, credited, seconds_per_call
from grader.timing.watch import Watch
from grader.timing.worker import TimingFailed
from grader.timing.yardsticks import CONTROL, CONTROL_BYTES, Yardsticks
from grader.worker.gpu_mapping import GpuMemoryError

CANDIDATE = "candidate"
ROOFLINE = "roofline"
CALM_PAIRS = 9
TRIES = 3  # while the GPU is too noisy
MOST_APART = 0.03  # the control's time by this clock and by the device's
MOST_SPREAD = 0.1  # standard deviation of the control's times in the calm, as a share
LEAST_COPY = 0.75  # of the measured bandwidth, of the control in the calm


@dataclass
class _Yardstick:
    """A trusted lane: its fixed cost is everybody's measure."""

    name: str
    pairs: TimedPairs
    fixed: FixedCost
    share: float = 1.0  # of a call's time: a control may copy more bytes than the case moves
    seen: list[Pair] = field(default_factory=list)

    def seconds(self) -> float:
        """By the same rule as a candidate's, or noise would make one of them look slower."""
        pair = self.pairs.pair()
        self.seen.append(pair)
        self.fixed.add(pair)
        return self.share * seconds_per_call(pair, self.fixed.seconds)

    @property
    def apart(self) -> float:
        """How far this clock and the device's own are apart, as a share."""
        ratios = [pair.slope * pair.long_calls / pair.inside_seconds for pair in self.seen]
        return abs(statistics.median(ratios) - 1)


@dataclass
class _Candidate:
    """A stranger's lane: what its pairs are worth, by the trusted fixed cost."""

    pairs: TimedPairs
    fixed: FixedCost
    name: str = CANDIDATE

    def seconds(self) -> float | race.Void:
        return credited(self.pairs.pair(), self.fixed.seconds)


def measure(
    sandbox: Sandbox,
    exercise: Exercise,
    variant: Variant,
    path: Path,
    seed: int,
    *,
    roofs: Roofs | None = None,
    usual_sm_mhz: float | None = None,
    budget: race.Budget | None = None,
    profile: bool = False,
    trusted: Sandbox | None = None,
) -> PerformanceEvidence:
    """Time a variant on each of its performance cases, against what its thresholds name.

    The submission runs in `sandbox`; `path` is its file, or of CUDA C++ the program made of it, in
    a sandbox that is native. The yardsticks run in `trusted`, where no submission may run: its
    owner closes it; or in one made for them, where none is given. `roofs` are the device's measured
    ones, for thresholds that name `roofline`, and `usual_sm_mhz` the clock it had then. With
    `profile` the kernels that ran are listed too, and a library's under a submission that was to
    bring its own is a `policy_violation`. The first case that can't be timed ends it. On a GPU it
    waits for its turn.
    """
    timed: list[PerformanceEvidence] = []
    # Nobody checks or times anything else on this GPU meanwhile.
    with contextlib.ExitStack() as opened:
        opened.enter_context(gpu_turns.alone_on(sandbox.device))
        if trusted is None:
            trusted = opened.enter_context(trusted_sandbox(sandbox.device))
        elif not trusted.is_started:
            trusted.start()
        cases = [
            fixed_case(exercise, variant, given, seed) for given in variant.performance.every_case
        ]
        yardsticks = opened.enter_context(Yardsticks(trusted, exercise, variant, cases))
        for case in cases:
            measurement = _Measurement(
                sandbox,
                yardsticks,
                exercise,
                variant,
                path,
                case,
                roofs=roofs,
                usual_sm_mhz=usual_sm_mhz,
                budget=budget,
                profile=profile,
            )
            timed.append(measurement.evidence())
            if timed[-1].status is not Status.passed:
                return timed[-1]
    return replace(timed[0], further=tuple(timed[1:]))


def trusted_sandbox(device: DeviceName) -> Sandbox:
    """One for the yardsticks of what runs on `device`. They are Python; not yet started."""
    return Sandbox("cuda" if device == "cuda" else "interpreter", Level.limits)


def measure_case(
    sandbox: Sandbox,
    trusted: Sandbox,
    exercise: Exercise,
    variant: Variant,
    path: Path,
    case: Case,
    *,
    also: Collection[str] = (),
    roofs: Roofs | None = None,
    usual_sm_mhz: float | None = None,
    budget: race.Budget | None = None,
    profile: bool = False,
    held_to_calm: bool = True,
) -> PerformanceEvidence:
    """Time a variant on one case, of any sizes, against what its thresholds name.

    The yardsticks run in `trusted`, where no submission may run. `also` names more of them
    (`torch`, `compile`, `reference`) that no threshold asks for: one that isn't here is left out,
    and so is one that fails, as `reason` then says. Where no points depend on it, rounds may count
    in which a yardstick was slower than before the candidate was there, and that calm may have been
    none: not `held_to_calm`.
    """
    with Yardsticks(trusted, exercise, variant, [case]) as yardsticks:
        return _Measurement(
            sandbox,
            yardsticks,
            exercise,
            variant,
            path,
            case,
            frozenset(also),
            roofs,
            usual_sm_mhz,
            budget,
            profile,
            held_to_calm,
        ).evidence()


@dataclass
class _Measurement:
    """One case of a variant."""

    sandbox: Sandbox
    yardsticks: Yardsticks
    exercise: Exercise
    variant: Variant
    path: Path
    case: Case
    also: frozenset[str] = frozenset()
    roofs: Roofs | None = None
    usual_sm_mhz: float | None = None
    budget: race.Budget | None = None
    profile: bool = False
    held_to_calm: bool = True

    def __post_init__(self) -> None:
        self._watch = Watch(self.sandbox.device, self.usual_sm_mhz)
        self._was_noise = False  # what kept the last try from a result, and may have passed

    def evidence(self) -> PerformanceEvidence:
        base = PerformanceEvidence(
            Status.passed,
            device=machine.gpu_name() or "",
            case=str(self.case),
            bytes=self._moved,
            flops=self._computed,
        )
        state = self._watch.look()
        if found := self._watch.setting(state):  # workers could not even start
            reason, told = " ".join(found), state.as_dict()
            return replace(base, status=Status.not_measured, reason=reason, machine=told)
        earlier: list[str] = []
        while True:
            seen = replace(self._tried(base, state), earlier=tuple(earlier))
            if not self._was_noise:
                return seen
            if len(earlier) == TRIES - 1:
                return replace(seen, reason=f"{seen.reason} (the last of {TRIES} tries)")
            self.yardsticks.renew()
            earlier.append("; ".join(filter(None, (seen.reason, seen.disturbed))))
            state = self._watch.look()

    def _tried(self, base: PerformanceEvidence, state: Observed | None) -> PerformanceEvidence:
        """One measurement from the start; the candidate's worker is a new one."""
        self._was_noise = False
        try:
            with contextlib.ExitStack() as opened:
                return self._timed(base, state, opened)
        except TimingFailed as failed:
            return replace(base, status=failed.status, reason=str(failed))
        except (lanes.TooLittleMemory, ValueError) as error:
            return replace(base, status=Status.not_measured, reason=str(error))
        except torch.cuda.OutOfMemoryError:  # of this process, which judges the outputs
            reason = "the GPU has too little memory for this size"
            return replace(base, status=Status.not_measured, reason=reason)
        except GpuMemoryError as error:
            reason = f"the GPU's memory can't be shared with a worker: {error}"
            return replace(base, status=Status.not_measured, reason=reason)
        finally:
            if self.sandbox.device == "cuda":
                torch.cuda.empty_cache()  # or the next case's buffers would find less

    def _timed(
        self, base: PerformanceEvidence, state: Observed | None, opened: contextlib.ExitStack
    ) -> PerformanceEvidence:
        fixed = FixedCost()
        starting: dict[str, lanes.Starting] = {}
        yardsticks: list[_Yardstick] = []
        left_out: list[str] = []
        for name in self._names:
            with self._noted(name, left_out):
                starting[name] = self.yardsticks.begin(name, self.case, opened)
        for name, each in starting.items():
            with self._noted(name, left_out):
                share = self._moved / self.yardsticks.moved_by(name, self.case)
                yardstick = _Yardstick(name, each.ready(), fixed, share)
                yardstick.pairs.settle()
                yardsticks.append(yardstick)
        noise = self._watch.taken()
        calm = {} if noise else self._calm(yardsticks, left_out)
        base = replace(base, reason=" ".join(left_out))
        if found := self._watch.others(self._watch.look(state)):
            reason = f"GPU too noisy. {' '.join(found)}"
            return replace(base, status=Status.not_measured, reason=reason)
        if not noise and self.held_to_calm:
            noise = self._load_before(calm[CONTROL])
        if noise:
            self._was_noise = True
            reason = f"GPU too noisy: before the kernel was there, {noise}"
            told = self._watch.seen(state)
            return replace(base, status=Status.not_measured, reason=reason, machine=told)
        candidate = _Candidate(
            lanes.candidate(
                self.sandbox, self.exercise, self.variant, self.case, self.path, opened
            ),
            fixed,
        )
        candidate.pairs.settle()
        before = self._watch.look()
        outcome = race.run(
            candidate,
            [*yardsticks, *self._constants],
            self._lines,
            time.monotonic,
            budget=self.budget,
            calm=calm if self.held_to_calm else None,
        )
        after = self._watch.look(before)
        taken = self._watch.taken()
        base = replace(base, machine=self._watch.seen(after))
        if found := self._watch.troubles(before, after):
            reason = f"GPU too noisy. {' '.join(found)}"
            return _not_measured(base, reason, outcome)
        if taken:
            self._was_noise = True
            # Its worker may have left something running, which is for a person to see.
            reason = f"GPU too noisy: after the last pair {taken}, or the kernel's worker itself"
            return _not_measured(base, reason, outcome)
        [control] = [each for each in yardsticks if each.name == CONTROL]
        self._was_noise = control.apart > MOST_APART
        if self._was_noise:
            reason = (
                f"GPU too noisy: a copy's time and what the device says of it are "
                f"{control.apart:.1%} apart"
            )
            return _not_measured(base, reason, outcome)
        told = _told(base, outcome)
        if self.profile:
            told = self._with_kernels(told, candidate)
        self._was_noise = outcome.is_disturbed
        return told

    def _calm(self, yardsticks: list[_Yardstick], left_out: list[str]) -> dict[str, race.Calm]:
        """How long a call of each takes before the candidate exists; who fails is taken out."""
        times: dict[str, list[float]] = {each.name: [] for each in yardsticks}
        for done in range(CALM_PAIRS):
            for each in [*yardsticks]:
                with self._noted(each.name, left_out):
                    times[each.name].append(each.seconds())
                if len(times[each.name]) == done:
                    yardsticks.remove(each)
        return {each.name: race.Calm.of(times[each.name]) for each in yardsticks}

    def _load_before(self, control: race.Calm) -> str:
        """How the control's times show that there is a load already, or ""."""
        if control.seconds <= 0:  # not a time: in the race, each such round is void
            return ""
        spread = control.spread / control.seconds
        if spread > MOST_SPREAD:
            return f"a copy's times differed by {spread:.0%} from each other"
        # As long as the bandwidth asks for.
        is_long = self.yardsticks.moved_by(CONTROL, self.case) >= CONTROL_BYTES // 2
        if self.roofs is not None and self.roofs.is_measured and is_long:
            share = self._moved / control.seconds / self.roofs.bandwidth
            if share < LEAST_COPY:
                return (
                    f"a copy reached {share:.0%} of the bandwidth that was measured on this GPU "
                    "(if it always does: grader doctor --gpu --again)"
                )
        return ""

    @contextlib.contextmanager
    def _noted(self, name: str, left_out: list[str]) -> Iterator[None]:
        """A yardstick that no threshold asks for may fail: it is left out, and that is noted."""
        try:
            yield
        except (TimingFailed, lanes.TooLittleMemory) as error:
            if name in self.yardsticks.needed | {CONTROL}:
                raise
            left_out.append(f"{name} is left out: {error}.")

    def _with_kernels(
        self, told: PerformanceEvidence, candidate: _Candidate
    ) -> PerformanceEvidence:
        """The evidence with what ran. Raises TimingFailed where a library did the work."""
        answer = candidate.pairs.profiled()
        seen = kernels.listed(answer, self.exercise, self.variant, self.path)
        return replace(told, kernels=seen.names, unlisted=seen.unlisted)

    # --- what is asked ----------------------------------------------------------------------------

    @property
    def _moved(self) -> int:
        return lanes.moved_bytes(self.variant, self.case)

    @property
    def _computed(self) -> float | None:
        return lanes.computed_flops(self.variant, self.case)

    @property
    def _names(self) -> list[str]:
        """The yardsticks that have a worker: those needed or asked for."""
        known = {CONTROL, "torch", "compile"}
        if lanes.has_reference(self.variant):
            known.add("reference")
        return sorted((self.yardsticks.needed | self.also | {CONTROL}) & known)

    @property
    def _constants(self) -> list[race.Constant]:
        """What takes the same time always: the roof, and limits in milliseconds."""
        steps = self.variant.performance.steps
        found = [
            race.Constant(f"{each.milliseconds.at_most:g} ms", each.milliseconds.at_most / 1000)
            for each in steps
            if each.milliseconds is not None
        ]
        roof = self._roof_seconds
        if roof is not None and any(each.speed_vs == ROOFLINE for each in steps):
            found.append(race.Constant(ROOFLINE, roof))
        return found

    @property
    def _roof_seconds(self) -> float | None:
        """What the case would take at the measured roofs; None where they aren't known."""
        if self.roofs is None:
            return None
        seconds = self._moved / self.roofs.bandwidth
        if self._computed:
            rate = self.roofs.flops.get(self.case.dtype)
            if rate is None:
                return None
            seconds = max(seconds, self._computed / rate)
        return seconds

    @property
    def _lines(self) -> dict[str, list[float]]:
        """The ratios at which points change, by lane."""
        lines = {each.name: [1.0] for each in self._constants if each.name != ROOFLINE}
        lanes_here = {*self._names, *(each.name for each in self._constants)}
        for each in self.variant.performance.steps:
            if each.speed_vs in lanes_here and each.at_least is not None:
                lines.setdefault(each.speed_vs, []).append(each.at_least)
        return lines


def _not_measured(
    base: PerformanceEvidence, reason: str, outcome: race.Outcome
) -> PerformanceEvidence:
    status = Status.not_measured
    return replace(
        base, status=status, reason=reason, voids=dict(outcome.voids), disturbed=outcome.disturbed
    )


def _told(base: PerformanceEvidence, outcome: race.Outcome) -> PerformanceEvidence:
    seen = replace(
        base,
        samples=outcome.pairs,
        voids=dict(outcome.voids),
        budget_ended=outcome.budget_ended,
        disturbed=outcome.disturbed,
    )
    if outcome.seconds is None:
        return replace(seen, status=Status.not_measured, reason=outcome.reason)
    took = outcome.seconds
    return replace(
        seen,
        microseconds=_microseconds(took.median),
        microseconds_low=_microseconds(took.low),
        microseconds_high=_microseconds(took.high),
        yardsticks=tuple(
            _compared(each.name, each.seconds, each.ratio)
            for each in outcome.yardsticks
            if math.isfinite(each.seconds)
        ),
    )


def _compared(name: str, seconds: float, ratio: Interval) -> Yardstick:
    return Yardstick(
        name,
        _microseconds(seconds),
        round(ratio.median, 4),
        round(ratio.low, 4),
        round(ratio.high, 4),
    )


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
