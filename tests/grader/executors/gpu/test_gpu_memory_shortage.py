"""A case that finds too little memory on a GPU: whose doing that was shows when it runs alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.answers import Answers
from grader.executors.executor import Executor, limits_of
from grader.executors.gpu import gpu_runner
from grader.executors.gpu.gpu_runner import GpuRunner
from grader.executors.runner import CaseResult, Runner, Times
from grader.gpu import locks
from grader.grading.session import Options, Session
from grader.sandbox import Sandbox
from grader.spec import EXERCISES, load
from grader.spec.task import Task
from grader.status import Status
from tests.support.gpu_locks import own_locks
from tests.support.small_exercise import ROOT

SILU = load(EXERCISES / "silu.yaml")
CASE = Case((("n", 8),), "float32", seed=1)
SOLUTION = ROOT / "reference" / "silu.py"
FULL = CaseResult(CASE, Verdict(Status.out_of_memory, "the entry raised OutOfMemoryError."))
RIGHT = CaseResult(CASE, Verdict(Status.passed))

Scripted = Callable[..., tuple[Runner, list[bool]]]


@pytest.fixture(autouse=True)
def locks_of_this_test(tmp_path, monkeypatch):
    own_locks(monkeypatch, tmp_path)


@pytest.fixture
def scripted(monkeypatch) -> Scripted:
    """A runner on a GPU that isn't there; what its runs show, and which of them were alone."""

    def make(*results: CaseResult, free: int = 1 << 40) -> tuple[Runner, list[bool]]:
        made = GpuRunner(Sandbox("cuda"), Task(SILU, SILU.variants["triton"]), SOLUTION, None)
        alone: list[bool] = []
        left = iter(results)

        def run(*_: object) -> CaseResult:
            alone.append(locks.is_exclusive_on("cuda"))
            return next(left)

        monkeypatch.setattr(made, "_run", run)
        monkeypatch.setattr(gpu_runner, "_free_gpu_bytes", lambda: free)
        return made, alone

    return make


def test_what_passes_alone_was_short_of_memory_that_others_had(scripted: Scripted) -> None:
    one, alone = scripted(FULL, RIGHT)
    with locks.shared_on("cuda"):
        assert one.run(CASE).verdict.passed
        assert not locks.is_exclusive_on("cuda")
    assert alone == [False, True]


def test_what_takes_too_much_takes_too_much_alone(scripted: Scripted) -> None:
    one, alone = scripted(FULL, FULL, free=SILU.limits.memory_mb << 20)
    assert one.run(CASE) is FULL
    assert alone == [False, True]


def test_where_programs_that_take_no_turns_have_the_memory_nothing_is_known(
    scripted: Scripted,
) -> None:
    one, _ = scripted(FULL, FULL, free=100 << 20)
    seen = one.run(CASE)
    assert seen.status is Status.not_measured
    allowed = SILU.limits.memory_mb
    assert f"only 100 MiB of the GPU's memory are free, {allowed} are allowed" in seen.verdict.what


def test_who_is_alone_already_is_believed(scripted: Scripted) -> None:
    one, alone = scripted(FULL)
    with locks.exclusive_on("cuda"):
        assert one.run(CASE) is FULL
    assert alone == [True]


class Full(Executor):
    """A worker without a GPU whose cases find too little memory."""

    def _start(self, count: int) -> CaseResult:
        return FULL

    def _ask(self, *_: object) -> CaseResult:
        raise AssertionError("it never starts")


def test_without_a_gpu_memory_is_each_workers_own() -> None:
    task = Task(SILU, SILU.variants["triton"])
    with Full(task, SOLUTION, Answers(task, SOLUTION, limits_of(task)), Times()) as one:
        assert one.run(CASE) == FULL
        assert one.times.runs == 1


HOARD = """
import fcntl, time, torch
from grader.gpu import locks

with locks.shared_on("cuda"), locks._open(locks.here(), "turn") as turn:
    kept = torch.empty(torch.cuda.mem_get_info()[0] - (16 << 20), dtype=torch.uint8, device="cuda")
    print("ready", flush=True)
    while True:
        try:
            fcntl.flock(turn, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody waits to be alone
            break
        fcntl.flock(turn, fcntl.LOCK_UN)
        time.sleep(0.05)
    del kept
    torch.cuda.empty_cache()
print("made way", flush=True)
"""


@pytest.fixture
def hoarding(tmp_path) -> Iterator[subprocess.Popen]:
    """Another command's kernel that has all of the GPU's memory, until somebody is to be alone."""
    command = [sys.executable, "-c", HOARD]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the locks of this test
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as started:
        assert started.stdout.readline() == "ready\n"
        yield started
        started.kill()


@pytest.mark.gpu
def test_on_a_gpu_another_kernels_hoard_is_nobody_elses_failure(hoarding) -> None:
    with Session(SOLUTION.parent, {"silu": SILU}, Options(device="cuda")) as session:
        one = session.runners.on_gpu(Task(SILU, SILU.variants["triton"]))
        with locks.shared_on("cuda"):
            assert one.run(CASE).verdict.passed
            assert one.times.workers >= 2  # the first found no memory
    assert hoarding.stdout.readline() == "made way\n"
