"""A variant timed: baselines when idle and then beside it, a control, points decided or not."""

from __future__ import annotations

import contextlib
import copy
import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from grader.cases import Case, fixed_case
from grader.evidence import PerformanceEvidence
from grader.gpu import nvml
from grader.gpu.devices import DeviceName
from grader.gpu.roofline import Roofs
from grader.gpu.state import GpuState, Process
from grader.scoring import speed
from grader.spec import Exercise, Variant, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import attempt, sequential, timed_variant, watch
from grader.timing.attempt import Options
from grader.timing.baselines import CONTROL_BYTES, Baselines
from grader.timing.buffer_sets import BufferSets
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.graph_replays import Replays
from tests.grader.timing.test_buffer_sets import Bench
from tests.support import clocked
from tests.support.children import child, end
from tests.support.clocked import MadeUp, MadeUpReplays, Time, sandbox
from tests.support.gpu_locks import own_locks

EXERCISES = load_all()
ROWS = EXERCISES["rmsnorm"]
clock = clocked.clock

Baseline = Callable[[str, Case], MadeUpReplays]


class Made:
    """A candidate that is made up: a baseline, or how it fails as it is begun."""

    def __init__(
        self,
        baseline: MadeUpReplays | Exception | Callable[[], Any],
        variant: Variant,
        exercise: Exercise = ROWS,
        device: str = "cpu",
        order: list[str] | None = None,
    ) -> None:
        self.sandbox, self.task = sandbox(device), Task(exercise, variant)
        self.begun = 0
        self._order = [] if order is None else order
        self._baseline = baseline

    def executor(self, case: Case, opened: contextlib.ExitStack) -> Any:
        """One without anything of the candidate, which tells when it is started and waited for."""
        self._order.append("executor")
        return SimpleNamespace(wait=lambda: self._order.append("waited for"))

    def begin(self, case: Case, opened: contextlib.ExitStack, executor: Any) -> Any:
        self.begun += 1
        if isinstance(self._baseline, Exception):
            raise self._baseline
        return self._baseline() if callable(self._baseline) else self._baseline


def asking(*thresholds: dict, exercise: str = "rmsnorm", variant: str = "triton") -> Variant:
    """A variant with other thresholds."""
    before = EXERCISES[exercise].variants[variant]
    kind = type(before.performance.thresholds[0])
    made = tuple(kind.model_validate(each) for each in thresholds)
    changed = before.performance.model_copy(update={"thresholds": made})
    return before.model_copy(update={"performance": changed})


@pytest.fixture(autouse=True)
def locks_of_this_test(tmp_path, monkeypatch):
    own_locks(monkeypatch, tmp_path)


@pytest.fixture
def begin_by(monkeypatch) -> Callable[[Baseline], None]:
    """Baselines are what a function gives by name and case."""

    def use(baseline: Baseline) -> None:
        monkeypatch.setattr(Baselines, "begin", lambda _, name, case, opened: baseline(name, case))
        monkeypatch.setattr(Baselines, "expect", lambda *_: None)

    return use


@pytest.fixture
def measured(begin_by) -> Callable[..., PerformanceEvidence]:
    """A grade's measurement of made-up baselines, each timed before the candidate's begins."""

    def measure_(
        variant: Variant,
        candidate: MadeUpReplays | Exception,
        baselines: dict[str, MadeUpReplays],
        exercise: Exercise = ROWS,
        **options: Any,
    ) -> PerformanceEvidence:
        made: Any = Made(candidate, variant, exercise)
        # A worker of its own in each attempt.
        begin_by(lambda name, case: copy.copy(baselines[name]))
        return timed_variant.measure(made, 7, trusted=sandbox(), options=Options(**options))

    return measure_


def of_case(
    candidate: MadeUpReplays | Exception | Callable[[], Any],
    variant: Variant,
    device: DeviceName = "cpu",
    **options: Any,
) -> PerformanceEvidence:
    """One case measured."""
    given, reference = options.pop("given", variant.timed.case), options.pop("reference", None)
    made: Any = Made(candidate, variant, device=device, order=options.pop("order", None))
    case = fixed_case(Task(ROWS, variant), given, 7)
    with Baselines(sandbox(device), made.sandbox, made.task, [case], reference) as baselines:
        return timed_variant.measure_case(made, baselines, case, Options(**options))


