"""The clock stands outside: what cheats on it neither gains time nor passes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import pytest

from grader.arena import Arena
from grader.inputs import blank_argument
from grader.race import Void
from grader.sandbox import Sandbox
from grader.status import Status
from grader.supervision import Limits
from grader.timing.pairs import HONEST_SECONDS, FixedCost, Pair, TimedPairs, credited
from grader.timing.request_page import RequestPage
from grader.timing.worker import TimingFailed, expect_ok
from grader.worker.protocol import PAGE_BYTES, Operation
from tests.grader.clocked import HONEST, SETS, fails_with, timed


@pytest.fixture(scope="module")
def gpu_sandbox() -> Iterator[Sandbox]:
    with Sandbox("cuda") as sandbox:
        yield sandbox


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return request.getfixturevalue("gpu_sandbox" if request.param == "cuda" else "python_sandbox")


# --- the clock ------------------------------------------------------------------------------------


def test_an_honest_one_is_timed_pair_by_pair(sandbox):
    with timed(sandbox, HONEST) as candidate:
        candidate.settle()
        pairs = [candidate.pair() for _ in range(5)]
    for pair in pairs:
        assert 1 <= pair.short_calls < pair.long_calls <= SETS
        # What the worker saw lies within what was seen from outside.
        assert 0 < pair.inside_seconds < pair.long_seconds


def test_what_takes_longer_is_seen_to_take_longer(sandbox):
    slow = HONEST + "    import time\n    time.sleep(0.02)\n"
    with timed(sandbox, slow) as candidate:
        candidate.settle()
        slopes = sorted(candidate.pair().slope for _ in range(3))
    assert slopes[1] > 0.01


@pytest.mark.parametrize(
    ("long", "short", "expected"),
    [
        (0.0100, 0.0028, 0.0100 - 0.0002),  # its requests cost more than a trusted worker's
        (0.0098, 0.0027, 0.0098 - 0.0002),
        (0.0100, 0.0026, 0.0074 * 16 / 12),  # they cost less: the slope, which is more
        (0.0100, 0.0023, 0.0077 * 16 / 12),
    ],
)
def test_a_call_is_credited_the_larger_of_slope_and_what_the_long_run_took(long, short, expected):
    worth = credited(Pair(long, short, 16, 4), fixed=0.0002 - HONEST_SECONDS)
    assert math.isclose(worth, expected / 16, rel_tol=1e-9)


def test_sleeping_in_the_short_runs_gains_no_more_than_an_honest_request_may_cost():
    honest = Pair(0.0100, 0.0025, 16, 4)
    least = honest.slope - HONEST_SECONDS / honest.long_calls  # 0.6 % less
    for slept in (0.0001, 0.0005, 0.002, 0.007):
        pair = Pair(honest.long_seconds, honest.short_seconds + slept, 16, 4)
        assert pair.slope < honest.slope
        worth = credited(pair, fixed=0.0)
        assert isinstance(worth, Void) or worth >= least * (1 - 1e-9)
    assert isinstance(worth, Void) and "than a trusted worker" in worth.reason


def test_a_slope_that_is_none_is_void():
    assert isinstance(credited(Pair(0.001, 0.0011, 16, 4), fixed=0.002), Void)


def test_the_fixed_cost_is_the_median_of_trusted_pairs():
    cost = FixedCost()
    for extra in (1e-5, 3e-5, 9e-4):
        cost.add(Pair(16e-4 + extra, 4e-4 + extra, 16, 4))
    assert math.isclose(cost.seconds, 3e-5, rel_tol=1e-6)


def test_the_page_keeps_its_size_whoever_has_it():
    with RequestPage() as page:
        for length in (0, 2 * PAGE_BYTES):
            with pytest.raises(PermissionError):
                os.ftruncate(page.descriptor, length)


# --- what is wrong ------------------------------------------------------------------------------

HALF = HONEST + "    out[-7:] = 0\n"
POISONED = HONEST + "    out[12345] = float('nan')\n"


@pytest.mark.parametrize(
    ("source", "statuses"),
    [
        pytest.param(HALF, {Status.wrong_values}, id="leaves_the_end_out"),
        pytest.param(POISONED, {Status.not_finite}, id="one_element_not_finite"),
    ],
)
def test_a_wrong_element_ends_the_timing(sandbox, source, statuses):
    failed = fails_with(sandbox, source, pairs=8)
    assert failed.status in statuses, failed


def test_a_store_to_an_input_ends_the_worker(sandbox):
    failed = fails_with(sandbox, HONEST + "    x.add_(1.0)\n")
    told = "illegal memory access" if sandbox.device == "cuda" else "SIGSEGV"
    assert failed.status is Status.crashed and told in str(failed)


def test_what_the_entry_raises_is_told(sandbox):
    failed = fails_with(sandbox, "def silu(x, out):\n    raise ValueError('no block fits')\n")
    assert failed.status is Status.crashed and "no block fits" in str(failed)


def test_the_end_of_the_worker_is_told(sandbox):
    failed = fails_with(sandbox, "import os\ndef silu(x, out):\n    os._exit(3)\n")
    assert failed.status is Status.crashed and "exit status 3" in str(failed)


def test_a_worker_that_never_answers_is_given_up(sandbox, monkeypatch):
    monkeypatch.setattr(TimedPairs, "_limit", lambda self, count: 0.3)
    failed = fails_with(sandbox, "def silu(x, out):\n    while True: pass\n")
    assert failed.status is Status.timed_out


def test_the_next_worker_comes_as_if_nothing_had_been(sandbox):
    fails_with(sandbox, HONEST + "    x[0] = 1.0\n")
    with timed(sandbox, HONEST) as candidate:
        candidate.settle()
        candidate.pair()


def test_a_worker_told_to_stop_answers_on_its_socket(python_sandbox):
    with RequestPage() as page, Arena(4096, 4096) as arena:
        path = python_sandbox.hold("stops.py", HONEST.encode())
        worker = python_sandbox.worker(
            path, "silu", arena.buffers, Limits(10.0, 2 << 30), page=page.descriptor
        )
        expect_ok(worker.ask(Operation.load, [blank_argument()] * 2))
        assert worker.post(Operation.stand_by) is None
        page.stop()
        expect_ok(worker.wait())
        worker.close()


def test_without_a_page_nobody_stands_by(python_sandbox):
    with Arena(4096, 4096) as arena:
        path = python_sandbox.hold("no_page.py", HONEST.encode())
        worker = python_sandbox.worker(path, "silu", arena.buffers, Limits(10.0, 2 << 30))
        with pytest.raises(TimingFailed, match="no page to stand by"):
            expect_ok(worker.ask(Operation.stand_by))
        worker.close()
