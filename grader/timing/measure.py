"""One variant timed: candidate and baselines side by side until the points are decided.

The baselines are timed in the calm first, before the candidate's worker exists: a baseline that is
slower afterwards was disturbed. In turn, as they are later: what ran before it, at which clock, is
part of a kernel's time. Where that they were disturbed kept a race from a result, the control
disagrees with the grader's clock, or the calm is none, it all begins anew, in fresh workers: that
was noise that may have passed, and if it was the candidate's doing, it comes again.

A load that is there all the time makes no baseline slower than before. So before the calm and after
the last replay a kernel sees whether somebody else has the GPU (contention.py). It can't see
everywhere, so the calm is looked at by itself as well: a load makes the control's times differ, and
slower than this GPU is known to copy.

In every race runs `copy`, asked for or not. It is the control: its calls are short and steady.
Times are the device's own; where the grader's clock says that the candidate's replays took longer
than the device tells, it is timed once more and the grader's clock counts.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from grader.cases import Case, fixed_case
from grader.cases.beside import case_beside
from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu import locks, machine
from grader.gpu.devices import DeviceName
from grader.gpu.roofline import Roofs
from grader.gpu.state import Observed
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.spec.task import Task
from grader.status import Status
from grader.timing import contenders, sequential
from grader.timing.baselines import CONTROL, CONTROL_BYTES, Baselines
from grader.timing.bootstrap import Interval
from grader.timing.contenders import Planned
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.replays import Replays
from grader.timing.watch import Watch
from grader.worker.gpu_mapping import GpuMemoryError

CANDIDATE = "candidate"
ROOFLINE = "roofline"
CALM_PAIRS = 9
TRIES = 3  # while the GPU is too noisy
MOST_APART = 0.03  # a replay's time by the grader's clock and by the device's
TOO_SLOW = 0.5  # of the lowest ratio that has points: slower than that is not timed to a percent
LONG_SECONDS = (
    2.0  # of a call: there is no time for many, and one that misses a target has missed it
)
MOST_SPREAD = 0.1  # standard deviation of the control's times in the calm, as a share
LEAST_COPY = 0.75  # of the measured bandwidth, of the control in the calm


@dataclass
class _Baseline:
    """A lane of our own."""

    name: str
    replays: Replays
    share: float = 1.0  # of a call's time: a control may copy more bytes than the case moves

    def seconds(self) -> float:
        """Seconds of a call that moves what the case moves. Raises TimingFailed."""
        return self.share * self.replays.seconds()


@dataclass
class _Ours:
    """A lane whose failure is no failure of the submission's: nothing was measured then."""

    lane: _Baseline

    @property
    def name(self) -> str:
        return self.lane.name

    def seconds(self) -> float:
        """As the lane's. Raises TimingFailed with `not_measured`."""
        try:
            return self.lane.seconds()
        except TimingFailed as failed:
            raise _not_theirs(self.name, failed) from None


@dataclass
class _Candidate:
    """A submission's lane. By the grader's own clock its times are `longer` by that factor."""

    replays: Replays
    longer: float = 1.0
    name: str = CANDIDATE

    def seconds(self) -> float:
        return self.longer * self.replays.seconds()


def measure(
    candidate: Planned,
    seed: int,
    *,
    trusted: Sandbox,
    reference: Callable[[], Planned] | None = None,
    roofs: Roofs | None = None,
    usual_sm_mhz: float | None = None,
    budget: sequential.Budget | None = None,
) -> PerformanceEvidence:
    """Time a variant on each of its performance cases, against what its thresholds name.

    Where the spec has it so, a case beside the first one is timed as well: see beside.py.

    The baselines run in `trusted`, where no submission may run: its owner closes it; `reference`
    gives the staff's solution. `roofs` are the device's measured ones, for thresholds
    that name `roofline`, and `usual_sm_mhz` the clock it had then. The first case that can't be
    timed ends it. On a GPU it waits for its turn.
    """
    exercise, variant = candidate.task.exercise, candidate.task.variant
    timed: list[PerformanceEvidence] = []
    # Nobody checks or times anything else on this GPU meanwhile.
    with contextlib.ExitStack() as opened:
        opened.enter_context(locks.exclusive_on(candidate.sandbox.device))
        if not trusted.is_started:
            trusted.start()
        every = cases_of(candidate.task, seed)
        baselines = opened.enter_context(
            Baselines(trusted, candidate.sandbox, exercise, variant, every, reference)
        )
        for case in every:
            measurement = _Measurement(
                candidate, baselines, case, roofs=roofs, usual_sm_mhz=usual_sm_mhz, budget=budget
            )
            timed.append(measurement.evidence())
            if timed[-1].status is not Status.passed:
                return timed[-1]
    return replace(timed[0], further=tuple(timed[1:]))


def cases_of(task: Task, seed: int) -> list[Case]:
    """The cases that a variant is timed on: the spec's, and one beside them where it has it so."""
    block = task.variant.performance
    found = [fixed_case(task.exercise, task.variant, given, seed) for given in block.every_case]
    if block.beside and (other := case_beside(task, found[0])):
        found.append(other)
    return found


