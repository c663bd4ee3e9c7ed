"""Turns on a GPU within one command, and the GPUs that a command is told to use."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock
from unittest.mock import call as call_of

import pytest

from grader.cases import Case, fixed_case
from grader.cases.compare import Verdict
from grader.evidence import PartEvidence, VariantEvidence
from grader.executors.gpu import GpuRunner
from grader.executors.runner import CaseResult
from grader.gpu import locks, machine
from grader.gpu.locks import GpuError
from grader.grading import process_pool
from grader.grading.check import check_part
from grader.grading.session import Options, Session
from grader.plan import Plan
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.sandbox.environment import environment_of
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing import attempt, watch
from grader.timing.baselines import Baselines
from grader.timing.contenders import Planned
from grader.timing.failures import TimingFailed
from grader.timing.submission import Stopwatch
from tests.support.children import child, end, wait_until
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


# --- turns ----------------------------------------------------------------------------------------


def test_who_is_alone_is_so_within_itself_too():
    waited = []
    with locks.exclusive_on("cuda"):
        with locks.exclusive_on("cuda", lambda: waited.append(1)), locks.shared_on("cuda"):
            assert not is_free() and not is_free(how=fcntl.LOCK_SH)
        assert not is_free(how=fcntl.LOCK_SH)
        assert is_free("1")
    assert is_free() and not waited


def test_a_share_is_given_back_while_the_same_command_is_alone():
    with locks.shared_on("cuda"):
        assert is_free(how=fcntl.LOCK_SH) and not is_free()
        with locks.exclusive_on("cuda"):
            assert not is_free(how=fcntl.LOCK_SH)
        assert is_free(how=fcntl.LOCK_SH) and not is_free()
    assert is_free()


def test_what_fails_under_a_turn_gives_it_back():
    with pytest.raises(ZeroDivisionError), locks.exclusive_on("cuda"):
        _ = 1 / 0
    assert is_free() and not locks._held.times_exclusive


def test_who_has_to_wait_is_told_once_and_then_has_its_turn(tmp_path):
    ready, waiting = tmp_path / "ready", []

    def hold() -> None:
        with locks.exclusive_on("cuda"):
            ready.touch()
            time.sleep(0.2)

    holding = child(hold)
    wait_until(ready.exists)
    with locks.exclusive_on("cuda", lambda: waiting.append(1)):
        assert not is_free()
    os.waitpid(holding, 0)
    assert waiting == [1]


def test_where_kernels_run_on_no_gpu_there_are_no_turns(monkeypatch):
    monkeypatch.setenv(locks.VISIBLE, "")
    with locks.exclusive_on("cpu"), locks.shared_on("cpu"):
        pass
    with pytest.raises(GpuError, match="there is no GPU here"), locks.exclusive_on("cuda"):
        pass


# --- who takes them -------------------------------------------------------------------------------


@pytest.fixture
def session() -> Session:
    """A session on a GPU that isn't there; nothing is run in it."""
    return Session(ROOT / "reference", EXERCISES, Options(device="cuda"))


@pytest.fixture
def timed(monkeypatch) -> Callable[..., list[str]]:
    """Begins to time a variant: what was done, and who else could have had the GPU meanwhile."""

    def time_(waiting: Callable[[], None] = lambda: None) -> list[str]:
        order: list[str] = []

        def noted(name: str) -> Callable[..., None]:
            def note(*_: object) -> None:
                others = "shared" if is_free(how=fcntl.LOCK_SH) else "nobody"
                order.append(f"{name}: {'all' if is_free() else others}")
                if name == "baselines settle":
                    raise TimingFailed("enough", Status.not_measured)

            return note

        standing = Mock(wait=noted("executor is ready"))
        monkeypatch.setattr(Planned, "executor", lambda *_: standing)
        monkeypatch.setattr(Baselines, "expect", noted("workers begin"))
        monkeypatch.setattr(attempt.Attempt, "_start_baselines", noted("baselines start"))
        monkeypatch.setattr(attempt.Attempt, "_settle_baselines", noted("baselines settle"))
        monkeypatch.setattr(watch.Watch, "probe", lambda *_: None)
        trusted = Mock(is_started=False, start=noted("baselines import"), device="cuda")
        runners = Mock()
        runners.sandbox_of.return_value = Sandbox("cuda", Level.limits, kind="native")
        stopwatch = Stopwatch("cuda", 7, EXERCISES, runners, trusted)
        assert stopwatch.time(Task(SILU, TRITON), waiting, Mock()).reason == "enough"
        assert is_free()
        return order

    return time_


