"""Turns on a GPU: any number beside each other, or one alone, whoever of them dies."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from grader.batch import tasks
from grader.batch.course.records import Gradebook
from grader.batch.run import run
from grader.batch.run.progress import Watcher
from grader.batch.run.run import Machines
from grader.batch.tasks import Graded, HandinTask, Wanted, grade_in_pool
from grader.evidence import (
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
    variant_from_json,
    variant_to_json,
)
from grader.gpu import locks as gpus
from grader.gpu import machine
from grader.grading import kept_sandboxes
from grader.grading.measure import is_timed
from grader.grading.session import selected
from grader.sandbox import Sandbox
from grader.spec import Exercise, load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support import standin
from tests.support.children import child, wait_until
from tests.support.gpu_locks import own_locks
from tests.support.small_exercise import RIGHT, submission, write_spec
from tests.support.standin import ENVIRONMENT, TWO, InThisProcess, grade_class, unchecked

GPU = "NVIDIA H100"
TIMED = TWO.replace(
    "points: {ragged: 3}}",
    "points: {ragged: 3, performance: 2}, performance: {case: {n: 268435456, dtype: float32}, "
    "bytes: n, thresholds: [{speed_vs: copy, at_least: 0.5, points: 2}]}}",
)


@pytest.fixture(autouse=True)
def locks_of_this_test(tmp_path, monkeypatch):
    own_locks(monkeypatch, tmp_path)


def marks(folder: Path) -> str:
    """What was noted, in its order."""
    path = folder / "notes"
    return path.read_text() if path.exists() else ""


def note(folder: Path, mark: str) -> None:
    with (folder / "notes").open("a") as file:
        file.write(mark)


def test_who_checks_makes_way_between_two_cases_for_whoever_times(tmp_path):
    def check() -> None:
        note(tmp_path, "c")
        while "x" not in marks(tmp_path):
            with gpus.shared_on("cuda"):
                time.sleep(0.002)

    def measure() -> None:
        with gpus.exclusive_on("cuda"):
            note(tmp_path, "[")
            time.sleep(0.1)
            note(tmp_path, "]")

    checking = [child(check) for _ in range(2)]
    wait_until(lambda: marks(tmp_path).count("c") == 2)
    measuring = [child(measure) for _ in range(3)]
    for pid in measuring:
        os.waitpid(pid, 0)
    note(tmp_path, "x")
    for pid in checking:
        os.waitpid(pid, 0)
    assert marks(tmp_path) == "cc[][][]x"  # one at a time, and those who check wait meanwhile


def test_a_process_that_is_killed_gives_the_gpu_back(tmp_path):
    def hold() -> None:
        with gpus.exclusive_on("cuda"):
            note(tmp_path, "h")
            time.sleep(60)

    holding = child(hold)
    wait_until(lambda: marks(tmp_path) == "h")
    os.kill(holding, signal.SIGKILL)
    os.waitpid(holding, 0)
    with gpus.exclusive_on("cuda"), pytest.raises(BlockingIOError):
        gpus.fcntl.flock(gpus._open("0", "use"), gpus.fcntl.LOCK_SH | gpus.fcntl.LOCK_NB)


def test_each_timing_process_has_a_gpu_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv(gpus.VISIBLE, "3,5")

    def settle() -> None:
        try:
            note(tmp_path, gpus.settle(owned=True) + os.environ[gpus.VISIBLE])
        except gpus.GpuError:
            note(tmp_path, "-")
        time.sleep(60)

    pids = []
    for count in (2, 4, 5):
        pids.append(child(settle))
        wait_until(lambda count=count: len(marks(tmp_path)) == count)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert marks(tmp_path) == "3355-"


def test_a_folder_of_somebody_elses_is_not_trusted(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"warpgrade-gpus-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(gpus.GpuError, match="expected a folder of one's own"),
        gpus.exclusive_on("cuda"),
    ):
        pass


# --- what is timed --------------------------------------------------------------------------------


def on_gpu(task: HandinTask) -> Graded:
    """A GPU's checks: right or wrong, with the times still to be taken."""
    graded = unchecked(task)
    made = []
    for each in graded.results:
        seen = variant_from_json(each.evidence)
        exercise = task.exercises[seen.exercise]
        of = Task(exercise, exercise.variants[seen.variant])
        made.append(replace(each, to_measure=is_timed(of, seen)))
    return replace(graded, results=tuple(made), environment={**ENVIRONMENT, "gpu": GPU})


