"""What cheats on the clock neither gains time nor passes: one file for each way."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader.cases import Case, fixed_case
from grader.executors.cuda import cuda_build
from grader.executors.gpu import gpu_encoding
from grader.gpu.devices import DeviceName
from grader.grading.check import check_part
from grader.grading.measure import measure
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.spec.exercise import REFERENCE
from grader.spec.task import Task
from grader.status import Status
from grader.timing import attempt, contenders, sequential
from grader.timing.attempt import MOST_APART
from grader.timing.baselines import Baselines
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import Planned
from grader.timing.failures import TimingFailed
from grader.timing.graph_replays import Replays
from grader.timing.timed_variant import measure_case
from tests.support import clock_cheats
from tests.support.clock_cheats import EXERCISES, SLOW, TIMED, UNDECIDED, Cheat

CHEATS = clock_cheats.load()
COUNT = 1 << 24  # elements where it is timed: the files know that number
FEW = 1 << 18  # for what is slow
AS_FAST = 1.03  # over the honest kernel: what a measurement can't tell apart, and a bit more
ROUNDS = 9
CACHES = 8  # the line about caches, of "how kernel graders get cheated"
SELDOM = 8 << 30  # bytes of buffer sets of which only a few are used in each replay
BRIEF = Effort(
    repair_seconds=0,  # what changes would undo is told by tests of their own
    edges=3,
    drawn=0,
    shrink_runs=0,
    shrink_seconds=0.0,
    probe_seconds=0.0,
    reruns=1,
    enough=1,
    compile_ahead=False,
)
PART = "float32", "ragged"

needs_emulator = pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")
)
needs_nvcc = pytest.mark.skipif(bool(cuda_build.why_not("gpu")), reason=cuda_build.why_not("gpu"))

Open = Callable[..., Session]


def ids(cheats: list[Cheat], *in_cuda: pytest.MarkDecorator) -> list:
    return [
        pytest.param(
            each,
            id=f"{each.line}-{each.key}",
            marks=in_cuda if each.variant.language == "cuda" else (),
        )
        for each in cheats
    ]


FAULTY = [each for each in CHEATS if not each.by_plan <= UNDECIDED]
TO_BE_TIMED = [each for each in CHEATS if each.on_gpu - {Status.not_measured}]
WITHOUT_PLAN = [each for each in CHEATS if each.on_gpu == {Status.not_measured}]


@pytest.fixture
def opened(tmp_path: Path, shared_sandbox: Sandbox) -> Iterator[Open]:
    """Sessions of one file each, which end with the test."""
    with contextlib.ExitStack() as stack:

        def open_session(cheat: Cheat, device: DeviceName = "cpu") -> Session:
            (tmp_path / cheat.variant.file).write_bytes(cheat.source)
            return stack.enter_context(session(tmp_path, device, shared_sandbox))

        yield open_session


def session(folder: Path, device: DeviceName, sandbox: Sandbox) -> Session:
    return Session(
        folder,
        EXERCISES,
        Options(seed=7, device=device, effort=BRIEF, check_with_nvcc=False, backends=("emulator",)),
        sandbox=sandbox,
    )


def timed_case(exercise, variant, count: int = COUNT) -> Case:
    return fixed_case(Task(exercise, variant), {"n": count, "dtype": "float32"}, 7)


def planned_by(opened_session: Session, cheat: Cheat) -> Planned:
    return opened_session.stopwatch.planned(cheat.task)


# --- without a GPU --------------------------------------------------------------------------------


def test_every_line_of_how_clocks_are_cheated_has_a_file() -> None:
    assert {each.line for each in CHEATS} == set(range(1, 11))
    assert len({each.source for each in CHEATS}) == len(CHEATS) >= 40
    assert len([each for each in TO_BE_TIMED if each.variant.language == "cuda"]) >= 12


@pytest.mark.parametrize("cheat", ids(CHEATS, needs_emulator))
def test_by_plan_it_gets_its_status(cheat: Cheat, opened: Open) -> None:
    part = check_part(opened(cheat), cheat.task, *PART)
    assert part.status in cheat.by_plan, part


@pytest.mark.parametrize("cheat", ids(TO_BE_TIMED, needs_emulator, needs_nvcc))
def test_the_clock_is_given_a_plan_of_it(cheat: Cheat, opened: Open) -> None:
    planned = planned_by(opened(cheat), cheat)
    case = timed_case(cheat.exercise, cheat.variant)
    arguments = Layout.of(cheat.task, case).arguments(0)
    assert planned.plans.documents(case, arguments)


@pytest.mark.parametrize("cheat", ids(WITHOUT_PLAN))
def test_what_has_no_plan_is_not_timed(cheat: Cheat, opened: Open) -> None:
    planned = planned_by(opened(cheat), cheat)
    case = timed_case(cheat.exercise, cheat.variant)
    arguments = Layout.of(cheat.task, case).arguments(0)
    with pytest.raises(TimingFailed) as caught:
        planned.plans.documents(case, arguments)
    assert caught.value.status is Status.not_measured


@pytest.mark.parametrize(
    ("name", "overlapping"),
    [
        pytest.param("overlaps_the_clocks_end_triton", [False, True]),
        pytest.param(
            "overlaps_the_clocks_end_cuda", [False, True], marks=[needs_emulator, needs_nvcc]
        ),
        # What stands first on a stream would overlap the call before it.
        pytest.param(
            "overlaps_the_next_call_cuda", [False, False], marks=[needs_emulator, needs_nvcc]
        ),
    ],
)
def test_a_launch_overlaps_only_one_of_its_own_call_and_stream(
    name: str, overlapping: list[bool], opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    [cheat] = [each for each in CHEATS if each.key == name]
    found: list[bool] = []
    launched = gpu_encoding._Encoder._launched

    def seen(self, *given):
        found.append(bool(given[-1] & gpu_encoding._PROGRAMMATIC))
        return launched(self, *given)

    monkeypatch.setattr(gpu_encoding._Encoder, "_launched", seen)
    planned = planned_by(opened(cheat), cheat)
    case = timed_case(cheat.exercise, cheat.variant)
    arguments = Layout.of(cheat.task, case).arguments(0)
    assert len(planned.plans.documents(case, arguments)) == 1
    assert found == overlapping


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest(shared_sandbox: Sandbox) -> Iterator[Callable[[Cheat], Replays]]:
    """The staff's solution of a variant, under the clock while all files are timed beside it."""
    begun: dict[str, Replays] = {}
    with contextlib.ExitStack() as stack:
        reference = stack.enter_context(session(REFERENCE, "cuda", shared_sandbox))

        def of(cheat: Cheat) -> Replays:
            exercise, variant = cheat.exercise, cheat.variant
            if variant.file not in begun:
                planned = reference.stopwatch.planned(Task(exercise, variant))
                begun[variant.file] = planned.begin(timed_case(exercise, variant), stack)
                begun[variant.file].settle()
            return begun[variant.file]

        yield of