COPY = {"speed_vs": "copy", "at_least": 0.9, "points": 2}
TORCH = {"speed_vs": "torch", "at_least": 1.0, "points": 2}


# --- points ---------------------------------------------------------------------------------------


def test_a_time_comes_with_its_ratio_to_what_the_spec_names(measured):
    seen = measured(
        asking(COPY, {**TORCH, "points": 1}),
        MadeUpReplays(100.0),
        {"copy": MadeUpReplays(95.0), "torch": MadeUpReplays(150.0)},
    )
    assert seen.status is Status.passed and seen.samples >= sequential.MIN_PAIRS
    assert seen.microseconds == pytest.approx(100.0, rel=1e-6)
    ratios = {each.name: each.ratio for each in seen.baselines}
    assert ratios == {"copy": pytest.approx(0.95), "torch": pytest.approx(1.5)}
    assert seen.bytes == 2 * 8192 * 8192 * 2 and not seen.voids and not seen.disturbed


def test_the_control_runs_though_no_threshold_names_it(measured):
    seen = measured(
        asking(TORCH),
        MadeUpReplays(100.0),
        {"copy": MadeUpReplays(95.0), "torch": MadeUpReplays(150.0)},
    )
    assert {each.name for each in seen.baselines} == {"copy", "torch"}


def test_a_roof_and_a_limit_in_milliseconds_are_baselines_too(measured):
    bandwidth = 2 * 8192 * 8192 * 2 / 80e-6
    variant = asking(
        {"speed_vs": "roofline", "at_least": 0.75, "points": 2},
        {"milliseconds": {"gpu": "H100", "at_most": 0.12}, "points": 1},
    )
    roofs = Roofs(bandwidth, {}, True)
    seen = measured(variant, MadeUpReplays(100.0), {"copy": MadeUpReplays(95.0)}, roofs=roofs)
    ratios = {each.name: each.ratio for each in seen.baselines}
    assert ratios["roofline"] == pytest.approx(0.8)
    assert ratios["0.12 ms"] == pytest.approx(1.2)
    without = measured(variant, MadeUpReplays(100.0), {"copy": MadeUpReplays(95.0)})
    assert "roofline" not in {each.name for each in without.baselines}


def test_a_control_that_copies_more_than_the_case_moves_counts_for_its_bytes(monkeypatch, begin_by):
    begin_by(lambda name, case: MadeUpReplays(95.0))
    monkeypatch.setattr(watch.Watch, "probe", lambda *_: None)
    monkeypatch.setattr(watch, "share_of_others", lambda: None)
    small = {"rows": 2048, "cols": 2048, "dtype": "bfloat16"}  # 16 MiB in all: a sixteenth
    for thresholds, device, ratio in [
        ((), "cuda", 0.95 * (16 << 20) / CONTROL_BYTES),
        ((COPY,), "cuda", 0.95),
        ((), "cpu", 0.95),
    ]:
        seen = of_case(MadeUpReplays(100.0), asking(*thresholds), device, given=small)
        [copied] = seen.baselines
        assert copied.ratio == pytest.approx(ratio, abs=1e-4) and seen.bytes == 16 << 20


def test_the_first_case_that_can_not_be_timed_ends_it(measured):
    variant = EXERCISES["gemm"].variants["triton_v4"]
    failure = TimingFailed("the timed run ended: timed out", Status.timed_out)
    baselines = {"copy": MadeUpReplays(95.0), "torch": MadeUpReplays(90.0)}
    seen = measured(variant, failure, baselines, EXERCISES["gemm"])
    assert seen.status is Status.timed_out and not seen.further
    seen = measured(variant, MadeUpReplays(100.0), baselines, EXERCISES["gemm"])
    assert len(seen.every) == len(variant.performance.every_case)


# --- too slow to be timed -------------------------------------------------------------------------