def timing(task: HandinTask) -> Graded:
    """A GPU's clock."""
    made = []
    for wanted in task.wanted:
        seen = variant_from_json(wanted.checked)
        assert seen.parts[0].status is Status.passed
        timed = PerformanceEvidence(Status.passed, device=GPU, microseconds=3.0)
        text = variant_to_json(replace(seen, performance=timed))
        made.append(standin.Result(wanted.key, text, seconds=2.0))
    return Graded(tuple(made), {**ENVIRONMENT, "gpu": GPU})


def two_exercises(folder: Path) -> dict[str, Exercise]:
    """silu, and the same again as an exercise of another name in another file."""
    specs = write_spec(folder, TWO)
    silu = specs["silu"].model_copy(
        update={"variants": {"triton": specs["silu"].variants["triton"]}}
    )
    variant = silu.variants["triton"].model_copy(update={"file": "other.py"})
    other = silu.model_copy(update={"name": "other", "variants": {"triton": variant}})
    return {"silu": silu, "other": other}


@pytest.fixture
def timed_class(tmp_path, monkeypatch):
    """Three hand-ins of a class in which a variant is timed: right, wrong, and the right one."""
    for name, text in (("ada", "right"), ("bob", "wrong"), ("cyd", "right")):
        folder = tmp_path / "in" / name
        folder.mkdir(parents=True)
        (folder / "silu.py").write_text(f"x = '{text}'\n")
    specs = write_spec(tmp_path / "specs", TIMED)

    def grade(measure: Callable[[HandinTask], Graded], check=on_gpu, **more) -> Gradebook:
        machines = Machines(GPU, InThisProcess(check), InThisProcess(measure))
        return grade_class(tmp_path / "in", tmp_path / "out", specs, machines=machines, **more)[1]

    return grade


def test_only_what_is_right_is_timed_and_each_file_once(timed_class):
    tasks: list[HandinTask] = []

    def noted(task: HandinTask) -> Graded:
        assert task.needs_exclusive_gpu
        tasks.append(task)
        return timing(task)

    book = timed_class(noted)
    assert [[wanted.name for wanted in task.wanted] for task in tasks] == [["silu/triton"]]
    ada, bob, cyd = (entry.counted.evidence.variants for entry in book.entries)
    assert ada[0].performance.microseconds == cyd[0].performance.microseconds == 3.0
    assert bob[0].performance is None
    assert ada[0].parts[0].status is Status.passed
    timed_class(noted)
    assert len(tasks) == 1


@pytest.mark.parametrize(("width", "together"), [(1, [2]), (2, [1, 1])])
def test_a_small_class_on_a_gpu_is_shared_out_by_exercises(tmp_path, monkeypatch, width, together):
    """Where there are idle processes; else one process does all of a hand-in."""
    folder = tmp_path / "in" / "ada"
    folder.mkdir(parents=True)
    for name in ("silu.py", "other.py"):
        (folder / name).write_text("x = 'right'\n")
    specs = two_exercises(tmp_path / "specs")
    given: list[int] = []

    def checked(task: HandinTask) -> Graded:
        given.append(len(task.wanted))
        return on_gpu(task)

    executor = InThisProcess(checked)
    executor.width = width
    machines = Machines(GPU, executor, InThisProcess(timing))
    grade_class(tmp_path / "in", tmp_path / "out", specs, machines=machines)
    assert given == together


def test_a_run_that_ends_before_the_clock_has_only_the_clock_left(timed_class):
    def cut_off(task: HandinTask) -> Graded:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        timed_class(cut_off)

    def never(task: HandinTask) -> Graded:
        assert b"right" not in task.files["silu.py"], "checked again"
        return on_gpu(task)

    book = timed_class(timing, check=never)
    assert book.entries[0].counted.evidence.variants[0].performance.microseconds == 3.0


