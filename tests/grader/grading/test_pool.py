"""Processes that work side by side: none is left behind, none takes another one with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing import util
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from grader import __main__ as command
from grader.evidence import MemoryEvidence, PartEvidence, VariantEvidence
from grader.executors.cuda.cuda_build import why_not
from grader.gpu import locks
from grader.grading import parallel, plan_files, process_pool
from grader.grading.grade import grade
from grader.grading.parallel import Checked
from grader.grading.process_pool import Lost, Pool
from grader.grading.search import Effort
from grader.grading.session import Options, Session, Step, selected
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing.timed_variant import cases_of
from tests.support.children import wait_until

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = load_all()
BRIEF = Effort(
    edges=2, drawn=1, shrink_runs=0, probe_seconds=0.0, compile_ahead=False, repair_seconds=0
)
SECONDS = 60.0  # enough on any machine; what works takes far less

# --- what the processes are given ---------------------------------------------------------------


def meet(mine: str, other: str) -> int:
    """Ends only while the other one runs, too."""
    Path(mine).touch()
    wait_until(Path(other).exists)
    return os.getpid()


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def tell_twice() -> None:
    process_pool.tell(Step("silu", "triton"))
    process_pool.tell("x" * 5000)  # too long to be told
    process_pool.tell(Step("silu", "cuda"))


def wait_for_ever(began: str, ended: str) -> None:
    util.Finalize(None, lambda: Path(ended).touch(), exitpriority=0)
    Path(began).write_text(str(os.getpid()))
    time.sleep(600)


def end_in_two_steps(ended: str) -> None:
    def end() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        Path(ended).touch()

    util.Finalize(None, end, exitpriority=0)


# --- the pool -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two():
    with Pool(2) as processes:
        yield processes


def test_tasks_run_side_by_side(two, tmp_path):
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    futures = [two.submit(meet, *names), two.submit(meet, *reversed(names))]
    found = {future.result(SECONDS) for future in futures}
    assert len(found) == 2 and os.getpid() not in found


def test_each_has_one_queue_to_a_gpu(two):
    [(name, value)] = process_pool.ONE_QUEUE.items()
    assert two.submit(os.getenv, name).result(SECONDS) == value


def test_what_a_task_raises_is_its_futures(two):
    with pytest.raises(ValueError, match="invalid literal"):
        two.submit(int, "x").result(SECONDS)


def test_a_process_that_is_killed_costs_its_own_task(two, tmp_path):
    lost = two.submit(kill_itself)
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    others = [two.submit(meet, *names), two.submit(meet, *reversed(names))]
    with pytest.raises(Lost):
        lost.result(SECONDS)
    assert len({each.result(SECONDS) for each in others}) == 2


def test_what_is_told_on_the_way_is_heard(two):
    heard: list[Step] = []
    two.submit(tell_twice, on_message=heard.append).result(SECONDS)
    wait_until(lambda: len(heard) == 2)
    assert heard == [Step("silu", "triton"), Step("silu", "cuda")]


def test_what_runs_at_the_end_is_stopped_in_an_orderly_way(tmp_path):
    began, ended = tmp_path / "began", tmp_path / "ended"
    with Pool(1) as processes:
        running = processes.submit(wait_for_ever, str(began), str(ended))
        queued = processes.submit(int, "1")
        wait_until(lambda: began.exists() and began.read_text())
    assert ended.exists()
    assert not psutil.pid_exists(int(began.read_text()))
    assert running.cancelled() and queued.cancelled()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_end_with_the_one_that_made_them(tmp_path, how):
    began, ended = tmp_path / "began", tmp_path / "ended"
    program = f"""
import os, signal, time
from multiprocessing import util
from pathlib import Path
from grader.grading import process_pool

def wait_for_ever():
    util.Finalize(None, lambda: Path({str(ended)!r}).touch(), exitpriority=0)
    Path({str(began)!r}).write_text(str(os.getpid()))
    time.sleep(600)

if __name__ == "__main__":
    # A shell starts what runs in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with process_pool.Pool(1) as processes:
        processes.submit(wait_for_ever).result()