def test_what_is_too_slow_to_be_timed_has_missed_its_thresholds_after_one_call(measured):
    slow = MadeUpReplays(100e6)  # 100 s
    seen = measured(
        asking(COPY, TORCH), slow, {"copy": MadeUpReplays(95.0), "torch": MadeUpReplays(150.0)}
    )
    assert (seen.status, seen.samples, slow.taken) == (Status.passed, 1, 0)
    assert seen.microseconds == pytest.approx(100e6) and not seen.reason
    assert {each.name: each.ratio for each in seen.baselines} == {"copy": 0.0, "torch": 0.0}
    decided = speed.decided(asking(COPY, TORCH).performance.steps, seen)
    assert len(decided) == 2 and not any(each.holds for each in decided)


def test_a_limit_in_milliseconds_can_be_missed_by_far_too(measured):
    variant = asking({"milliseconds": {"gpu": "H100", "at_most": 0.12}, "points": 1})
    seen = measured(variant, MadeUpReplays(1e4), {"copy": MadeUpReplays(95.0)})
    assert (seen.status, seen.samples) == (Status.passed, 1)
    assert {each.name: each.ratio for each in seen.baselines}["0.12 ms"] == 0.012
    on_h100 = replace(seen, device="NVIDIA H100 80GB HBM3")
    [decided] = speed.decided(variant.performance.steps, on_h100)
    assert not decided.holds


@pytest.mark.parametrize(
    ("microseconds", "is_timed"),
    [(100.0, True), (95.0 / 0.46, True), (95.0 / 0.44, False)],  # of 0.9 of a copy's 95 us
)
def test_what_misses_its_thresholds_by_little_is_timed_all_the_same(
    measured, microseconds, is_timed
):
    seen = measured(asking(COPY), MadeUpReplays(microseconds), {"copy": MadeUpReplays(95.0)})
    assert (seen.samples > 1) is is_timed
    assert seen.status is Status.passed


def test_what_may_reach_the_lowest_of_its_thresholds_is_timed(measured):
    lower = {**COPY, "at_least": 0.2, "points": 1}
    seen = measured(asking(COPY, lower), MadeUpReplays(350.0), {"copy": MadeUpReplays(95.0)})
    assert seen.samples > 1


def test_where_nothing_is_asked_for_the_slow_are_timed_too(begin_by):
    begin_by(lambda name, case: MadeUpReplays(95.0))
    assert of_case(MadeUpReplays(1e4), asking()).samples > 1


# --- what fails -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status",
    [Status.not_finite, Status.wrong_values, Status.crashed, Status.timed_out, Status.not_written],
)
def test_what_fails_under_the_clock_is_the_evidence(measured, status):
    failure = TimingFailed("in a timed call: out[0, 0] is nan", status)
    seen = measured(asking(COPY), failure, {"copy": MadeUpReplays(95.0)})
    assert (seen.status, seen.reason) == (status, str(failure))


def test_what_the_machine_has_no_memory_for_is_not_measured(measured):
    little = TooLittleMemory("4 sets of buffers have 9 MiB")
    seen = measured(asking(COPY), little, {"copy": MadeUpReplays(95.0)})
    assert (seen.status, seen.reason) == (Status.not_measured, str(little))


class Slacker(MadeUpReplays):
    """It fails in its third replay, or the one that it's told."""

    def __init__(self, microseconds: float, fails_at: int = 2) -> None:
        super().__init__(microseconds)
        self._fails_at = fails_at

    def seconds(self) -> float:
        if self.taken == self._fails_at:
            raise TimingFailed("the timed run ended: timed out", Status.timed_out)
        return super().seconds()


def test_a_candidate_that_fails_in_the_middle_of_a_test_has_failed(measured):
    seen = measured(asking(COPY), Slacker(100.0, 7), {"copy": MadeUpReplays(95.0)})
    assert (seen.status, seen.microseconds) == (Status.timed_out, None)
    assert not seen.earlier


def failing(name: str) -> Baseline:
    """Baselines of which one fails as it is begun."""

    def baseline(wanted: str, case: Case) -> MadeUpReplays:
        if wanted == name:
            raise TimingFailed("the timed run failed: no compiler", Status.crashed)
        return MadeUpReplays(95.0)

    return baseline


