"""Turns on a GPU within one command, and the GPUs that a command is told to use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from grader.cases import Case, fixed_case
from grader.cases.compare import Verdict
from grader.evidence import PartEvidence, PerformanceEvidence, VariantEvidence
from grader.executors.gpu import GpuRunner
from grader.executors.runner import CaseResult
from grader.gpu import locks, machine
from grader.gpu.locks import GpuError
from grader.grading import process_pool
from grader.grading.check import check_part
from grader.grading.measure import measure
from grader.grading.session import Options, Session, Step
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.sandbox.sandbox import environment_of
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import timed_variant as clock
from grader.timing.contenders import Planned
from grader.timing.submission import Stopwatch
from tests.support.children import child, wait_until
from tests.support.commandline import call, one_line
from tests.support.gpu_locks import own_locks
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
SILU = EXERCISES["silu"]
TRITON = SILU.variants["triton"]
RIGHT = VariantEvidence(
    "silu", "triton", "silu.py", parts=(PartEvidence("float32", "ragged", Status.passed),)
)
SECONDS = 30.0


@pytest.fixture(autouse=True)
def locks_of_this_test(tmp_path, monkeypatch):
    own_locks(monkeypatch, tmp_path)


def is_free(name: str = "0", how: int = fcntl.LOCK_EX) -> bool:
    """Whether another command could have the GPU now."""
    with locks._open(name, "use") as use:
        try:
            fcntl.flock(use, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


# --- turns ----------------------------------------------------------------------------------------


def test_who_is_alone_is_so_within_itself_too():
    waited = []
    with locks.exclusive("0"):
        with locks.exclusive("0", lambda: waited.append(1)), locks.shared("0"):
            assert not is_free() and not is_free(how=fcntl.LOCK_SH)
        assert not is_free(how=fcntl.LOCK_SH)
        assert is_free("1")
    assert is_free() and not waited


def test_a_share_is_given_back_while_the_same_command_is_alone():
    with locks.shared("0"):
        assert is_free(how=fcntl.LOCK_SH) and not is_free()
        with locks.exclusive("0"):
            assert not is_free(how=fcntl.LOCK_SH)
        assert is_free(how=fcntl.LOCK_SH) and not is_free()
    assert is_free()


def test_what_fails_under_a_turn_gives_it_back():
    with pytest.raises(ZeroDivisionError), locks.exclusive("0"):
        _ = 1 / 0
    assert is_free() and not locks._held["0"].times_exclusive


def test_who_has_to_wait_is_told_once_and_then_has_its_turn(tmp_path):
    ready, waiting = tmp_path / "ready", []

    def hold() -> None:
        with locks.exclusive("0"):
            ready.touch()
            time.sleep(0.2)

    holding = child(hold)
    wait_until(ready.exists)
    with locks.exclusive("0", lambda: waiting.append(1)):
        assert not is_free()
    os.waitpid(holding, 0)
    assert waiting == [1]


def test_where_kernels_run_on_no_gpu_there_are_no_turns(monkeypatch):
    monkeypatch.setenv(locks.VISIBLE, "")
    with locks.exclusive_on("interpreter"), locks.shared_on("interpreter"):
        pass
    with pytest.raises(GpuError, match="there is no GPU here"), locks.exclusive_on("cuda"):
        pass


# --- who takes them -------------------------------------------------------------------------------


@pytest.fixture
def session() -> Session:
    """A session on a GPU that isn't there; nothing is run in it."""
    return Session(ROOT / "reference", EXERCISES, Options(device="cuda"))


def test_a_variant_is_timed_by_a_grader_that_is_alone_on_the_gpu(session, monkeypatch):
    free: list[bool] = []

    def timed(*_: object, **__: object) -> PerformanceEvidence:
        free.append(is_free(how=fcntl.LOCK_SH))
        return PerformanceEvidence(Status.passed)

    monkeypatch.setattr("grader.timing.submission.measure", timed)
    seen = measure(session, Task(SILU, TRITON), RIGHT)
    assert seen.performance.status is Status.passed
    assert free == [False] and is_free()


def test_a_grader_that_waits_for_the_gpu_says_so(session, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "grader.timing.submission.measure", lambda *_, **__: PerformanceEvidence(Status.passed)
    )
    ready, steps = tmp_path / "ready", []

    def hold() -> None:
        with locks.exclusive("0"):
            ready.touch()
            time.sleep(60)

    holding = child(hold)
    wait_until(ready.exists)

    def on_step(step: Step) -> None:
        steps.append(step.part)
        if step.part == "waiting for the GPU":
            end(holding)

    assert measure(session, Task(SILU, TRITON), RIGHT, on_step).performance is not None
    assert steps == ["timing", "waiting for the GPU"]


def test_baselines_import_torch_before_a_gpu_is_taken_for_them(monkeypatch):
    order: list[str] = []

    @contextlib.contextmanager
    def turn() -> Iterator[None]:
        order.append("turn")
        yield

    def timed(*_: object, **__: object) -> PerformanceEvidence:
        order.append("timed")
        return PerformanceEvidence(Status.passed)

    monkeypatch.setattr("grader.timing.submission.measure", timed)
    baselines = Mock(is_started=False, start=lambda: order.append("imports"))
    watch = Stopwatch("cuda", 7, EXERCISES, Mock(), baselines)
    assert watch.time(SILU, TRITON, turn, Mock()).status is Status.passed
    assert order == ["imports", "turn", "timed"]