"""
    (tmp_path / "program.py").write_text(program)
    line = [sys.executable, str(tmp_path / "program.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(line, env=environment, stderr=subprocess.DEVNULL) as started:
        try:
            wait_until(lambda: began.exists() and began.read_text())
            started.send_signal(how)
            started.wait(SECONDS)
        finally:
            started.kill()
    wait_until(ended.exists)
    wait_until(lambda: has_ended(int(began.read_text())))


def test_a_process_that_is_stopped_as_it_ends_closes_the_rest(tmp_path):
    ended = tmp_path / "ended"
    with Pool(1) as processes:
        processes.submit(end_in_two_steps, str(ended)).result(SECONDS)
    assert ended.exists()


def test_interrupted_while_they_start_it_leaves_none_that_starts_later(tmp_path):
    program = """
import os, signal, sys, threading, time
from grader.grading import process_pool

process_pool.PRELOADED = ["slow"]

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with process_pool.Pool(2) as processes:
            threading.Timer(0.5, interrupt).start()
            processes.submit(os.getpid).result()
    except KeyboardInterrupt:
        sys.exit(130)
"""
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "slow.py").write_text("import time; time.sleep(2)")
    line = [sys.executable, str(tmp_path / "program.py")]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    # The pipe's end comes when the last process has ended that has it, one that starts later too.
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert (ran.returncode, ran.stderr) == (130, "")


def test_stopped_while_they_begin_they_print_nothing(tmp_path):
    program = """
import time
from grader.grading import process_pool

class Slow:
    def __reduce__(self):
        line = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(0.5)"
        return exec, ("import signal, time; " + line,)

if __name__ == "__main__":
    process_pool._begin = Slow()
    with process_pool.Pool(2) as processes:
        pass
