"""One attempt to time a case: idle baselines, then baselines and candidate in turn, then a verdict.

The control is `copy`, whose calls are short and steady. Every attempt times it, whether a threshold
names it or not. Times are the device's own. If the candidate's replays took longer by the grader's
clock than by the device's, the candidate is timed again and the grader's clock counts.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu import locks
from grader.gpu.roofline import Roofs
from grader.status import Status
from grader.timing import sequential
from grader.timing.baselines import CONTROL, CONTROL_BYTES, REFERENCE
from grader.timing.bootstrap import Interval
from grader.timing.contenders import Planned
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.graph_replays import Replays
from grader.timing.sequential import IdleBaseline
from grader.timing.targets import Targets
from grader.timing.watch import Watch

CANDIDATE = "candidate"
IDLE_PAIRS = 9  # 1 where no points depend on the times
MOST_TESTS = 3  # until both clocks agree about the candidate
MOST_APART = 0.03  # between a replay's times by the two clocks, as a share
TOO_SLOW = 0.5  # of the lowest ratio that has points; a slower kernel gets one rough time
# Seconds per call: a kernel this slow is timed once, and any missed target is missed.
LONG_SECONDS = 2.0
MOST_SPREAD = 0.1  # standard deviation of the idle control's times, as a share
CLOCKS_DIFFER = "the device's clock and the grader's differ about it, by a varying share"
LEAST_COPY = 0.75  # bandwidth of the idle control, as a share of the measured roof


@dataclass(frozen=True)
class Options:
    """How a case is timed, beyond what the thresholds of its variant name.

    `also` names baselines (`torch`, `compile`, `reference`) that no threshold asks for. One that
    isn't available or fails is left out, and the evidence's `reason` says so. `roofs` are the
    device's measured roofs, which `roofline` thresholds need; `usual_sm_mhz` is the clock they were
    measured at. `held_to_idle` is False where no points depend on the times: rounds with a slowed
    baseline count then, and the control's idle times aren't checked for a load. `waiting` is called
    before an attempt waits for its turn on the GPU.
    """

    also: Collection[str] = ()
    roofs: Roofs | None = None
    usual_sm_mhz: float | None = None
    budget: sequential.Budget | None = None
    held_to_idle: bool = True
    waiting: Callable[[], None] = lambda: None


AS_GRADED = Options()


@dataclass(frozen=True)
class Result:
    """Evidence of one attempt."""

    evidence: PerformanceEvidence
    is_noise: bool = False  # another attempt may succeed


@dataclass
class _Baseline:
    """A baseline's replays, scaled to the bytes that the case moves."""

    name: str
    replays: Replays
    share: float = 1.0  # of a call's time: the control may copy more bytes than the case moves

    def seconds(self) -> float:
        """Raises TimingFailed."""
        return self.share * self.replays.seconds()


@dataclass
class _Required:
    """A baseline as a contender. Its failure is not the submission's: nothing was measured."""

    baseline: _Baseline

    @property
    def name(self) -> str:
        return self.baseline.name

    def seconds(self) -> float:
        """Seconds per call. Raises TimingFailed with `not_measured`."""
        try:
            return self.baseline.seconds()
        except TimingFailed as failed:
            raise _baseline_failed(self.name, failed) from None


@dataclass
class _Candidate:
    """The submission's kernel. Its times are multiplied by `longer`, from the grader's clock.

    `longer` is from medians, which don't show that fewer than half of the replays are forged.
    Forged times would widen the interval, whose better end counts. So no replay counts with less
    than its time by the grader's clock, less `allowed`.
    """

    replays: Replays
    longer: float = 1.0
    allowed: float = math.inf  # between a replay's times by the two clocks, as a share
    name: str = CANDIDATE

    def seconds(self) -> float:
        reported = self.longer * self.replays.seconds()
        return max(reported, self.replays.least_seconds / (1 + self.allowed))