def test_a_clock_that_fails_leaves_what_was_checked(timed_class):
    def fail(task: HandinTask) -> Graded:
        raise RuntimeError("Boom")

    book = timed_class(fail)
    seen = book.entries[0].counted.evidence.variants[0]
    assert seen.parts[0].status is Status.passed
    assert seen.performance.status is Status.grader_error
    assert book.entries[0].waiting
    book = timed_class(timing)
    assert not book.entries[0].waiting


class _Heard:
    """Listens to what a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def __getattr__(self, name):
        return lambda *args: None


def test_gpu_hours_are_estimated_first_and_by_what_timing_has_cost(timed_class, tmp_path):
    heard = _Heard()
    timed_class(timing, watcher=heard)
    [line] = heard.lines
    assert line.startswith("Timing: at most 2 variants, some ")
    assert "a guess before the first one" in line
    folder = tmp_path / "in" / "dan"
    folder.mkdir()
    (folder / "silu.py").write_text("x = 'right, and another'\n")
    heard.lines.clear()
    timed_class(timing, watcher=heard)
    assert heard.lines == [
        "Timing: at most 1 variants, some 0.00056 GPU hours (as measured so far)"
    ]


def test_what_is_timed_takes_the_whole_gpu_and_what_is_wrong_takes_nothing():
    tasks = selected(load_all())
    timed = next(each for each in tasks if each.variant.is_graded_on_speed)
    counted = next(t for t in tasks if t.variant.memory and not t.variant.performance)
    benched = next(t for t in tasks if t.variant.performance and not t.variant.is_graded_on_speed)
    right = VariantEvidence("s", "v", "f", parts=(PartEvidence("float32", "r", Status.passed),))
    wrong = replace(right, parts=(PartEvidence("float32", "r", Status.crashed),))
    assert is_timed(timed, right)
    assert not is_timed(timed, wrong)
    assert not is_timed(counted, right)  # by its plan, without a GPU
    assert not is_timed(benched, right)  # its case is for `grader bench`


def test_the_baselines_of_all_hand_ins_have_one_sandbox(monkeypatch):
    """A process that times imports torch for them once, not once for each hand-in.

    And a hand-in is opened before its turn on the GPU.
    """
    given, held = [], []

    def grade_files(*arguments: object) -> None:
        given.append(arguments[-1])
        held.append(gpus.is_exclusive_on(gpus.ON_GPU))

    monkeypatch.setattr(kept_sandboxes, "_baselines", [])
    monkeypatch.setattr(kept_sandboxes, "_emptied", {})
    monkeypatch.setattr(tasks, "grade_files", grade_files)
    timed = Wanted("silu", "triton", "key", checked="{}")
    for seed, wanted in enumerate((timed, timed, replace(timed, checked=""))):
        grade_in_pool(HandinTask({}, (wanted,), {}, seed, GPU, require_sandbox=False))
    first, second, of_a_check = (lent.trusted for lent in given)
    assert isinstance(first, Sandbox) and first is second
    assert of_a_check is None  # nothing is timed there
    assert not any(held)


def test_a_class_has_as_many_processes_as_a_grade_has_there_and_one_that_times_on_each_gpu(
    monkeypatch,
):
    monkeypatch.setattr(run, "device_here", lambda: GPU)
    monkeypatch.setattr(run.machine, "gpu_bytes", lambda: 80 << 30)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(run.process_pool, "Pool", contextlib.nullcontext)
    monkeypatch.setenv(gpus.VISIBLE, "0,1")
    with run.this_machine(Watcher()) as machines:
        assert (machines.check.width, machines.measure.width) == (32, 2)


@pytest.mark.gpu
def test_a_class_is_checked_and_timed_on_this_gpu(tmp_path, monkeypatch):
    if machine.gpu_name() is None:
        pytest.skip("needs an NVIDIA GPU")
    monkeypatch.delenv(gpus.VISIBLE)
    specs = {"silu": load_all()["silu"]}
    submission(tmp_path / "in" / "ada", RIGHT)
    executor = InThisProcess(grade_in_pool)
    machines = Machines(machine.gpu_name(), executor, executor)
    outcome, book = grade_class(
        tmp_path / "in", tmp_path / "out", specs, machines=machines, require_sandbox=False
    )
    assert outcome.failed == []
    seen = book.entries[0].counted.evidence.variants[0]
    assert seen.performance.status is Status.passed
    assert seen.performance.microseconds > 0
    assert book.device == machine.gpu_name()