def test_a_baseline_that_is_only_asked_for_may_fail(begin_by):
    begin_by(failing("compile"))
    known = {"reference": lambda: None}
    seen = of_case(MadeUpReplays(100.0), asking(TORCH), also=("compile", "reference"), **known)
    assert seen.status is Status.passed
    assert {each.name for each in seen.baselines} == {"copy", "torch", "reference"}
    assert seen.reason == "compile is left out: the timed run failed: no compiler."


@pytest.mark.parametrize("named", ["copy", "compile"])
def test_a_baseline_that_is_needed_and_fails_is_no_failure_of_the_submission(begin_by, named):
    begin_by(failing(named))
    seen = of_case(MadeUpReplays(100.0), asking({**TORCH, "speed_vs": "compile"}))
    assert seen.status is Status.not_measured
    assert seen.reason == f"{named} can't be timed: the timed run failed: no compiler"


def test_a_baseline_that_fails_when_idle_is_left_out_or_ends_it(begin_by):
    begin_by(lambda name, case: (Slacker if name == "compile" else MadeUpReplays)(95.0))
    seen = of_case(MadeUpReplays(100.0), asking(COPY), also=("compile",))
    assert seen.status is Status.passed and [each.name for each in seen.baselines] == ["copy"]
    assert seen.reason == "compile is left out: the timed run ended: timed out."
    seen = of_case(MadeUpReplays(100.0), asking({**TORCH, "speed_vs": "compile"}))
    assert seen.status is Status.not_measured and not seen.earlier
    assert seen.reason == "compile can't be timed: the timed run ended: timed out"


def test_a_baseline_that_fails_beside_the_candidate_is_no_failure_of_it(begin_by):
    begin_by(lambda name, case: Slacker(95.0, attempt.IDLE_PAIRS + 3))
    seen = of_case(MadeUpReplays(100.0), asking(COPY))
    assert seen.status is Status.not_measured
    assert seen.reason == "copy can't be timed: the timed run ended: timed out"


def test_the_staffs_solution_is_begun_only_where_it_is_asked_for(begin_by):
    begun: list[str] = []
    begin_by(lambda name, case: begun.append(name) or MadeUpReplays(95.0))
    reference = lambda: pytest.fail("it was planned")  # noqa: E731
    of_case(MadeUpReplays(100.0), asking(COPY, TORCH), reference=reference)
    assert begun == ["copy", "torch"]
    begun.clear()
    of_case(MadeUpReplays(100.0), asking(COPY), reference=reference, also=("reference",))
    assert begun == ["copy", "reference"]
    begun.clear()
    of_case(MadeUpReplays(100.0), asking({**TORCH, "speed_vs": "reference"}), reference=reference)
    assert begun == ["copy", "reference"]


# --- noise ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart", [-0.04, 0.06])
def test_where_the_control_disagrees_with_the_device_nothing_is_believed(on_cuda, apart):
    made: list[MadeUpReplays] = []
    on_cuda(lambda name, case: made.append(MadeUpReplays(95.0, apart=apart)) or made[-1])
    seen = of_case(MadeUpReplays(100.0), asking(COPY), "cuda")
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert f"a copy's time and what the device says of it are {abs(apart):.1%} apart" in seen.reason
    assert seen.reason.endswith("(the last of 3 tries)") and len(made) == len(seen.earlier) + 1 == 3


def test_a_control_that_disagrees_once_was_noise(on_cuda):
    made: list[MadeUpReplays] = []
    on_cuda(
        lambda name, case: made.append(MadeUpReplays(95.0, apart=0.0 if made else 0.06)) or made[-1]
    )
    seen = of_case(MadeUpReplays(100.0), asking(COPY), "cuda")
    assert seen.status is Status.passed and len(seen.earlier) == 1
    assert seen.baselines[0].ratio == pytest.approx(0.95)


class Told(MadeUpReplays):
    """A baseline that notes when it is timed."""

    def __init__(self, order: list[str], name: str) -> None:
        super().__init__(95.0)
        self._order, self._name = order, name

    def seconds(self) -> float:
        self._order.append(self._name)
        return super().seconds()