class Attempt:
    """A case timed from the start, in workers that end with `opened`."""

    def __init__(
        self,
        candidate: Planned,
        targets: Targets,
        options: Options,
        watch: Watch,
        opened: contextlib.ExitStack,
    ) -> None:
        self._candidate, self._targets, self._options = candidate, targets, options
        self._watch, self._opened = watch, opened
        self._baselines: list[_Baseline] = []
        self._idle: dict[str, IdleBaseline] = {}
        self._left_out: list[str] = []

    def run(self, evidence: PerformanceEvidence, turn: contextlib.ExitStack) -> Result:
        """Add the measurement to the evidence, under an exclusive lock that ends with `turn`.

        Raises TimingFailed, TooLittleMemory, and ValueError where an argument can't be timed.
        """
        case, device = self._targets.case, self._candidate.sandbox.device
        with locks.next_on(device):
            with locks.shared_on(device):
                executor = self._candidate.executor(case, self._opened)
                self._targets.baselines.expect(self._targets.names)
                self._start_baselines([n for n in self._targets.names if n != REFERENCE])
                for each in self._baselines:
                    each.replays.begin()  # a first call may compile for long
                executor.wait()  # it is idle while baselines are timed, without the case's plan
            turn.enter_context(locks.exclusive_on(device, self._options.waiting))
        state = self._watch.probe()
        self._start_baselines([n for n in self._targets.names if n == REFERENCE])  # it is tuned
        self._settle_baselines()
        noise = self._watch.load_of_others()
        if not noise:
            self._time_idle()
        evidence = replace(evidence, reason=" ".join(self._left_out))
        if others := self._watch.others_at_work(self._watch.probe(state)):
            return Result(_not_measured(evidence, f"GPU too noisy. {' '.join(others)}"))
        if not noise and self._options.held_to_idle:
            noise = self._load_when_idle(self._idle[CONTROL])
        if noise:
            evidence = replace(evidence, machine=self._watch.as_evidence(state))
            reason = f"GPU too noisy: before the kernel was there, {noise}"
            return Result(_not_measured(evidence, reason), is_noise=True)
        candidate = _Candidate(self._candidate.begin(case, self._opened, executor=executor))
        took = candidate.replays.settle()
        if (slow := self._too_slow(evidence, took)) is not None:
            return Result(slow)
        before = self._watch.probe()
        outcome, clocks_agree = self._tested(candidate)
        after = self._watch.probe(before)
        load = self._watch.load_of_others()
        evidence = replace(evidence, machine=self._watch.as_evidence(after))
        if troubles := self._watch.troubles(before, after):
            return Result(_not_measured(evidence, f"GPU too noisy. {' '.join(troubles)}", outcome))
        if noise := self._noise_after(load, clocks_agree):
            noise = f"GPU too noisy: {noise}"
            return Result(_not_measured(evidence, noise, outcome), is_noise=True)
        return Result(_with_outcome(evidence, outcome), outcome.is_disturbed)

    # --- baselines --------------------------------------------------------------------------------

    @property
    def _control(self) -> _Baseline:
        return next(each for each in self._baselines if each.name == CONTROL)

    def _start_baselines(self, names: Collection[str]) -> None:
        """Have workers that are ready for their first call."""
        case, pool = self._targets.case, self._targets.baselines
        for name in names:
            with self._left_out_if_optional(name):
                share = self._targets.moved_bytes / pool.moved_by(name, case)
                baseline = _Baseline(name, pool.begin(name, case, self._opened), share)
                self._baselines.append(baseline)

    def _settle_baselines(self) -> None:
        """Have the first calls made, in which torch.compile chooses by time, and later ones."""
        for each in [*self._baselines]:
            with self._left_out_if_optional(each.name):
                each.replays.settle()
                continue
            self._baselines.remove(each)

    def _time_idle(self) -> None:
        """Time the baselines in turn before the candidate's process has its plan."""
        times: dict[str, list[float]] = {each.name: [] for each in self._baselines}
        for done in range(IDLE_PAIRS if self._options.held_to_idle else 1):
            for each in [*self._baselines]:
                with self._left_out_if_optional(each.name):
                    times[each.name].append(each.seconds())
                if len(times[each.name]) == done:
                    self._baselines.remove(each)
        self._idle = {each.name: IdleBaseline.of(times[each.name]) for each in self._baselines}

    @contextlib.contextmanager
    def _left_out_if_optional(self, name: str) -> Iterator[None]:
        """Suppress and note the failure of a baseline that no threshold asks for."""
        try:
            yield
        except (TimingFailed, TooLittleMemory) as error:
            if name in self._targets.required:
                raise _baseline_failed(name, error) from None
            self._left_out.append(f"{name} is left out: {error}.")

    # --- noise ------------------------------------------------------------------------------------

    def _load_when_idle(self, control: IdleBaseline) -> str:
        """The sign of a load in the control's idle times, or ""."""
        if control.seconds <= 0:  # not a time: the sequential test voids each such round
            return ""
        spread = control.spread / control.seconds
        if spread > MOST_SPREAD:
            return f"a copy's times differed by {spread:.0%} from each other"
        # A short copy says nothing about bandwidth.
        moved = self._targets.baselines.moved_by(CONTROL, self._targets.case)
        roofs = self._options.roofs
        if roofs is not None and roofs.is_measured and moved >= CONTROL_BYTES // 2:
            share = self._targets.moved_bytes / control.seconds / roofs.bandwidth
            if share < LEAST_COPY:
                return (
                    f"a copy reached {share:.0%} of the bandwidth that was measured on this GPU "
                    "(if it always does: grader doctor --gpu --again)"
                )
        return ""

    def _noise_after(self, load: str, clocks_agree: bool) -> str:
        """Why the candidate's times can't be trusted, or ""."""
        if load:
            # The candidate's worker may have left something running: a person decides.
            return f"after the last pair {load}, or the kernel's worker itself"
        apart = self._apart(self._control)
        if abs(apart) > MOST_APART:
            return f"a copy's time and what the device says of it are {abs(apart):.1%} apart"
        return "" if clocks_agree else CLOCKS_DIFFER

    def _apart(self, timed: _Candidate | _Baseline) -> float:
        """By which share replays took longer by the grader's clock than by the device's.

        Without a GPU, both clocks are the processor's.
        """
        return timed.replays.apart if self._candidate.sandbox.device == "cuda" else 0.0

    # --- the candidate ----------------------------------------------------------------------------

    def _too_slow(self, evidence: PerformanceEvidence, took: float) -> PerformanceEvidence | None:
        """The evidence of a kernel that is far from every threshold; else None.

        Timing it precisely would take much longer and change no points.
        """
        known = {name: each.seconds for name, each in self._idle.items()}
        known |= {each.name: each.value for each in self._targets.constants}
        share = TOO_SLOW if took < LONG_SECONDS else 1 - MOST_APART
        asked = {name: each for name, each in self._targets.thresholds.items() if name in known}
        if not asked or not all(
            known[name] / took < share * min(ratios) for name, ratios in asked.items()
        ):
            return None
        compared = tuple(
            Baseline(name, _microseconds(seconds), round(seconds / took, 4))
            for name, seconds in known.items()
        )
        return replace(evidence, samples=1, microseconds=_microseconds(took), baselines=compared)

    def _tested(self, candidate: _Candidate) -> tuple[sequential.Outcome, bool]:
        """The last sequential test, and whether both clocks agree about the candidate's times.

        The test is repeated until the factor `longer` agrees with the grader's clock in the same
        test, since a worker may report true times in one test and false ones in the next. A
        request's own cost shows in the control and is subtracted.
        """
        for _ in range(MOST_TESTS):
            candidate.replays.forget()
            if self._candidate.sandbox.device == "cuda":
                candidate.allowed = MOST_APART + max(0.0, self._apart(self._control))
            outcome = sequential.run(
                candidate,
                [*map(_Required, self._baselines), *self._targets.constants],
                self._targets.thresholds,
                time.monotonic,
                budget=self._options.budget,
                idle=self._idle if self._options.held_to_idle else None,
            )
            if outcome.seconds is None:
                return outcome, True
            apart = self._apart(candidate) - max(0.0, self._apart(self._control))
            longer = 1 + apart if apart > MOST_APART else 1.0
            if abs(longer - candidate.longer) <= MOST_APART:
                return outcome, True
            candidate.longer = longer
        return outcome, False


def _baseline_failed(name: str, error: Exception) -> TimingFailed:
    """The end of a measurement that needs a baseline which failed."""
    return TimingFailed(f"{name} can't be timed: {error}", Status.not_measured)


def _not_measured(
    evidence: PerformanceEvidence, reason: str, outcome: sequential.Outcome | None = None
) -> PerformanceEvidence:
    evidence = replace(evidence, status=Status.not_measured, reason=reason)
    if outcome is None:
        return evidence
    return replace(evidence, voids=dict(outcome.voids), disturbed=outcome.disturbed)


def _with_outcome(
    evidence: PerformanceEvidence, outcome: sequential.Outcome
) -> PerformanceEvidence:
    evidence = replace(
        evidence,
        samples=outcome.pairs,
        voids=dict(outcome.voids),
        budget_ended=outcome.budget_ended,
        disturbed=outcome.disturbed,
    )
    if outcome.seconds is None:
        return replace(evidence, status=Status.not_measured, reason=outcome.reason)
    took = outcome.seconds
    return replace(
        evidence,
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
    ends = (round(each, 4) for each in (ratio.median, ratio.low, ratio.high))
    return Baseline(name, _microseconds(seconds), *ends)


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
