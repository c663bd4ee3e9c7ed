"""A kernel that looks at the GPU's clock says what others have of its time."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import pytest
import triton

from benchmarks.repeated_grades import loaded_gpu
from grader.gpu import contention
from grader.gpu.contention import COARSEST_MICROSECONDS, MOST_TAKEN, Probe, too_much
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.worker.gpu_mapping import GpuMemoryError

ROOT = Path(__file__).resolve().parents[3]
PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


def test_what_others_had_is_a_share_of_what_was_watched():
    assert Probe(0.05, 0.0, 1_500_000).share == 0.0
    assert Probe(0.05, 0.01, 1_200_000).share == pytest.approx(0.2)


def test_a_clock_of_long_steps_tells_nothing():
    step = COARSEST_MICROSECONDS * 1e-6
    assert Probe(0.05, 0.0, round(0.05 / step) + 1).share == 0.0
    assert Probe(0.05, 0.04, round(0.01 / step) + 1).share == pytest.approx(0.8)  # none while away
    assert Probe(0.05, 0.0, round(0.05 / step) - 1).share is None
    assert Probe(0.05, 0.0, 0).share is None  # it stands still
    assert Probe(0.0, 0.0, 0).share is None


def test_what_is_too_much_is_told_in_percent():
    assert too_much(MOST_TAKEN) == too_much(0.0) == too_much(None) == ""
    assert too_much(0.475) == "somebody else had 48% of the GPU's time"


@pytest.fixture
def no_kernel_yet():
    contention._kernel.cache_clear()
    yield
    contention._kernel.cache_clear()


def test_where_the_kernel_cannot_be_loaded_nothing_is_seen(monkeypatch, no_kernel_yet):
    for module in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, module, None)
    assert contention.share_of_others() is None


def refused(*_: object) -> None:
    raise GpuMemoryError("watching the GPU's clock: CUDA_ERROR_LAUNCH_FAILED")


def test_where_the_driver_refuses_nothing_is_seen_and_the_kernel_is_loaded_once(
    monkeypatch, no_kernel_yet
):
    made = []

    class Kernel:
        def __init__(self) -> None:
            made.append(self)
            if len(made) == 1:
                refused()

        def watch(self, seconds: float) -> Probe:
            return Probe(seconds, seconds / 4, 1_000_000)

    monkeypatch.setattr(contention, "_kernel", functools.cache(Kernel))
    assert contention.share_of_others() is None
    assert [contention.share_of_others() for _ in range(3)] == [pytest.approx(0.25)] * 3
    assert len(made) == 2
    monkeypatch.setattr(Kernel, "watch", refused)
    assert contention.share_of_others() is None


@pytest.mark.skipif(not PTXAS.is_file(), reason="this Triton brings no ptxas")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_it_is_valid_for_what_the_grader_runs_on(tmp_path, architecture):
    (tmp_path / "watch.ptx").write_text(contention.PTX)
    command = [PTXAS, "-arch", architecture, "watch.ptx", "-o", "watch.cubin"]
    assembled = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert assembled.returncode == 0, assembled.stderr
    assert b"watch" in (tmp_path / "watch.cubin").read_bytes()


@pytest.mark.gpu
def test_alone_nobody_has_the_gpu_and_beside_a_load_somebody_does():
    assert contention.share_of_others() == pytest.approx(0.0, abs=MOST_TAKEN / 3)
    with loaded_gpu():
        beside = contention.share_of_others()
    assert 0.2 < beside < 0.8


@pytest.mark.gpu
def test_beside_a_load_nothing_is_measured():
    """The load is a process of this one's: by NVML alone it would be the grader's own."""
    exercise = load_all()["rmsnorm"]
    variant = exercise.variants["triton"]
    exercises = {"rmsnorm": exercise}
    with loaded_gpu(), Session(ROOT / "reference", exercises, Options(device="cuda")) as session:
        seen = session.stopwatch.time(Task(exercise, variant))
    assert seen.status is Status.not_measured and seen.microseconds is None
    assert "GPU too noisy: before the kernel was there, somebody else had" in seen.reason
    assert seen.machine["taken_by_others_percent"] > 20