class Uneven(MadeUpReplays):
    """A baseline whose calls take as long as it is told, in turn."""

    def __init__(self, *microseconds: float) -> None:
        super().__init__(microseconds[0])
        self._in_turn = itertools.cycle(microseconds)

    def seconds(self) -> float:
        self.times = [next(self._in_turn) * 1e-6] * 2
        return super().seconds()


def test_a_load_that_is_there_all_the_time_makes_a_copys_times_differ(measured):
    # As beside a process that multiplies matrices without end, whose share of the GPU comes in
    # slices as long as a few calls: the baseline is as slow before the candidate as beside it.
    seen = measured(asking(COPY), MadeUpReplays(100.0), {"copy": Uneven(120.0, 190.0, 260.0)})
    assert seen.status is Status.not_measured and len(seen.earlier) == 2
    assert "before the kernel was there, a copy's times differed by" in seen.reason
    steady = measured(asking(COPY), MadeUpReplays(100.0), {"copy": Uneven(94.0, 95.0, 96.0)})
    assert steady.status is Status.passed and not steady.earlier


@pytest.fixture
def on_cuda(monkeypatch, begin_by) -> Callable[..., None]:
    """As on a GPU of which others have so much: before the idle times, and in the end."""

    def use(
        baseline: Baseline, order: list[str] | None = None, idle: float = 0.0, beside: float = 0.0
    ) -> None:
        def share_of_others() -> float:
            is_idle = "candidate" not in (order or [])
            if order is not None:
                order.append("probe")
            return idle if is_idle else beside

        begin_by(baseline)
        monkeypatch.setattr(watch, "share_of_others", share_of_others)
        monkeypatch.setattr(watch.Watch, "probe", lambda *_: None)

    return use


def test_where_kernels_run_on_no_gpu_nothing_is_probed(monkeypatch):
    monkeypatch.setattr(watch, "share_of_others", None)
    here = watch.Watch("cpu", None)
    assert here.load_of_others() == "" and here.as_evidence(None) == {}


@pytest.mark.parametrize(("idle", "beside"), [(0.48, 0.0), (0.0, 0.48)])
@pytest.mark.parametrize("held_to_idle", [True, False])
def test_a_load_that_nobody_can_see_is_noise_for_the_gpu_is_elsewhere(
    on_cuda, idle, beside, held_to_idle
):
    order: list[str] = []
    on_cuda(lambda *_: order.clear() or Told(order, "copy"), order, idle, beside)
    seen = of_case(
        lambda: Told(order, "candidate"), asking(COPY), "cuda", held_to_idle=held_to_idle
    )
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert "GPU too noisy: " in seen.reason and len(seen.earlier) == timed_variant.TRIES - 1
    assert "somebody else had 48% of the GPU's time" in seen.reason
    assert ("before the kernel was there, somebody" in seen.reason) == bool(idle)
    assert ("after the last pair somebody" in seen.reason) == bool(beside)
    assert seen.machine["taken_by_others_percent"] == 48.0
    assert ("candidate" in order) == bool(beside)  # beside a load it isn't even begun


def test_the_gpu_is_probed_around_all_rounds_and_not_between_them(on_cuda):
    order: list[str] = []
    on_cuda(lambda *_: Told(order, "copy"), order, 0.0, 0.01)
    seen = of_case(Told(order, "candidate"), asking(COPY), "cuda")
    assert seen.status is Status.passed and seen.machine["taken_by_others_percent"] == 1.0
    probes = [at for at, what in enumerate(order) if what == "probe"]
    assert probes == [0, len(order) - 1] and len(order) == 2 + attempt.IDLE_PAIRS + 2 * seen.samples