@pytest.mark.gpu
@pytest.mark.parametrize("cheat", ids(FAULTY, needs_emulator))
def test_on_a_gpu_what_is_wrong_by_plan_has_no_time(cheat: Cheat, opened: Open) -> None:
    on_gpu = opened(cheat, "cuda")
    part = check_part(on_gpu, cheat.task, *PART)
    assert part.status in cheat.by_plan, part
    evidence = replace(on_gpu.blank_evidence(cheat.task), parts=(part,))
    assert measure(on_gpu, cheat.task, evidence).performance is None


@pytest.mark.gpu
@pytest.mark.parametrize(
    "cheat", ids([each for each in TO_BE_TIMED if SLOW not in each.on_gpu], needs_nvcc)
)
def test_on_a_gpu_it_gains_nothing(
    cheat: Cheat,
    opened: Open,
    honest: Callable[[Cheat], Replays],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = honest(cheat)
    planned = planned_by(opened(cheat, "cuda"), cheat)
    try:
        gained = gain(planned, cheat, other)
    except TimingFailed as failed:
        assert failed.status in cheat.on_gpu, failed
        return
    assert TIMED in cheat.on_gpu
    if cheat.line == CACHES and gained > AS_FAST:
        # A hint for the cache may make each call faster by itself. That is earned: it is as fast
        # where its sets return so seldom that an earlier call can have left nothing.
        monkeypatch.setattr(contenders, "ENOUGH_BYTES", SELDOM)
        gained /= gain(planned, cheat, other)
    assert gained <= AS_FAST


def gain(planned: Planned, cheat: Cheat, honest: Replays) -> float:
    """How many times as fast it is as what is honest. Raises TimingFailed."""
    with contextlib.ExitStack() as stack:
        replays = planned.begin(timed_case(cheat.exercise, cheat.variant), stack)
        replays.settle()
        replays.calls = min(replays.calls, honest.calls)
        ratios = []
        for _ in range(ROUNDS):
            other = honest.seconds()
            ratios.append(other / replays.seconds())
        longer = 1 + replays.apart if replays.apart > MOST_APART else 1.0
        return statistics.median(ratios) / longer


@pytest.mark.gpu
@pytest.mark.parametrize("cheat", ids([each for each in TO_BE_TIMED if SLOW in each.on_gpu]))
def test_on_a_gpu_what_is_slow_has_missed_its_thresholds(cheat: Cheat, opened: Open) -> None:
    on_gpu = opened(cheat, "cuda")
    case = timed_case(cheat.exercise, cheat.variant, FEW)
    trusted = on_gpu.stopwatch.trusted
    trusted.start()
    planned = planned_by(on_gpu, cheat)
    options = attempt.Options(budget=sequential.Budget(seconds=1.0))
    with Baselines(trusted, planned.sandbox, planned.task, [case], None) as baselines:
        seen = measure_case(planned, baselines, case, options)
    assert seen.status is Status.passed, seen
    assert all(each.ratio < 0.1 for each in seen.baselines)
