"""A variant timed: yardsticks in the calm and then beside it, a control, points decided or not."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader import race
from grader.cases import fixed_case
from grader.evidence import PerformanceEvidence
from grader.gpu_state import GpuState, Process
from grader.roofline import Roofs
from grader.spec import Exercise, Variant, load_all
from grader.status import Status
from grader.timing import lanes, measure, pairs, watch
from grader.timing.pairs import Pair
from grader.timing.worker import TimingFailed

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = load_all()
CALLS, FIXED = 16, 40e-6


class Lane:
    """A lane that takes what it is told to; what its requests cost is everybody's."""

    def __init__(self, microseconds: float, later: float | None = None, inside: float = 1.0):
        self._times = [microseconds * 1e-6, (later or microseconds) * 1e-6]
        self._inside = inside
        self._taken = 0
        self.settled = False

    def ready(self) -> Lane:
        return self

    def again(self, layout: object) -> Lane:
        return copy.copy(self)

    def settle(self) -> None:
        self.settled = True

    def pair(self) -> Pair:
        assert self.settled
        self._taken += 1
        call = self._times[self._taken > measure.CALM_PAIRS]
        long, short = FIXED + CALLS * call, FIXED + CALLS // 4 * call
        return Pair(long, short, CALLS, CALLS // 4, CALLS * call * self._inside)


class Sandboxes:
    """In the place of the trusted one: none is needed."""

    def __init__(self, *_: object) -> None:
        self.device = "interpreter"

    def __enter__(self) -> Sandboxes:
        return self

    def __exit__(self, *_: object) -> None: ...


def asking(*thresholds: dict, exercise: str = "rmsnorm", variant: str = "triton") -> Variant:
    """A variant with other thresholds."""
    before = EXERCISES[exercise].variants[variant]
    kind = type(before.performance.thresholds[0])
    made = tuple(kind.model_validate(each) for each in thresholds)
    changed = before.performance.model_copy(update={"thresholds": made})
    return before.model_copy(update={"performance": changed})


def measured(
    monkeypatch: pytest.MonkeyPatch,
    variant: Variant,
    candidate: object,
    yardsticks: dict[str, Lane],
    is_timed: bool = True,
    **options: object,
) -> PerformanceEvidence:
    order: list[str] = []

    def yardstick(sandbox, name, *_: object) -> Lane:
        order.append(name)
        return copy.copy(yardsticks[name])  # a worker of its own in each attempt

    def made(*_: object) -> object:
        order.append("candidate")
        if isinstance(candidate, Exception):
            raise candidate
        return candidate

    monkeypatch.setattr(measure, "Sandbox", Sandboxes)
    monkeypatch.setattr(lanes, "yardstick", yardstick)
    monkeypatch.setattr(lanes, "candidate", made)
    exercise: Exercise = EXERCISES["rmsnorm"]
    seen = measure.measure(Sandboxes(), exercise, variant, Path("x"), 7, **options)
    # Every yardstick is timed before it exists.
    assert not is_timed or order[-1] == "candidate"
    return seen


COPY = {"speed_vs": "copy", "at_least": 0.9, "points": 2}


def test_a_time_comes_with_its_ratio_to_what_the_spec_names(monkeypatch):
    seen = measured(
        monkeypatch,
        asking(COPY, {"speed_vs": "torch", "at_least": 1.0, "points": 1}),
        Lane(100.0),
        {"copy": Lane(95.0), "torch": Lane(150.0)},
    )
    assert seen.status is Status.passed and seen.samples >= race.MIN_PAIRS
    assert seen.microseconds == pytest.approx(100.0, rel=1e-6)
    ratios = {each.name: each.ratio for each in seen.yardsticks}
    assert ratios == {"copy": pytest.approx(0.95), "torch": pytest.approx(1.5)}
    assert seen.bytes == 2 * 8192 * 8192 * 2 and not seen.voids and not seen.disturbed


def test_the_control_runs_though_no_threshold_names_it(monkeypatch):
    variant = asking({"speed_vs": "torch", "at_least": 1.0, "points": 2})
    lanes_ = {"copy": Lane(95.0), "torch": Lane(150.0)}
    seen = measured(monkeypatch, variant, Lane(100.0), lanes_)
    assert {each.name for each in seen.yardsticks} == {"copy", "torch"}


def test_a_control_that_copies_more_than_the_case_moves_counts_for_its_bytes(monkeypatch):
    copied: list[int] = []

    def yardstick(sandbox, name, exercise, variant, case, moved, opened, *_: object) -> Lane:
        copied.append(moved)
        return Lane(95.0)

    monkeypatch.setattr(lanes, "yardstick", yardstick)
    monkeypatch.setattr(lanes, "candidate", lambda *_: Lane(100.0))
    monkeypatch.setattr(watch.Watch, "look", lambda *_: None)
    rows = EXERCISES["rmsnorm"]
    small = {"rows": 2048, "cols": 2048, "dtype": "bfloat16"}  # 16 MiB in all: a sixteenth
    for thresholds, device, ratio in [
        ((), "cuda", 0.95 / 16),
        ((COPY,), "cuda", 0.95),
        ((), "interpreter", 0.95),
    ]:
        variant = asking(*thresholds)
        case = fixed_case(rows, variant, small, 7)
        both = (Sandboxes(), Sandboxes(), rows, variant, Path("x"), case)
        monkeypatch.setattr(both[0], "device", device)
        monkeypatch.setattr(both[1], "device", device)
        seen = measure.measure_case(*both)
        assert copied.pop() == (16 << 20 if ratio == 0.95 else measure.CONTROL_BYTES)
        [copy] = seen.yardsticks
        assert copy.ratio == pytest.approx(ratio, abs=1e-4) and seen.bytes == 16 << 20


def test_where_no_points_depend_on_it_a_disturbed_round_counts(monkeypatch):
    monkeypatch.setattr(lanes, "yardstick", lambda *_: Lane(95.0, later=110.0))
    monkeypatch.setattr(lanes, "candidate", lambda *_: Lane(100.0))
    rows, variant = EXERCISES["rmsnorm"], asking()
    case = fixed_case(rows, variant, variant.performance.case, 7)
    both = (Sandboxes(), Sandboxes(), rows, variant, Path("x"), case)
    assert measure.measure_case(*both).status is Status.not_measured
    seen = measure.measure_case(*both, held_to_calm=False)
    assert seen.status is Status.passed and not seen.voids
    assert seen.yardsticks[0].ratio == pytest.approx(1.1)


class Failing:
    """A yardstick that fails as it is begun, or as it is waited for."""

    def __init__(self, at_once: bool) -> None:
        if at_once:
            self.ready()

    def ready(self) -> Lane:
        raise TimingFailed("the timed run failed: no compiler", Status.crashed)


def test_yardsticks_load_side_by_side(monkeypatch):
    order: list[str] = []

    class Starting(Lane):
        def ready(self) -> Lane:
            order.append("ready")
            return self

    def yardstick(*_: object) -> Starting:
        order.append("begun")
        return Starting(95.0)

    monkeypatch.setattr(lanes, "yardstick", yardstick)
    monkeypatch.setattr(lanes, "candidate", lambda *_: Lane(100.0))
    variant = asking({"speed_vs": "torch", "at_least": 1.0, "points": 2})
    seen = measure.measure(Sandboxes(), EXERCISES["rmsnorm"], variant, Path("x"), 7)
    assert seen.status is Status.passed
    assert order == ["begun", "begun", "ready", "ready"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_yardstick_that_is_only_asked_for_may_fail(monkeypatch, at_once):
    def yardstick(sandbox, name, *_: object) -> Lane | Failing:
        return Failing(at_once) if name == "compile" else Lane(95.0)

    monkeypatch.setattr(lanes, "yardstick", yardstick)
    monkeypatch.setattr(lanes, "candidate", lambda *_: Lane(100.0))
    variant = asking({"speed_vs": "torch", "at_least": 1.0, "points": 2})
    rows = EXERCISES["rmsnorm"]
    case = fixed_case(rows, variant, variant.performance.case, 7)
    both = (Sandboxes(), Sandboxes(), rows)
    seen = measure.measure_case(*both, variant, Path("x"), case, also=("compile", "reference"))
    assert seen.status is Status.passed
    assert {each.name for each in seen.yardsticks} == {"copy", "torch", "reference"}
    assert seen.reason == "compile is left out: the timed run failed: no compiler."
    needed = asking({"speed_vs": "compile", "at_least": 1.0, "points": 2})
    seen = measure.measure_case(*both, needed, Path("x"), case)
    assert seen.status is Status.crashed


@pytest.mark.parametrize("inside", [0.95, 1.06])
def test_where_the_control_disagrees_with_the_device_nothing_is_believed(monkeypatch, inside):
    seen = measured(monkeypatch, asking(COPY), Lane(100.0), {"copy": Lane(95.0, inside=inside)})
    assert seen.status is Status.not_measured and "too noisy" in seen.reason
    assert seen.microseconds is None


class Told(Lane):
    """A lane that notes when it is timed."""

    def __init__(self, order: list[str], name: str) -> None:
        super().__init__(95.0)
        self._order, self._name = order, name

    def pair(self) -> Pair:
        self._order.append(self._name)
        return super().pair()


class Uneven(Lane):
    """A lane whose calls take as long as it is told, in turn."""

    def __init__(self, *microseconds: float) -> None:
        super().__init__(microseconds[0])
        self._in_turn = itertools.cycle(microseconds)

    def pair(self) -> Pair:
        self._times = [next(self._in_turn) * 1e-6] * 2
        return super().pair()


def test_a_load_that_is_there_all_the_time_makes_a_copys_times_differ(monkeypatch):
    # As beside a process that multiplies matrices without end, whose share of the GPU comes in
    # slices as long as a few calls: the yardstick is as slow before the candidate as beside it.
    seen = measured(
        monkeypatch,
        asking(COPY),
        Lane(100.0),
        {"copy": Uneven(120.0, 190.0, 260.0)},
        is_timed=False,
    )
    assert seen.status is Status.not_measured and len(seen.earlier) == 2
    assert "before the kernel was there, a copy's times differed by" in seen.reason
    steady = measured(monkeypatch, asking(COPY), Lane(100.0), {"copy": Uneven(94.0, 95.0, 96.0)})
    assert steady.status is Status.passed and not steady.earlier


@pytest.fixture
def shared(monkeypatch) -> Callable[..., None]:
    """As on a GPU of which others have so much: before the calm, and in the end."""

    def share(order: list[str], calm: float, beside: float) -> None:
        def glance() -> float:
            is_calm = "candidate" not in order
            order.append("glance")
            return calm if is_calm else beside

        monkeypatch.setattr(watch, "glance", glance)
        monkeypatch.setattr(watch.Watch, "__init__", lambda it, _, mhz: made(it, "cuda", mhz))
        monkeypatch.setattr(watch.Watch, "look", lambda *_: None)

    made = watch.Watch.__init__
    return share


def test_where_kernels_run_on_no_gpu_nobody_looks_at_one(monkeypatch):
    monkeypatch.setattr(watch, "glance", None)
    here = watch.Watch("interpreter", None)
    assert here.taken() == "" and here.seen(None) == {}


@pytest.mark.parametrize(("calm", "beside"), [(0.48, 0.0), (0.0, 0.48)])
@pytest.mark.parametrize("held_to_calm", [True, False])
def test_a_load_that_nobody_can_see_is_noise_for_the_gpu_is_elsewhere(
    monkeypatch, shared, calm, beside, held_to_calm
):
    order: list[str] = []
    shared(order, calm, beside)
    monkeypatch.setattr(lanes, "yardstick", lambda *_: order.clear() or Told(order, "copy"))
    monkeypatch.setattr(lanes, "candidate", lambda *_: Told(order, "candidate"))
    rows, variant = EXERCISES["rmsnorm"], asking(COPY)
    case = fixed_case(rows, variant, variant.performance.case, 7)
    both = (Sandboxes(), Sandboxes(), rows, variant, Path("x"), case)
    seen = measure.measure_case(*both, held_to_calm=held_to_calm)
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert "GPU too noisy: " in seen.reason and len(seen.earlier) == measure.TRIES - 1
    assert "somebody else had 48% of the GPU's time" in seen.reason
    assert ("before the kernel was there, somebody" in seen.reason) == bool(calm)
    assert ("after the last pair somebody" in seen.reason) == bool(beside)
    assert seen.machine["taken_by_others_percent"] == 48.0
    assert ("candidate" in order) == bool(beside)  # beside a load it isn't even begun


def test_the_gpu_is_looked_at_around_all_pairs_and_not_between_them(monkeypatch, shared):
    order: list[str] = []
    shared(order, 0.0, 0.01)
    seen = measured(
        monkeypatch, asking(COPY), Told(order, "candidate"), {"copy": Told(order, "copy")}
    )
    assert seen.status is Status.passed and seen.machine["taken_by_others_percent"] == 1.0
    looks = [at for at, what in enumerate(order) if what == "glance"]
    assert looks == [0, len(order) - 1] and len(order) == 2 + measure.CALM_PAIRS + 2 * seen.samples


def test_a_copy_far_below_what_this_gpu_is_known_to_reach_is_noise(monkeypatch):
    moved = 2 * 8192 * 8192 * 2
    known = Roofs(moved / 90e-6, {}, is_measured=True)
    half = {"copy": Lane(180.0)}
    seen = measured(monkeypatch, asking(COPY), Lane(100.0), half, is_timed=False, roofs=known)
    assert seen.status is Status.not_measured and "too noisy" in seen.reason
    assert "a copy reached 50% of the bandwidth that was measured on this GPU" in seen.reason
    # By a data sheet that only says what would be best, nothing is known of this GPU.
    for roofs in (Roofs(moved / 90e-6, {}, is_measured=False), None):
        assert measured(monkeypatch, asking(COPY), Lane(100.0), half, roofs=roofs).microseconds
    near = {"copy": Lane(100.0)}
    assert measured(monkeypatch, asking(COPY), Lane(100.0), near, roofs=known).microseconds


def test_a_short_copy_need_not_reach_what_a_long_one_does_nor_hold_still_for_no_points(monkeypatch):
    monkeypatch.setattr(lanes, "yardstick", lambda *_: Lane(180.0))
    monkeypatch.setattr(lanes, "candidate", lambda *_: Lane(100.0))
    rows, variant = EXERCISES["rmsnorm"], asking(COPY)
    for cols, held_to_calm, status in [
        (8192, True, Status.not_measured),
        (512, True, Status.passed),
        (8192, False, Status.passed),
    ]:
        case = fixed_case(rows, variant, {"rows": 8192, "cols": cols, "dtype": "bfloat16"}, 7)
        known = Roofs(2 * 8192 * cols * 2 / 90e-6, {}, is_measured=True)
        seen = measure.measure_case(
            Sandboxes(), Sandboxes(), rows, variant, Path("x"), case,
            roofs=known, held_to_calm=held_to_calm,
        )  # fmt: skip
        assert seen.status is status, (cols, held_to_calm)


def test_a_yardstick_that_is_slower_beside_the_candidate_is_told(monkeypatch):
    seen = measured(monkeypatch, asking(COPY), Lane(100.0), {"copy": Lane(95.0, later=99.0)})
    assert seen.status is Status.not_measured and "copy ran slower beside" in seen.reason
    assert "copy took 4.2% longer beside the kernel than before it" in seen.disturbed
    assert seen.reason.endswith("(the last of 3 tries)") and len(seen.earlier) == 2
    assert all("copy ran slower" in each and "4.2% longer" in each for each in seen.earlier)
    quiet = measured(monkeypatch, asking(COPY), Lane(100.0), {"copy": Lane(95.0, later=96.0)})
    assert not quiet.disturbed and not quiet.earlier


class Disturbed(Lane):
    """A yardstick that is slower beside the candidate, or disagrees with the device, for once."""

    made = 0

    def __copy__(self) -> Lane:
        Disturbed.made += 1
        return Lane(*self._as if Disturbed.made == 1 else (95.0,))

    def __init__(self, *first: float) -> None:
        super().__init__(*first)
        self._as = first
        Disturbed.made = 0


@pytest.mark.parametrize(
    ("noise", "told"),
    [((95.0, 99.0), "copy took 4.2% longer"), ((95.0, 95.0, 1.06), "% apart")],
)
def test_after_noise_it_begins_anew_in_fresh_workers_and_the_noise_is_kept(
    monkeypatch, noise, told
):
    copied = Disturbed(*noise)
    seen = measured(monkeypatch, asking(COPY), Lane(100.0), {"copy": copied})
    assert (seen.status, len(seen.earlier), copied.made) == (Status.passed, 1, 2)
    assert told in seen.earlier[0]
    assert not seen.voids and not seen.disturbed and not seen.reason
    assert seen.yardsticks[0].ratio == pytest.approx(0.95)


def test_cases_share_yardsticks_until_there_is_noise(monkeypatch):
    variant = EXERCISES["gemm"].variants["triton_v4"]
    monkeypatch.setitem(EXERCISES, "rmsnorm", EXERCISES["gemm"])
    order: list[str] = []

    class Noted(Lane):
        def ready(self) -> Lane:
            order.append("ready")
            return self

        def again(self, layout: object) -> Lane:
            order.append("again")
            is_second = order.count("again") == 2  # noise, in the third case
            return Noted(95.0, later=99.0 if is_second else None)

        def __copy__(self) -> Lane:
            order.append("new")
            return Noted(95.0)

    lanes_ = {"copy": Noted(95.0), "torch": Lane(90.0)}
    seen = measured(monkeypatch, variant, Lane(100.0), lanes_)
    assert [len(each.earlier) for each in seen.every] == [0, 0, 1, *[0] * (len(seen.every) - 3)]
    begun = ["new", "again", "again", "new", *["again"] * (len(seen.every) - 3)]
    assert order == [word for each in begun for word in (each, "ready")]


class OfALibrary(Lane):
    """A candidate whose profile shows a kernel of cuBLAS."""

    def profiled(self) -> None:
        raise TimingFailed("it ran a kernel of cuBLAS", Status.policy_violation)


def test_what_is_found_beside_noise_ends_it_all_the_same(monkeypatch):
    noisy = {"copy": Lane(95.0, later=99.0)}
    seen = measured(monkeypatch, asking(COPY), OfALibrary(100.0), noisy, profile=True)
    assert seen.status is Status.policy_violation and not seen.earlier
    assert seen.reason == "it ran a kernel of cuBLAS"


def test_yardsticks_take_turns_in_the_calm_too(monkeypatch):
    order: list[str] = []
    variant = asking({"speed_vs": "torch", "at_least": 1.0, "points": 2})
    lanes_ = {name: Told(order, name) for name in ("copy", "torch")}
    measured(monkeypatch, variant, Told(order, "candidate"), lanes_)
    calm = 2 * measure.CALM_PAIRS
    assert order[:calm] == ["copy", "torch"] * measure.CALM_PAIRS
    assert order.index("candidate") > calm


class Slacker(Lane):
    """It fails in its third pair."""

    def pair(self) -> Pair:
        if self._taken == 2:
            raise TimingFailed("the timed run ended: timed out", Status.timed_out)
        return super().pair()


def test_a_yardstick_that_fails_in_the_calm_is_left_out_or_ends_it(monkeypatch):
    monkeypatch.setattr(
        lanes, "yardstick", lambda _, name, *__: (Slacker if name == "compile" else Lane)(95.0)
    )
    monkeypatch.setattr(lanes, "candidate", lambda *_: Lane(100.0))
    rows, variant = EXERCISES["rmsnorm"], asking(COPY)
    case = fixed_case(rows, variant, variant.performance.case, 7)
    both = (Sandboxes(), Sandboxes(), rows)
    seen = measure.measure_case(*both, variant, Path("x"), case, also=("compile",))
    assert seen.status is Status.passed and [each.name for each in seen.yardsticks] == ["copy"]
    assert seen.reason == "compile is left out: the timed run ended: timed out."
    needed = asking({"speed_vs": "compile", "at_least": 1.0, "points": 2})
    seen = measure.measure_case(*both, needed, Path("x"), case)
    assert seen.status is Status.timed_out and not seen.earlier


def looked_at(monkeypatch, *looks: GpuState) -> PerformanceEvidence:
    """A timing between these looks at a GPU: at its start, after the calm, before and after."""
    seen = iter(looks)
    monkeypatch.setattr(watch.Watch, "look", lambda *_: next(seen))
    lanes_ = {"copy": Lane(95.0)}
    return measured(monkeypatch, asking(COPY), Lane(100.0), lanes_, is_timed=False)


def on_gpu(*processes: Process, **more: object) -> GpuState:
    mine = Process(os.getpid(), "python3", 40)
    return GpuState("GPU", "GPU-1", "580", processes=(mine, *processes), **more)


OTHER = Process(4_000_000, "python3", 99)


def test_the_state_of_the_gpu_is_recorded_with_a_timing(monkeypatch):
    state = on_gpu(sm_mhz=1980, sm_most_mhz=1980, celsius=41)
    seen = looked_at(monkeypatch, state, state, state, state)
    assert seen.status is Status.passed
    told = seen.machine
    assert (told["sm_mhz"], told["celsius"], told["processes"]) == (1980, 41, 1)


@pytest.mark.parametrize("busy_in", ["the calm", "the race"])
def test_another_process_on_the_gpu_is_noise(monkeypatch, busy_in):
    alone, loaded = on_gpu(), on_gpu(OTHER)
    looks = (alone, loaded) if busy_in == "the calm" else (alone, alone, alone, loaded)
    seen = looked_at(monkeypatch, *looks)
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert "too noisy" in seen.reason and "another process: python3, pid 4000000" in seen.reason


@pytest.mark.parametrize(
    ("setting", "told"),
    [({"compute_mode": "exclusive process"}, "exclusive process"), ({"is_mps": True}, "MPS")],
)
def test_a_gpu_that_workers_cannot_share_is_told_before_any_starts(monkeypatch, setting, told):
    seen = looked_at(monkeypatch, on_gpu(**setting))
    assert seen.status is Status.not_measured and told in seen.reason


class Sleeper(Lane):
    """It sleeps in its short runs."""

    def pair(self) -> Pair:
        honest = super().pair()
        return Pair(honest.long_seconds, honest.short_seconds + 5e-4, CALLS, CALLS // 4, 1.0)


def test_a_candidate_that_sleeps_in_short_runs_is_not_measured(monkeypatch):
    seen = measured(monkeypatch, asking(COPY), Sleeper(100.0), {"copy": Lane(95.0)})
    assert seen.status is Status.not_measured
    assert "void" in seen.reason and "than a trusted worker's" in seen.reason
    assert not seen.earlier  # that was no noise


def test_what_fails_under_the_clock_is_the_evidence(monkeypatch):
    failure = TimingFailed("in a timed call: out[0, 0] is nan", Status.not_finite)
    seen = measured(monkeypatch, asking(COPY), failure, {"copy": Lane(95.0)})
    assert (seen.status, seen.reason) == (Status.not_finite, str(failure))
    little = lanes.TooLittleMemory("4 sets of buffers have 9 MiB")
    seen = measured(monkeypatch, asking(COPY), little, {"copy": Lane(95.0)})
    assert (seen.status, seen.reason) == (Status.not_measured, str(little))


def test_a_roof_and_a_limit_in_milliseconds_are_yardsticks_too(monkeypatch):
    bandwidth = 2 * 8192 * 8192 * 2 / 80e-6
    variant = asking(
        {"speed_vs": "roofline", "at_least": 0.75, "points": 2},
        {"milliseconds": {"gpu": "H100", "at_most": 0.12}, "points": 1},
    )
    roofs = Roofs(bandwidth, {}, True)
    seen = measured(monkeypatch, variant, Lane(100.0), {"copy": Lane(95.0)}, roofs=roofs)
    ratios = {each.name: each.ratio for each in seen.yardsticks}
    assert ratios["roofline"] == pytest.approx(0.8)
    assert ratios["0.12 ms"] == pytest.approx(1.2)
    without = measured(monkeypatch, variant, Lane(100.0), {"copy": Lane(95.0)})
    assert "roofline" not in {each.name for each in without.yardsticks}


def test_the_first_case_that_can_not_be_timed_ends_it(monkeypatch):
    variant = EXERCISES["gemm"].variants["triton_v4"]
    failure = TimingFailed("the timed run ended: timed out", Status.timed_out)
    monkeypatch.setitem(EXERCISES, "rmsnorm", EXERCISES["gemm"])
    seen = measured(monkeypatch, variant, failure, {"copy": Lane(95.0), "torch": Lane(90.0)})
    assert seen.status is Status.timed_out and not seen.further
    lanes_ = {"copy": Lane(95.0), "torch": Lane(90.0)}
    seen = measured(monkeypatch, variant, Lane(100.0), lanes_)
    assert len(seen.every) == len(variant.performance.every_case)


@pytest.fixture
def small(monkeypatch) -> Iterator[Variant]:
    monkeypatch.setattr(lanes, "SETS", (4,))
    monkeypatch.setattr(measure, "CALM_PAIRS", 1)
    variant = asking({"speed_vs": "torch", "at_least": 0.001, "points": 2})
    case = {"rows": 8, "cols": 256, "dtype": "float32"}
    performance = variant.performance.model_copy(update={"case": case})
    yield variant.model_copy(update={"performance": performance})


def test_the_solution_is_timed_from_the_request_to_the_evidence(python_sandbox, small, monkeypatch):
    # Over the CPU, beside other tests, no two clocks agree, and no request costs what another does.
    monkeypatch.setattr(measure, "MOST_APART", 1e9)
    monkeypatch.setattr(measure, "LEAST_COPY", 0.0)
    monkeypatch.setattr(pairs, "SLACK_SECONDS", 60.0)
    monkeypatch.setattr(race, "MOST_VOID", 1.0)
    monkeypatch.setattr(race, "CALM", 1e9)
    source = (ROOT / "reference" / small.file).read_bytes()
    path = python_sandbox.hold(small.file, source)
    budget = race.Budget(seconds=60.0, pairs=race.MIN_PAIRS)
    seen = measure.measure(python_sandbox, EXERCISES["rmsnorm"], small, path, 7, budget=budget)
    assert seen.status is Status.passed, seen
    assert {each.name for each in seen.yardsticks} == {"copy", "torch"}
    assert seen.microseconds > 0 and seen.samples == race.MIN_PAIRS


def test_a_wrong_kernel_is_not_timed_but_judged(python_sandbox, small):
    source = (ROOT / "reference" / small.file).read_text()
    broken = source.replace("/ n_cols + eps", "/ n_cols + 2 * eps + 0.01")
    assert broken != source
    path = python_sandbox.hold("broken.py", broken.encode())
    seen = measure.measure(python_sandbox, EXERCISES["rmsnorm"], small, path, 7)
    assert seen.status is Status.wrong_values and "in a timed call" in seen.reason
    assert seen.microseconds is None