def test_a_copy_far_below_what_this_gpu_is_known_to_reach_is_noise(measured):
    moved = 2 * 8192 * 8192 * 2
    known = Roofs(moved / 90e-6, {}, is_measured=True)
    half = {"copy": MadeUpReplays(180.0)}
    seen = measured(asking(COPY), MadeUpReplays(100.0), half, roofs=known)
    assert seen.status is Status.not_measured and "too noisy" in seen.reason
    assert "a copy reached 50% of the bandwidth that was measured on this GPU" in seen.reason
    # By a data sheet that only says what would be best, nothing is known of this GPU.
    for roofs in (Roofs(moved / 90e-6, {}, is_measured=False), None):
        assert measured(asking(COPY), MadeUpReplays(100.0), half, roofs=roofs).microseconds
    near = {"copy": MadeUpReplays(100.0)}
    assert measured(asking(COPY), MadeUpReplays(100.0), near, roofs=known).microseconds


def test_a_short_copy_need_not_reach_what_a_long_one_does_nor_hold_still_for_no_points(begin_by):
    begin_by(lambda name, case: MadeUpReplays(180.0))
    for cols, held_to_idle, status in [
        (8192, True, Status.not_measured),
        (512, True, Status.passed),
        (8192, False, Status.passed),
    ]:
        known = Roofs(2 * 8192 * cols * 2 / 90e-6, {}, is_measured=True)
        given = {"rows": 8192, "cols": cols, "dtype": "bfloat16"}
        seen = of_case(
            MadeUpReplays(100.0), asking(COPY), given=given, roofs=known, held_to_idle=held_to_idle
        )
        assert seen.status is status, (cols, held_to_idle)


def test_a_baseline_that_is_slower_beside_the_candidate_is_told(measured):
    seen = measured(asking(COPY), MadeUpReplays(100.0), {"copy": MadeUpReplays(95.0, later=99.0)})
    assert seen.status is Status.not_measured and "copy ran slower beside" in seen.reason
    assert "copy took 4.2% longer beside the kernel than before it" in seen.disturbed
    assert seen.reason.endswith("(the last of 3 tries)") and len(seen.earlier) == 2
    assert all("copy ran slower" in each and "4.2% longer" in each for each in seen.earlier)
    quiet = measured(asking(COPY), MadeUpReplays(100.0), {"copy": MadeUpReplays(95.0, later=96.0)})
    assert not quiet.disturbed and not quiet.earlier


def test_where_no_points_depend_on_it_a_disturbed_round_counts(begin_by):
    begin_by(lambda name, case: MadeUpReplays(95.0, later=110.0))
    assert of_case(MadeUpReplays(100.0), asking()).status is Status.not_measured
    seen = of_case(MadeUpReplays(100.0), asking(), held_to_idle=False)
    assert seen.status is Status.passed and not seen.voids
    assert seen.baselines[0].ratio == pytest.approx(1.1)


def test_where_no_points_depend_on_it_baselines_have_one_idle_round(begin_by):
    for held_to_idle, rounds in [(True, attempt.IDLE_PAIRS), (False, 1)]:
        made = MadeUpReplays(95.0)
        begin_by(lambda name, case, made=made: made)
        seen = of_case(MadeUpReplays(100.0), asking(COPY), held_to_idle=held_to_idle)
        assert made.taken == rounds + seen.samples


def test_a_baselines_first_call_is_begun_while_the_executor_starts(begin_by):
    order: list[str] = []

    class Compiled(MadeUpReplays):
        def begin(self) -> None:
            order.append("begun")

    begin_by(lambda name, case: Compiled(95.0))
    of_case(MadeUpReplays(100.0), asking(COPY), order=order)
    assert order == ["executor", "begun", "waited for"]


def test_after_noise_it_begins_anew_in_fresh_workers_and_the_noise_is_kept(begin_by):
    made: list[MadeUpReplays] = []
    begin_by(lambda *_: made.append(MadeUpReplays(95.0, later=None if made else 99.0)) or made[-1])
    seen = of_case(MadeUpReplays(100.0), asking(COPY))
    assert (seen.status, len(seen.earlier), len(made)) == (Status.passed, 1, 2)
    assert "copy took 4.2% longer" in seen.earlier[0]
    assert not seen.voids and not seen.disturbed and not seen.reason
    assert seen.baselines[0].ratio == pytest.approx(0.95)