def test_a_case_on_the_gpu_waits_for_whoever_times(monkeypatch):
    """And while it runs, nobody gets the GPU exclusively."""
    free: list[bool] = []

    def ran(self: GpuRunner, case: Case, inputs: object) -> CaseResult:
        free.append(is_free())
        return CaseResult(case, Verdict(Status.passed))

    monkeypatch.setattr(GpuRunner, "_result_of", ran)
    task = Task(SILU, TRITON)
    case = fixed_case(SILU, TRITON, {"n": 4, "dtype": "float32"}, 7)
    runner = GpuRunner(Sandbox("cuda", Level.limits, native=True), task, Path("silu.py"), None)
    assert runner.run(case).status is Status.passed
    assert free == [False] and is_free()


@pytest.mark.parametrize("status", [Status.passed, Status.not_measured])
def test_the_few_cases_of_a_part_that_is_right_by_plan_have_one_turn(session, monkeypatch, status):
    """What nothing is known of yet may have many cases: each of them has a turn of its own."""
    by_plan, on_gpu, free = Mock(), Mock(), {}
    by_plan.launches.take_first_met.return_value = []

    def searched(space, runner, *_: object) -> PartEvidence:
        free[runner] = is_free()
        return PartEvidence("float32", "ragged", status)

    monkeypatch.setattr(session.runners, "why_none", lambda variant: "")
    monkeypatch.setattr(session.runners, "of", lambda task: [by_plan, on_gpu])
    monkeypatch.setattr("grader.grading.check.search_part", searched)
    assert check_part(session, Task(SILU, TRITON), "float32", "ragged").status is status
    assert free == {by_plan: True, on_gpu: status is not Status.passed}


def test_the_clock_takes_the_gpu_for_all_of_a_measurement(monkeypatch):
    def timed(*_: object, **__: object) -> None:
        assert not is_free(how=fcntl.LOCK_SH)
        raise InterruptedError

    monkeypatch.setattr(clock, "Baselines", timed)
    monkeypatch.setattr(Sandbox, "start", lambda self: None)
    sandbox = Sandbox("cuda", Level.limits, native=True)
    candidate = Planned(sandbox, Task(SILU, TRITON), plans=None)
    with pytest.raises(InterruptedError):
        clock.measure(candidate, 7, trusted=Sandbox("cuda", Level.limits))
    assert is_free()


# --- --gpus ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "there", "left"), [("0,1", None, "0,1"), ("1", None, "1"), (" 3 , 5", "5,3,7", "3,5")]
)
def test_a_command_uses_the_gpus_it_is_told_to(monkeypatch, text, there, left):
    monkeypatch.setattr(locks, "_usable", lambda: 4)
    if there is None:
        monkeypatch.delenv(locks.VISIBLE)
    else:
        monkeypatch.setenv(locks.VISIBLE, there)
    assert locks.choose(text) == left.split(",")
    assert os.environ[locks.VISIBLE] == left
    assert locks.here() == left.split(",")[0]


@pytest.mark.parametrize(
    ("text", "there", "said"),
    [
        ("0,7", None, "--gpus 0,7: expected some of the GPUs here, 0, 1, got 7"),
        ("0", "2,3", "expected some of the GPUs here, 2, 3, got 0"),
        ("0", "", "expected some of the GPUs here, none, got 0"),
        ("0,0", None, "expected each GPU once, got 0 again"),
        ("", None, "expected numbers as in 0,1, or UUIDs, got ''"),
        ("0;1", None, "expected numbers as in 0,1, or UUIDs, got '0;1'"),
        ("-1", None, "expected numbers as in 0,1, or UUIDs, got '-1'"),
        ("GPU-ab12,GPU-cd34,GPU-ef56", None, "expected GPUs of this machine, CUDA has 2"),
    ],
)
def test_gpus_that_are_none_are_refused(monkeypatch, text, there, said):
    monkeypatch.setattr(locks, "_usable", lambda: 2)
    if there is None:
        monkeypatch.delenv(locks.VISIBLE)
    else:
        monkeypatch.setenv(locks.VISIBLE, there)
    with pytest.raises(GpuError) as caught:
        locks.choose(text)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("words", [["grade", "reference"], ["batch", "x", "--out", "y"]])
def test_the_command_line_refuses_gpus_that_are_not_there(capsys, monkeypatch, words):
    monkeypatch.setattr(machine, "gpu_name", lambda: None)
    refused = call(capsys, *words, "--gpus", "7")
    assert refused.code == 2
    assert one_line(refused.err) == "--gpus 7: expected some of the GPUs here, 0, got 7"


def test_a_sandbox_on_a_gpu_sees_the_gpus_that_were_chosen(session, monkeypatch):
    monkeypatch.setenv(locks.VISIBLE, "0,1")
    locks.choose("1")
    sandbox = session.runners.sandbox_of("cuda")
    environment = environment_of(sandbox.device, sandbox.scratch)
    assert environment[locks.VISIBLE] == "1"


@pytest.mark.parametrize("native", [False, True])
def test_workers_have_as_many_queues_to_a_gpu_as_students_do(native, monkeypatch):
    for name, value in process_pool.ONE_QUEUE.items():
        monkeypatch.setenv(name, value)  # as in a process of a pool, which starts them
    sandbox = Sandbox("cuda", Level.limits, native=native)
    environment = environment_of(sandbox.device, sandbox.scratch)
    assert not environment.keys() & process_pool.ONE_QUEUE