"""
    (tmp_path / "program.py").write_text(program)
    line = [sys.executable, str(tmp_path / "program.py")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert (ran.returncode, ran.stderr) == (0, "")


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or, as nobody's child, waits to be reaped."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# --- a submission's variants side by side ---------------------------------------------------------

ONLY = ("silu/cuda", "copy_first_column")
OPTIONS = Options(effort=BRIEF, device="cpu")


def timeless(evidence: VariantEvidence) -> VariantEvidence:
    return replace(evidence, parts=tuple(replace(part, seconds=0.0) for part in evidence.parts))


@pytest.mark.skipif(bool(why_not("emulator")), reason="needs the emulator")
def test_side_by_side_the_evidence_is_the_same():
    reference = ROOT / "reference"
    steps: list[Step] = []
    one = grade(reference, EXERCISES, OPTIONS, only=ONLY)
    two = grade(reference, EXERCISES, OPTIONS, only=ONLY, jobs=2, on_step=steps.append)
    assert [timeless(each) for each in one.variants] == [timeless(each) for each in two.variants]
    assert {status for v in two.variants for status in [v.correctness]} == {Status.passed}
    assert two.variants[-1].memory == one.variants[-1].memory is not None
    assert {step.exercise for step in steps} == {"silu", "copy_first_column"}
    assert one.environment == two.environment and two.complete


class Scripted:
    """Stands in for a pool: a future each, which ends as told for its variant, in turn."""

    ends: dict[str, list[BaseException | None]]

    def __init__(self, jobs: int) -> None:
        self.left = {name: list(ends) for name, ends in self.ends.items()}

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, function, work: parallel.Work, on_message):
        future: Future[list[Checked]] = Future()
        [task] = work.tasks
        end = self.left[task.exercise.name].pop(0)
        if isinstance(end, KeyboardInterrupt):
            raise end
        if end is not None:
            future.set_exception(end)
        else:
            evidence = VariantEvidence(task.exercise.name, task.variant.name, "")
            future.set_result([Checked(evidence)])
        return future


def graded(monkeypatch, **ends):
    monkeypatch.setattr(Scripted, "ends", ends, raising=False)
    monkeypatch.setattr(parallel.process_pool, "Pool", Scripted)
    return grade(ROOT / "reference", EXERCISES, OPTIONS, only=ONLY, jobs=2)


def test_a_variant_whose_process_is_lost_is_tried_again(monkeypatch):
    seen = graded(monkeypatch, silu=[Lost("killed"), None], copy_first_column=[None])
    assert [each.parts for each in seen.variants] == [(), ()]
    assert seen.complete


def test_lost_twice_is_the_graders_failure_and_nobody_elses(monkeypatch):
    lost = [Lost("killed"), Lost("killed")]
    seen = graded(monkeypatch, silu=lost, copy_first_column=[None])
    failed = next(each for each in seen.variants if each.exercise == "silu")
    assert failed.correctness is Status.grader_error
    assert "killed, twice" in failed.parts[0].reason
    assert {(p.dtype, p.size_class) for p in failed.parts} >= {("float32", "ragged")}
    other = next(each for each in seen.variants if each.exercise == "copy_first_column")
    assert other.parts == ()


class Shares:
    """An executor that does what it is given at once, and remembers what that was."""

    width = 1
    lost = (Lost,)

    def __init__(self, lost: int = 0, wrong: str = "", lost_kind: str = "") -> None:
        self.done: list[str] = []
        self.together: list[list[str]] = []  # variants that one process has to do whole
        self._losses = lost  # shares of a memory count, or of whole variants
        self._wrong = wrong  # a size class
        self._lost_kind = lost_kind  # "": any of those

    def submit(self, work: parallel.Work) -> Future[list[Checked]]:
        share = work.share
        kind = "memory" if share.counts else "plans" if share.plans else "parts"
        self.done.append("all" if share.is_all else kind)
        if share.is_all:
            self.together.append([each.variant.name for each in work.tasks])
        future: Future[list[Checked]] = Future()
        if self._losses and not share.parts and self._lost_kind in ("", self.done[-1]):
            self._losses -= 1
            future.set_exception(Lost("killed"))
        else:
            future.set_result([self._evidence(task, share) for task in work.tasks])
        return future

    def _evidence(self, task: Task, share: parallel.Share) -> Checked:
        names = [("float32", task.variant.size_classes[0])] if share.is_all else share.parts
        statuses = {self._wrong: Status.wrong_values}
        evidence = VariantEvidence(
            task.exercise.name,
            task.variant.name,
            task.variant.file,
            parts=tuple(PartEvidence(*n, statuses.get(n[1], Status.passed)) for n in names),
            memory=MemoryEvidence(Status.passed) if share.counts else None,
        )
        return Checked(evidence, b"plans" if share.plans else b"")


def shared_out_among(processes: Shares, device: str, *names: str):
    """The shares of some variants, and what was observed of each of them."""
    exercises = load_all()
    tasks = selected(exercises, names)
    assert len(tasks) == len(names)
    shares = parallel.shared_out(tasks, device)
    with Session(ROOT / "reference", exercises, Options(device="cpu")) as session:
        # The last first: in what order they come is chance.
        seen = list(parallel.checked_by(processes, session, tasks, shares[::-1]))
    assert sorted(index for index, _ in seen) == list(range(len(tasks)))
    for index, each in seen:
        assert f"{each.evidence.exercise}/{each.evidence.variant}" == str(tasks[index])
    return shares, [each for _, each in sorted(seen, key=lambda pair: pair[0])]


def shared_out(name: str, device: str, processes: Shares):
    shares, [seen] = shared_out_among(processes, device, name)
    return shares, seen.evidence


def test_on_a_gpu_the_dtypes_of_a_triton_variant_are_shared_out_and_put_together_in_order():
    processes = Shares()
    shares, evidence = shared_out("gelu/triton", "cuda", processes)
    variant = load_all()["gelu"].variants["triton"]
    keys = [(dtype, name) for dtype in variant.dtypes for name in variant.size_classes]
    *of_parts, counting = shares
    assert [{dtype for dtype, _ in each.parts} for each in of_parts] == [
        {dtype} for dtype in variant.dtypes
    ]
    assert counting.counts and not counting.parts
    assert sorted(key for each in shares for key in each.parts) == sorted(keys)
    assert len(variant.dtypes) > 1
    assert [(part.dtype, part.size_class) for part in evidence.parts] == keys
    assert evidence.memory.status is Status.passed
    assert processes.done == ["memory"] + ["parts"] * len(of_parts)


def test_what_was_counted_of_a_variant_that_is_wrong_is_forgotten():
    _, evidence = shared_out("gelu/triton", "cuda", Shares(wrong="ragged"))
    assert evidence.correctness is Status.wrong_values
    assert evidence.memory is None


@pytest.mark.parametrize(
    ("name", "device"), [("gelu/triton", "cpu"), ("transpose/cuda_v3", "cuda")]
)
def test_what_is_compiled_once_or_not_at_all_is_one_share(name, device):
    processes = Shares()
    shares, evidence = shared_out(name, device, processes)
    assert len(shares) == 1 and processes.done == ["all"]
    assert evidence.correctness is Status.passed


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_on_a_gpu_one_process_compiles_a_file_of_cuda_for_all_of_its_variants(device):
    processes = Shares()
    of_one_file = ("transpose/cuda_v1", "transpose/cuda_v3", "transpose/cuda_v4")
    names = (*of_one_file, "rmsnorm/cuda_vector", "transpose/triton_v4")
    shares, seen = shared_out_among(processes, device, *names)
    assert [each.evidence.correctness for each in seen] == [Status.passed] * len(names)
    assert ["cuda_vector"] in processes.together
    # What is worth most comes first.
    assert (["cuda_v3", "cuda_v4", "cuda_v1"] in processes.together) is (device == "cuda")
    assert sum(len(each.indices) > 1 for each in shares) == (device == "cuda")


@pytest.mark.parametrize(("times", "failed"), [(1, 0), (2, 1)])
def test_where_a_process_is_lost_its_variants_are_tried_again_one_by_one(times, failed):
    processes = Shares(lost=times)
    _, seen = shared_out_among(processes, "cuda", "transpose/cuda_v1", "transpose/cuda_v3")
    assert processes.together == [["cuda_v3", "cuda_v1"], ["cuda_v3"], ["cuda_v1"]]
    statuses = [each.evidence.correctness for each in seen]
    assert statuses.count(Status.grader_error) == failed
    assert statuses.count(Status.passed) == len(seen) - failed


def test_a_variant_lost_twice_is_the_graders_failure_in_each_of_its_parts():
    _, evidence = shared_out("transpose/cuda_v3", "cuda", Shares(lost=2))
    variant = load_all()["transpose"].variants["cuda_v3"]
    assert len(evidence.parts) == len(variant.dtypes) * len(variant.size_classes)
    assert {each.status for each in evidence.parts} == {Status.grader_error}
    assert evidence.file == "transpose.cu"


@pytest.mark.parametrize("times", [1, 2])
def test_a_memory_count_lost_once_is_done_again_and_twice_is_the_graders_failure(times):
    _, evidence = shared_out("gelu/triton", "cuda", Shares(lost=times))
    expected = Status.passed if times == 1 else Status.grader_error
    assert evidence.memory.status is expected and evidence.correctness is Status.passed


def test_what_will_be_timed_is_planned_beside_the_checks_and_its_plans_come_back():
    shares, seen = shared_out_among(Shares(), "cuda", "gelu/triton", "rmsnorm/triton")
    [planned] = [share for share in shares if share.plans]
    assert planned.indices == (1,)  # the other one isn't timed
    assert shares.index(planned) == min(n for n, each in enumerate(shares) if each.indices == (1,))
    assert [each.plans for each in seen] == [b"", b"plans"]


def test_the_plans_of_a_variant_that_is_wrong_are_forgotten():
    _, [seen] = shared_out_among(Shares(wrong="ragged"), "cuda", "rmsnorm/triton")
    assert seen.evidence.correctness is Status.wrong_values and not seen.plans


def test_whoever_times_plans_by_itself_where_the_process_that_did_was_lost_twice():
    _, [seen] = shared_out_among(Shares(2, lost_kind="plans"), "cuda", "rmsnorm/triton")
    assert seen.evidence.correctness is Status.passed and not seen.plans


def test_what_is_right_is_timed_by_the_plans_that_another_process_made(monkeypatch):
    timed: list[tuple[str, object]] = []
    part = PartEvidence("float32", "ragged", Status.passed)
    evidence = VariantEvidence("silu", "triton", "silu.py", parts=(part,))

    def checked(session, tasks, jobs, on_step):
        yield 1, Checked(evidence, b"plans")
        assert [documents for _, documents in timed] == ["plans"]  # beside the other's check
        yield 0, Checked(evidence)

    def measured(session, task, evidence, on_step, documents):
        timed.append((str(task), documents))
        return evidence

    monkeypatch.setattr("grader.grading.grade.checked_side_by_side", checked)
    monkeypatch.setattr("grader.grading.grade.measure", measured)
    monkeypatch.setattr("grader.grading.plan_files.documents_of", bytes.decode)
    assert grade(ROOT / "reference", EXERCISES, OPTIONS, only=ONLY, jobs=2).complete
    assert [documents for _, documents in timed] == ["plans", None]


def test_what_is_not_attempted_takes_no_process(tmp_path, monkeypatch):
    for name in ("silu.py", "softmax.py"):
        (tmp_path / name).write_bytes((ROOT / "reference" / name).read_bytes())
    shared: list[str] = []

    def checked(session, tasks, jobs, on_step):
        shared.extend(map(str, tasks))
        part = PartEvidence("float32", "ragged", Status.passed)
        for index, task in reversed(list(enumerate(tasks))):
            yield index, Checked(replace(session.blank_evidence(task), parts=(part,)))

    monkeypatch.setattr("grader.grading.grade.checked_side_by_side", checked)
    monkeypatch.setattr("grader.grading.grade.measure", lambda _, task, evidence, *more: evidence)
    seen = grade(tmp_path, EXERCISES, OPTIONS, jobs=2).variants
    names = [str(task) for task in selected(EXERCISES)]
    assert [f"{each.exercise}/{each.variant}" for each in seen] == names
    assert shared == ["silu/triton", "softmax/triton", "softmax/online"]
    assert [name for name, each in zip(names, seen, strict=True) if each.parts] == shared
    assert all(each.parts or each.not_attempted for each in seen)


def test_the_plans_of_what_is_timed_serve_the_clock():
    task = next(task for task in selected(EXERCISES) if task.variant.is_graded_on_speed)
    files = {task.variant.file: (ROOT / "reference" / task.variant.file).read_bytes()}
    share = parallel.Share((0,), plans=True)
    work = parallel.Work(ROOT / "reference", files, EXERCISES, OPTIONS, [task], share)
    parallel._opened.clear()
    try:
        [made] = parallel.check_share(work)
        documents = plan_files.documents_of(made.plans)
        for case in cases_of(task, OPTIONS.seed):
            assert documents.documents(case, ())
        blank = replace(work, files={task.variant.file: b""})
    finally:
        parallel._opened.pop().close()
    try:
        [nothing] = parallel.check_share(blank)
        assert not nothing.plans and nothing.evidence.not_attempted
    finally:
        parallel._opened.pop().close()


@pytest.mark.parametrize(("is_right", "plans"), [(True, b"plans"), (False, b"")])
def test_a_right_task_that_is_one_share_comes_with_its_plans_for_the_clock(
    monkeypatch, is_right, plans
):
    monkeypatch.setattr(parallel, "check", lambda *_: "evidence")
    monkeypatch.setattr(parallel, "is_timed", lambda task, evidence: is_right)
    monkeypatch.setattr(plan_files, "plans_to_time", lambda *_: b"plans")
    work = Mock(share=parallel.Share((0,)), tasks=["a task"])
    work.session.return_value.device = locks.ON_GPU
    assert parallel.check_share(work) == [parallel.Checked("evidence", plans)]


def test_interrupted_side_by_side_it_keeps_what_is_done(monkeypatch):
    seen = graded(monkeypatch, silu=[KeyboardInterrupt()], copy_first_column=[KeyboardInterrupt()])
    assert not seen.complete
    assert [each.exercise for each in seen.variants] == ["silu", "copy_first_column"]


def test_more_processes_than_cores_are_not_started_by_default(monkeypatch):
    gigabytes = 1 << 30
    for cores, jobs, on_gpu in ((1, 1, 1), (2, 2, 1), (16, 4, 11), (64, 4, 16)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert process_pool.default_jobs() == jobs
        assert process_pool.default_jobs(gpu_bytes=80 * gigabytes) == on_gpu
        assert process_pool.default_jobs(gpu_bytes=8 * gigabytes) == min(on_gpu, 2)
        assert process_pool.default_jobs(gpu_bytes=2 * gigabytes) == 1
    assert process_pool.default_jobs(gpu_bytes=80 * gigabytes, gpus=2) == 32
    assert process_pool.default_jobs(gpu_bytes=80 * gigabytes, gpus=4) == 45
    assert process_pool.default_jobs(gpu_bytes=8 * gigabytes, gpus=4) == 8


@pytest.mark.parametrize(
    ("line", "expected", "on_one_core"),
    [
        ("grade", "pool", ""),
        ("grade reference --html report.html", "pool", ""),
        ("grade --only silu", "", ""),
        ("grade --only silu/triton", "plans", "plans"),
        ("grade --only=silu/triton --seed 3", "plans", "plans"),
        ("grade --only silu/triton --only silu/cuda", "", ""),
        ("grade --gpus=0,1", "pool", ""),
        ("grade --help", "", ""),
        ("batch submissions --out class --only silu", "pool", ""),
        ("batch submissions --out class --scheduler tcp://host:8786", "", ""),
        ("batch submissions --out class --gpus 0", "pool", ""),
        ("check silu", "plans", "plans"),
        ("bench silu", "plans", "plans"),
        ("check --help", "", ""),
        ("check silu/cuda", "build", "build"),
        ("grade --only silu/cuda", "build", "build"),
        ("grade --only silu/cuda --require-sandbox", "", ""),
        ("grade --only silu/cuda --gpus 1", "build", "build"),
        ("bench silu/cuda", "", ""),
        ("doctor", "", ""),
        ("", "", ""),
    ],
)
def test_what_a_command_needs_starts_with_it(monkeypatch, line, expected, on_one_core):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert command._begun_early(line.split()) == expected
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    assert command._begun_early(line.split()) == on_one_core


@pytest.mark.parametrize("before", [None, "2,0,1"])
@pytest.mark.parametrize(
    ("line", "seen"),
    [("grade --gpus=0,1", "0,1"), ("batch x --gpus 7 --gpus 0", "0"), ("grade", "")],
)
def test_a_pool_that_starts_with_a_command_sees_the_gpus_it_is_told_to(
    monkeypatch, line, seen, before
):
    expect = Mock(side_effect=lambda: started.append(os.environ.get(locks.VISIBLE)))
    started: list[str | None] = []
    monkeypatch.setattr(process_pool, "expect", expect)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(sys, "argv", ["grader", *line.split()])
    monkeypatch.delenv(locks.VISIBLE, raising=False)
    if before is not None:
        monkeypatch.setenv(locks.VISIBLE, before)
    command._start()
    assert started == [seen or before]
    assert os.environ.get(locks.VISIBLE) == before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_grade_with_its_report_and_no_folder(tmp_path, how):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), "COLUMNS": "200"}
    # What started this process may have it ignore a signal.
    started = "signal.default_int_handler" if how is signal.SIGINT else "signal.SIG_DFL"
    program = (
        f"import signal; signal.signal({int(how)}, {started}); from grader.__main__ import main"
    )
    line = [sys.executable, "-c", f"{program}; main()", "grade", "reference", "--only=silu/triton"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(line, env=environment, cwd=ROOT, text=True, **both) as grading:
        wait_until(lambda: any(tmp_path.glob("*/scratch/*")))  # it plans
        grading.send_signal(how)
        printed = grading.communicate(timeout=SECONDS)[0]
    assert grading.returncode == 130 and "the run ended before this" in printed
    assert "Traceback" not in printed and not [*tmp_path.iterdir()]


def test_an_interrupted_import_ends_without_a_traceback(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_start", interrupted)
    monkeypatch.setattr(signal, "signal", Mock())  # it would stay for the tests after this one
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