def test_after_noise_baselines_are_renewed(monkeypatch, begin_by):
    renewed = []
    real = Baselines.renew
    monkeypatch.setattr(Baselines, "renew", lambda it: renewed.append(it) or real(it))
    begin_by(lambda *_: MadeUpReplays(95.0, later=99.0))
    of_case(MadeUpReplays(100.0), asking(COPY))
    assert len(renewed) == timed_variant.TRIES - 1 + 1  # the last one is their end


def test_what_is_found_beside_noise_ends_it_all_the_same(measured):
    wrong = TimingFailed("in a timed call: out[0] is 1", Status.wrong_values)
    seen = measured(asking(COPY), wrong, {"copy": MadeUpReplays(95.0, later=99.0)})
    assert seen.status is Status.wrong_values and not seen.earlier


def test_baselines_take_turns_when_idle_before_the_candidate_is_begun(begin_by):
    order: list[str] = []
    begin_by(lambda name, case: Told(order, name))
    made = lambda: order.append("begun") or Told(order, "candidate")  # noqa: E731
    seen = of_case(made, asking(TORCH), order=order)
    assert seen.status is Status.passed
    begun = order.index("begun")
    idle = ["copy", "torch"] * attempt.IDLE_PAIRS
    assert order[:begun] == ["executor", "waited for", *idle] and order.count("begun") == 1


# --- another clock than the worker's --------------------------------------------------------------


@pytest.fixture
def lying(clock: Time, on_cuda) -> Iterator[Callable[..., PerformanceEvidence]]:
    """What is measured of a worker that tells of a share of the time it takes; 200 us a call."""
    bench = Bench("silu", "triton", "float32", 16)
    others = []

    def copied(name: str, case: Case) -> Replays:
        others.append(Bench("silu", "triton", "float32", 16))
        worker: Any = MadeUp(clock, lambda order: None, 2e-4)
        return Replays(worker, BufferSets(others[-1].arena, others[-1].layout, 16))

    def measure_(told: Callable[[int], float], seconds: float = 2e-4) -> PerformanceEvidence:
        class Lying(MadeUp):
            def _replay(self, repeat: int) -> int:
                self.told = told(len(self.orders))
                return super()._replay(repeat)

        on_cuda(copied)

        def candidate() -> Replays:
            worker: Any = Lying(clock, bench.compute, seconds)
            return Replays(worker, bench.sets)

        return of_case(candidate, asking(COPY), "cuda")

    yield measure_
    for each in (bench, *others):
        each.arena.close()


def test_a_worker_that_tells_of_half_its_time_gains_nothing(lying):
    honest, liar = lying(lambda done: 1.0), lying(lambda done: 0.5)
    assert honest.status is liar.status is Status.passed
    assert honest.baselines[0].ratio == pytest.approx(1.0, abs=1e-3)
    # By the grader's clock, but for the slack of 20 us in 2 ms.
    assert liar.baselines[0].ratio == pytest.approx(1.0, abs=0.012)
    assert liar.microseconds == pytest.approx(200.0, rel=0.012)


def test_a_worker_that_is_honest_first_gains_nothing_by_lying_later(lying):
    seen = lying(lambda done: 0.9 if done < 20 else 0.3, seconds=3e-4)
    ratio = seen.baselines[0].ratio if seen.baselines else None
    assert ratio is None or ratio <= (2 / 3) * 1.03


def test_each_test_has_to_agree_with_the_graders_clock_by_itself(lying):
    """What was told of earlier replays, which don't count, must not outweigh those that do."""
    begins = 2 + sequential.MIN_PAIRS  # of the second test; the worker is warmed up by two replays
    seen = lying(lambda done: 0.9 if done <= begins else 0.6)
    assert seen.status is Status.passed
    assert seen.baselines[0].ratio == pytest.approx(1.0, abs=0.012)