def trusted_sandbox(device: DeviceName) -> Sandbox:
    """One for the baselines of what runs on `device`. They are Python; not yet started."""
    return Sandbox("cuda" if device == "cuda" else "interpreter", Level.limits)


def measure_case(
    candidate: Planned,
    trusted: Sandbox,
    case: Case,
    *,
    reference: Callable[[], Planned] | None = None,
    also: Collection[str] = (),
    roofs: Roofs | None = None,
    usual_sm_mhz: float | None = None,
    budget: sequential.Budget | None = None,
    held_to_calm: bool = True,
    baselines: Baselines | None = None,
) -> PerformanceEvidence:
    """Time a variant on one case, of any sizes, against what its thresholds name.

    `also` names more baselines (`torch`, `compile`, `reference`) that no threshold asks for: one
    that isn't here is left out, and so is one that fails, as `reason` then says. Where no points
    depend on it, rounds may count in which a baseline was slower than before the candidate was
    there, and that calm may have been none: not `held_to_calm`. `baselines` serve several cases of
    the variant, this one among them; its owner closes them. Else as `measure`.
    """
    task = candidate.task
    with contextlib.ExitStack() as opened:
        if baselines is None:
            what = (trusted, candidate.sandbox, task.exercise, task.variant, [case], reference)
            baselines = opened.enter_context(Baselines(*what))
        return _Measurement(
            candidate,
            baselines,
            case,
            frozenset(also),
            roofs,
            usual_sm_mhz,
            budget,
            held_to_calm,
        ).evidence()


