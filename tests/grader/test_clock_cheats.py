"""What cheats on the clock neither gains time nor passes: one file for each way."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from grader.race import Void
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.status import Status
from grader.timing.measure import measure
from grader.timing.pairs import FixedCost, credited
from tests.grader import clock_cheats
from tests.grader.clock_cheats import Cheat
from tests.grader.clocked import HONEST, fails_with, timed

CHEATS = clock_cheats.load()
PAIRS = 8
MANY_PAIRS = 24  # whose median is told apart from another's
ON_A_GPU = 2**25  # elements: long against a launch
AS_FAST = 0.97  # of what is honest: what a measurement can't tell apart, and a bit more


def ids(cheats: list[Cheat]) -> list:
    return [pytest.param(each, id=f"{each.line}-{each.name}") for each in cheats]


def of(*outcomes: str, without_gpu: bool) -> list:
    kept = [each for each in CHEATS if each.outcome in outcomes]
    return ids([each for each in kept if not (without_gpu and each.needs_gpu)])


@pytest.fixture(scope="module")
def gpu_sandbox() -> Iterator[Sandbox]:
    with Sandbox("cuda") as sandbox:
        yield sandbox


def test_every_line_of_how_clocks_are_cheated_has_a_file() -> None:
    assert {each.line for each in CHEATS} == set(range(1, 11))
    assert {each.line for each in CHEATS if not each.needs_gpu} == {2, 3, 4, 5, 6, 7, 9, 10}
    assert len({each.source for each in CHEATS}) == len(CHEATS) >= 20


def expect_status(sandbox: Sandbox, cheat: Cheat) -> None:
    failed = fails_with(sandbox, cheat.source, pairs=PAIRS)
    assert failed.status in cheat.statuses, failed


def seconds_of(
    sandbox: Sandbox, source: str, n: int, count: int = MANY_PAIRS
) -> list[float | Void]:
    """What each pair is worth, where a request of an honest one costs as much as its own."""
    with timed(sandbox, HONEST, n) as honest:
        honest.settle()
        fixed = FixedCost()
        for _ in range(3):
            fixed.add(honest.pair())
    with timed(sandbox, source, n) as candidate:
        candidate.settle()
        return [credited(candidate.pair(), fixed.seconds) for _ in range(MANY_PAIRS)]


@pytest.mark.parametrize("cheat", of("", without_gpu=True))
def test_the_timing_ends_with_what_is_wrong(cheat: Cheat, python_sandbox: Sandbox) -> None:
    expect_status(python_sandbox, cheat)


@pytest.mark.parametrize("cheat", of("timed", without_gpu=True))
def test_what_is_timed_takes_as_long_as_it_takes(cheat: Cheat, python_sandbox: Sandbox) -> None:
    with timed(python_sandbox, cheat.source) as candidate:
        candidate.settle()
        pairs = [candidate.pair() for _ in range(3)]
    assert all(pair.long_calls > pair.short_calls for pair in pairs)
    # Of a long run, not of a slope: on a busy machine that is anything.
    assert all(pair.long_seconds / pair.long_calls >= cheat.at_least for pair in pairs)


@pytest.mark.parametrize("cheat", of("void", without_gpu=True))
def test_no_pair_of_it_counts(cheat: Cheat, python_sandbox: Sandbox) -> None:
    with timed(python_sandbox, cheat.source) as candidate:
        candidate.settle()
        found = [credited(candidate.pair(), fixed=0.001) for _ in range(3)]
    assert all(isinstance(each, Void) for each in found), found


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("cheat", of("", without_gpu=False))
def test_on_a_gpu_the_timing_ends_with_what_is_wrong(cheat: Cheat, gpu_sandbox: Sandbox) -> None:
    expect_status(gpu_sandbox, cheat)


@pytest.mark.gpu
@pytest.mark.parametrize("cheat", of("timed", "void", without_gpu=False))
def test_on_a_gpu_it_gains_nothing(cheat: Cheat, gpu_sandbox: Sandbox) -> None:
    found = seconds_of(gpu_sandbox, cheat.source, ON_A_GPU)
    counting = [each for each in found if not isinstance(each, Void)]
    if cheat.outcome == "void":
        assert not counting
        return
    honest = [
        each for each in seconds_of(gpu_sandbox, HONEST, ON_A_GPU) if not isinstance(each, Void)
    ]
    assert len(honest) > MANY_PAIRS // 2
    if counting:  # all void: nothing measured, nothing gained
        least = max(cheat.at_least, AS_FAST * statistics.median(honest))
        assert statistics.median(counting) >= least


@pytest.mark.gpu
@pytest.mark.parametrize("cheat", of("disturbed", without_gpu=False))
def test_on_a_gpu_who_slows_the_yardstick_is_told_or_slows_itself_alone(
    cheat: Cheat, gpu_sandbox: Sandbox
) -> None:
    exercise = load_all()["silu"]
    path = gpu_sandbox.hold(f"{cheat.name}.py", cheat.source.encode())
    seen = measure(gpu_sandbox, exercise, exercise.variants["triton"], path, 7)
    only_itself = all(each.at_best < AS_FAST for each in seen.yardsticks)
    assert seen.status is Status.not_measured or seen.disturbed or only_itself, seen