def test_workers_start_beside_checks_and_are_timed_by_a_grader_that_is_alone(timed):
    assert timed() == [
        "baselines import: all",
        "workers begin: shared",
        "baselines start: shared",
        "executor is ready: shared",
        "baselines start: nobody",  # the solution, which is tuned
        "baselines settle: nobody",
    ]


def test_a_grader_that_waits_for_the_gpu_says_so(timed, monkeypatch, tmp_path):
    ready, waited = tmp_path / "ready", []

    def hold() -> None:
        with locks.shared_on("cuda"):
            ready.touch()
            time.sleep(60)

    holding = child(hold)
    wait_until(ready.exists)

    def waiting() -> None:
        waited.append(1)
        end(holding)

    timed(waiting)
    assert waited == [1]


def test_one_process_at_a_time_prepares_to_time(tmp_path):
    """Each takes memory of the GPU for its workers."""
    ready = tmp_path / "ready"

    def prepare() -> None:
        with locks.next_on("cuda"):
            ready.touch()
            time.sleep(60)

    preparing = child(prepare)
    wait_until(ready.exists)
    with locks._open("0", "next") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with locks.exclusive_on("cuda"), locks.next_on("cuda"):  # who has the GPU waits for nobody
        pass
    with locks.next_on("cpu"):
        pass
    end(preparing)
    with locks.next_on("cuda"):
        pass


def test_kernels_are_compiled_before_the_gpu_is_taken_for_their_cases(session, monkeypatch):
    by_plan, on_gpu, order = Mock(), Mock(), []
    by_plan.launches.take_first_met.return_value = []
    on_gpu.expect = lambda cases: order.append(("compiled", len(cases), is_free()))

    def searched(space, runner, *_: object) -> PartEvidence:
        order.append(("searched", is_free()))
        return PartEvidence("float32", "ragged", Status.passed)

    monkeypatch.setattr(session.runners, "why_none", lambda variant: "")
    monkeypatch.setattr(session.runners, "of", lambda task: [by_plan, on_gpu])
    monkeypatch.setattr("grader.grading.check.search_part", searched)
    monkeypatch.setattr("grader.grading.large_sizes.with_launches", lambda *given: given[-1])
    check_part(session, Task(SILU, TRITON), "float32", "ragged")
    assert order == [("searched", True), ("compiled", 2, True), ("searched", False)]


def test_what_is_compiled_ahead_is_each_cases_kernels_once(monkeypatch):
    plans, case = Mock(), fixed_case(Task(SILU, TRITON), {"n": 4, "dtype": "float32"}, 7)
    plans.planned.return_value = Plan(1, "triton", (), (), ((),))
    sandbox = Sandbox("cuda", Level.limits, kind="native")
    with GpuRunner(sandbox, Task(SILU, TRITON), Path("silu.py"), plans) as runner:
        runner.expect([case, case])
        runner.expect([case])
        assert plans.compiled_steps.call_args_list == [call_of(case, plans.planned.return_value)]
    of_documents = GpuRunner(sandbox, Task(SILU, TRITON), Path("silu.py"), None)
    of_documents.expect([case])  # these have been compiled


def test_a_case_on_the_gpu_waits_for_whoever_times(monkeypatch):
    """And while it runs, nobody gets the GPU exclusively."""
    free: list[bool] = []

    def ran(self: GpuRunner, case: Case, inputs: object) -> CaseResult:
        free.append(is_free())
        return CaseResult(case, Verdict(Status.passed))

    monkeypatch.setattr(GpuRunner, "_result_of", ran)
    task = Task(SILU, TRITON)
    case = fixed_case(Task(SILU, TRITON), {"n": 4, "dtype": "float32"}, 7)
    runner = GpuRunner(Sandbox("cuda", Level.limits, kind="native"), task, Path("silu.py"), None)
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


@pytest.mark.parametrize("kind", ["python", "native"])
def test_workers_have_as_many_queues_to_a_gpu_as_students_do(kind, monkeypatch):
    for name, value in process_pool.ONE_QUEUE.items():
        monkeypatch.setenv(name, value)  # as in a process of a pool, which starts them
    sandbox = Sandbox("cuda", Level.limits, kind=kind)
    environment = environment_of(sandbox.device, sandbox.scratch)
    assert not environment.keys() & process_pool.ONE_QUEUE