@dataclass
class _Measurement:
    """One case of a variant."""

    candidate: Planned
    baselines: Baselines
    case: Case
    also: frozenset[str] = frozenset()
    roofs: Roofs | None = None
    usual_sm_mhz: float | None = None
    budget: sequential.Budget | None = None
    held_to_calm: bool = True

    def __post_init__(self) -> None:
        self.variant = self.candidate.task.variant
        self._device = self.candidate.sandbox.device
        self._watch = Watch(self._device, self.usual_sm_mhz)
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
            self.baselines.renew()
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
        except (TooLittleMemory, ValueError) as error:
            return replace(base, status=Status.not_measured, reason=str(error))
        except torch.cuda.OutOfMemoryError:  # of this process, which judges the outputs
            reason = "the GPU has too little memory for this size"
            return replace(base, status=Status.not_measured, reason=reason)
        except GpuMemoryError as error:
            reason = f"the GPU's memory can't be shared with a worker: {error}"
            return replace(base, status=Status.not_measured, reason=reason)
        finally:
            if self._device == "cuda":
                torch.cuda.empty_cache()  # or the next case's buffers would find less

    def _timed(
        self, base: PerformanceEvidence, state: Observed | None, opened: contextlib.ExitStack
    ) -> PerformanceEvidence:
        lanes: list[_Baseline] = []
        left_out: list[str] = []
        for name in self._names:
            with self._noted(name, left_out):
                share = self._moved / self.baselines.moved_by(name, self.case)
                lane = _Baseline(name, self.baselines.begin(name, self.case, opened), share)
                lane.replays.settle()
                lanes.append(lane)
        noise = self._watch.taken()
        calm = {} if noise else self._calm(lanes, left_out)
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
        candidate = _Candidate(self.candidate.begin(self.case, opened))
        took = candidate.replays.settle()
        if (slow := self._too_slow(base, took, calm)) is not None:
            return slow
        before = self._watch.look()
        outcome, is_told = self._fairly_raced(candidate, lanes, calm)
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
        [control] = [each for each in lanes if each.name == CONTROL]
        apart = self._apart(control)
        self._was_noise = abs(apart) > MOST_APART
        if self._was_noise:
            reason = (
                f"GPU too noisy: a copy's time and what the device says of it are "
                f"{abs(apart):.1%} apart"
            )
            return _not_measured(base, reason, outcome)
        self._was_noise = outcome.is_disturbed or not is_told
        if not is_told:
            reason = "GPU too noisy: how much longer the kernel took than is told differs"
            return _not_measured(base, reason, outcome)
        return _told(base, outcome)

    def _fairly_raced(
        self, candidate: _Candidate, lanes: Sequence[_Baseline], calm: dict[str, sequential.Calm]
    ) -> tuple[sequential.Outcome, bool]:
        """Race until what counts as the candidate's time is what the grader's clock says, too.

        Of each race anew: a process could tell the truth in one of them only. What a request costs
        here beside its replay is seen of the control, and taken off. With whether it came to that
        in so many races.
        """
        [control] = [each for each in lanes if each.name == CONTROL]
        for _ in range(TRIES):
            candidate.replays.forget()
            outcome = self._raced(candidate, lanes, calm)
            if outcome.seconds is None:
                return outcome, True
            apart = self._apart(candidate) - max(0.0, self._apart(control))
            longer = 1 + apart if apart > MOST_APART else 1.0
            if abs(longer - candidate.longer) <= MOST_APART:
                return outcome, True
            candidate.longer = longer
        return outcome, False

    def _raced(
        self, candidate: _Candidate, lanes: Sequence[_Baseline], calm: dict[str, sequential.Calm]
    ) -> sequential.Outcome:
        return sequential.run(
            candidate,
            [*map(_Ours, lanes), *self._constants],
            self._lines,
            time.monotonic,
            budget=self.budget,
            calm=calm if self.held_to_calm else None,
        )

    def _apart(self, lane: _Candidate | _Baseline) -> float:
        """By how much a lane's replays took longer by the grader's clock than by the device's."""
        if self._device != "cuda":
            return 0.0  # both clocks are the processor's there
        return lane.replays.apart

    def _too_slow(
        self, base: PerformanceEvidence, took: float, calm: dict[str, sequential.Calm]
    ) -> PerformanceEvidence | None:
        """What is said of a kernel that has missed every threshold, and by far; else None.

        To time it to a percent would take its baselines' time many times over, and change nothing.
        """
        known = {name: each.seconds for name, each in calm.items()}
        known |= {each.name: each.value for each in self._constants}
        share = TOO_SLOW if took < LONG_SECONDS else 1 - MOST_APART
        lines = {name: lines for name, lines in self._lines.items() if name in known}
        if not lines or not all(
            known[name] / took < share * min(wanted) for name, wanted in lines.items()
        ):
            return None
        compared = tuple(
            Baseline(name, _microseconds(seconds), round(seconds / took, 4))
            for name, seconds in known.items()
        )
        return replace(base, samples=1, microseconds=_microseconds(took), baselines=compared)

    def _calm(self, lanes: list[_Baseline], left_out: list[str]) -> dict[str, sequential.Calm]:
        """How long a call of each takes before the candidate exists; who fails is taken out."""
        times: dict[str, list[float]] = {each.name: [] for each in lanes}
        for done in range(CALM_PAIRS):
            for each in [*lanes]:
                with self._noted(each.name, left_out):
                    times[each.name].append(each.seconds())
                if len(times[each.name]) == done:
                    lanes.remove(each)
        return {each.name: sequential.Calm.of(times[each.name]) for each in lanes}

    def _load_before(self, control: sequential.Calm) -> str:
        """How the control's times show that there is a load already, or ""."""
        if control.seconds <= 0:  # not a time: in the race, each such round is void
            return ""
        spread = control.spread / control.seconds
        if spread > MOST_SPREAD:
            return f"a copy's times differed by {spread:.0%} from each other"
        # As long as the bandwidth asks for.
        is_long = self.baselines.moved_by(CONTROL, self.case) >= CONTROL_BYTES // 2
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
        """A baseline that no threshold asks for may fail: it is left out, and that is noted."""
        try:
            yield
        except (TimingFailed, TooLittleMemory) as error:
            if name in self.baselines.needed | {CONTROL}:
                raise _not_theirs(name, error) from None
            left_out.append(f"{name} is left out: {error}.")

    # --- what is asked ----------------------------------------------------------------------------

    @property
    def _moved(self) -> int:
        return contenders.moved_bytes(self.variant, self.case)

    @property
    def _computed(self) -> float | None:
        return contenders.computed_flops(self.variant, self.case)

    @property
    def _names(self) -> list[str]:
        """The baselines that have a worker: those needed or asked for."""
        known = {CONTROL, "torch", "compile"}
        if self.baselines.has_reference:
            known.add("reference")
        return sorted((self.baselines.needed | self.also | {CONTROL}) & known)

    @property
    def _constants(self) -> list[sequential.Constant]:
        """What takes the same time always: the roof, and limits in milliseconds."""
        steps = self.variant.performance.steps
        found = [
            sequential.Constant(
                f"{each.milliseconds.at_most:g} ms", each.milliseconds.at_most / 1000
            )
            for each in steps
            if each.milliseconds is not None
        ]
        roof = self._roof_seconds
        if roof is not None and any(each.speed_vs == ROOFLINE for each in steps):
            found.append(sequential.Constant(ROOFLINE, roof))
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


def _not_theirs(name: str, error: Exception) -> TimingFailed:
    """What ends a measurement for which a baseline was needed that fails."""
    return TimingFailed(f"{name} can't be timed: {error}", Status.not_measured)


def _not_measured(
    base: PerformanceEvidence, reason: str, outcome: sequential.Outcome
) -> PerformanceEvidence:
    status = Status.not_measured
    return replace(
        base, status=status, reason=reason, voids=dict(outcome.voids), disturbed=outcome.disturbed
    )


def _told(base: PerformanceEvidence, outcome: sequential.Outcome) -> PerformanceEvidence:
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
        baselines=tuple(
            _compared(each.name, each.seconds, each.ratio)
            for each in outcome.baselines
            if math.isfinite(each.seconds)
        ),
    )


def _compared(name: str, seconds: float, ratio: Interval) -> Baseline:
    return Baseline(
        name,
        _microseconds(seconds),
        round(ratio.median, 4),
        round(ratio.low, 4),
        round(ratio.high, 4),
    )


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