def test_a_worker_that_tells_other_times_in_each_test_is_not_believed(lying):
    rounds = sequential.MIN_PAIRS
    seen = lying(lambda done: (0.9, 0.7, 0.5, 0.3)[min(3, max(0, done - 2) // rounds)])
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert "the device's clock and the grader's differ" in seen.reason


def test_a_worker_that_lies_about_fewer_than_half_of_its_replays_gains_a_little(lying):
    """Medians don't show it, and the interval would reach from the honest times to the others."""
    seen = lying(lambda done: 0.4 if done % 5 in (1, 3) else 1.0, seconds=3e-4)
    [compared] = seen.baselines
    assert compared.ratio == pytest.approx(2 / 3, rel=0.01)
    assert compared.high <= 2 / 3 * (1 + attempt.MOST_APART + 0.02)


def test_a_worker_that_tells_of_a_little_less_gains_a_little(lying):
    seen = lying(lambda done: 0.975)  # within what two clocks are apart
    assert seen.baselines[0].ratio <= 1.0 / (1 - attempt.MOST_APART)


def test_without_a_gpu_both_clocks_are_the_processors(begin_by):
    begin_by(lambda *_: MadeUpReplays(95.0, apart=9.0))
    seen = of_case(MadeUpReplays(100.0, apart=9.0), asking(COPY))
    assert seen.status is Status.passed and seen.microseconds == pytest.approx(100.0)


# --- the GPU, probed ------------------------------------------------------------------------------


@pytest.fixture
def probed(monkeypatch, measured) -> Callable[..., PerformanceEvidence]:
    """A timing between these probes of a GPU: at its start, idle, before and after."""

    def between(*states: GpuState) -> PerformanceEvidence:
        seen = iter(states)
        monkeypatch.setattr(timed_variant, "Watch", lambda _, usual: watch.Watch("cuda", usual))
        monkeypatch.setattr(nvml, "observe", lambda *_: next(seen))
        monkeypatch.setattr(watch, "share_of_others", lambda: 0.0)
        return measured(asking(COPY), MadeUpReplays(100.0), {"copy": MadeUpReplays(95.0)})

    return between


def on_gpu(*processes: Process, **more: Any) -> GpuState:
    mine = Process(os.getpid(), "python3", 40)
    return GpuState("GPU", "GPU-1", "580", processes=(mine, *processes), **more)


OTHER = Process(4_000_000, "python3", 99)


def test_the_state_of_the_gpu_is_recorded_with_a_timing(probed):
    state = on_gpu(sm_mhz=1980, sm_most_mhz=1980, celsius=41)
    seen = probed(state, state, state, state, state)
    assert seen.status is Status.passed
    told = seen.machine
    assert (told["sm_mhz"], told["celsius"], told["processes"]) == (1980, 41, 1)


@pytest.mark.parametrize("busy_in", ["idle", "the test"])
def test_another_process_on_the_gpu_is_noise(probed, busy_in):
    alone, loaded = on_gpu(), on_gpu(OTHER)
    states = [alone, alone, *[alone, alone] * (busy_in == "the test"), loaded]
    seen = probed(*states)
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert "too noisy" in seen.reason and "another process: python3, pid 4000000" in seen.reason


@pytest.mark.parametrize("ends", ["while the driver answers", "after an earlier probe"])
def test_a_worker_of_ones_own_that_has_ended_is_not_another_process(monkeypatch, ends):
    """Workers of other students' checks end while this one is timed."""
    pid = child(lambda: time.sleep(60))
    loaded = on_gpu(Process(pid, "gpu-executor", 1))
    here = watch.Watch("cuda", None)
    if ends == "after an earlier probe":
        monkeypatch.setattr(nvml, "observe", lambda *_: on_gpu())
        here.probe()
        end(pid)
    monkeypatch.setattr(nvml, "observe", lambda *_: (end(pid), loaded)[1])
    state = here.probe()
    assert pid not in watch.own_processes()
    assert here.others_at_work(state) == here.troubles(on_gpu(), state) == []
    assert here.others_at_work(on_gpu(OTHER)) and here.troubles(on_gpu(), on_gpu(OTHER))


@pytest.mark.parametrize(
    ("setting", "told"),
    [({"compute_mode": "exclusive process"}, "exclusive process"), ({"is_mps": True}, "MPS")],
)
def test_a_gpu_that_workers_cannot_share_is_told_before_any_starts(probed, setting, told):
    seen = probed(on_gpu(**setting))
    assert seen.status is Status.not_measured and told in seen.reason
