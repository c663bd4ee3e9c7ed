"""A class is graded once, loses nothing, and no submission can stop or spoil it."""

from __future__ import annotations

import csv
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from grader import executors
from grader.batch import tasks
from grader.batch.classes import CourseClass
from grader.batch.missing_results import Job
from grader.batch.pages import views
from grader.batch.run import progress, run
from grader.batch.run.run import Machines
from grader.batch.store.store import NAME, Store
from grader.batch.tasks import Graded, HandinTask, TaskError, Wanted, grade_files
from grader.cases import Space
from grader.evidence import PartEvidence
from grader.gpu import locks
from grader.grading import large_sizes, process_pool, schedule
from grader.grading.check import TaskCheck
from grader.grading.schedule import InPool, Queue, Stopped
from grader.grading.search import Effort
from grader.grading.session import Options, Step
from grader.mistakes import Mistake
from grader.sandbox import confinement
from grader.spec import Exercise
from grader.status import Status
from tests.grader.batch.test_store import in_a_child, own_disk
from tests.support import standin
from tests.support.commandline import any_sandbox_will_do
from tests.support.small_exercise import (
    BRIEF,
    GRID_ROUNDS_DOWN,
    RIGHT,
    ROOT,
    SPEC,
    STUB,
    submission,
    write_spec,
)
from tests.support.standin import (
    InThisProcess,
    grade_class,
    instant,
    make_class,
    quick,
    two_variants,
)

pytestmark = pytest.mark.usefixtures("sessions_in_one_sandbox")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch) -> None:
    """Any sandbox that this machine offers will do."""
    any_sandbox_will_do(monkeypatch)


@pytest.fixture(scope="module")
def exercises(tmp_path_factory) -> dict[str, Exercise]:
    """The small exercise alone."""
    return write_spec(tmp_path_factory.mktemp("specs"))


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """The first words of the files of which a part was run; no kernel is: what matters is the rest.

    A file that says `wrong` fails.
    """
    seen: list[str] = []

    def part(self: TaskCheck, space: Space) -> PartEvidence:
        text = self.session.files.read(self.task.variant.file).decode("utf-8", "replace")
        seen.append(text.split()[1])
        self.on_step(Step.at(self.task, f"{space.dtype} {space.size_class}"))
        status = Status.wrong_values if "wrong" in text else Status.passed
        return PartEvidence(space.dtype, space.size_class, status, 3)

    monkeypatch.setattr(TaskCheck, "part", part)
    monkeypatch.setattr(large_sizes, "findings", lambda session, task: ())
    return seen


@pytest.fixture
def source(tmp_path) -> Path:
    """Three submissions: right, wrong, and nothing handed in."""
    folder = tmp_path / "submissions"
    submission(folder / "ada", f"# ada\n{RIGHT}")
    submission(folder / "bob", f"# bob wrong\n{RIGHT}")
    (folder / "cyd").mkdir()
    return folder


@pytest.fixture
def out(tmp_path) -> Path:
    """Where the results go."""
    return tmp_path / "results"


def rows(out: Path) -> list[dict[str, str]]:
    """The gradebook as a spreadsheet reads it."""
    with (out / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def scores(out: Path) -> dict[str, str]:
    return {row["id"]: row["score"] for row in rows(out)}


def results(out: Path) -> dict[str, tuple[str, str]]:
    """Every current result by its key: status and evidence."""
    database = sqlite3.connect(out / NAME)
    query = "SELECT key, status, evidence FROM results WHERE superseded IS NULL"
    found = database.execute(query).fetchall()
    database.close()
    assert len({key for key, *_ in found}) == len(found)
    return {key: (status, text) for key, status, text in found}


# --- what is graded -------------------------------------------------------------------------------


def test_a_class_becomes_a_gradebook_with_a_page_for_everyone(source, out, exercises):
    submission(source / "bob", GRID_ROUNDS_DOWN)
    submission(source / "dan", STUB)
    outcome, book = grade_class(source, out, exercises)
    assert outcome.complete
    assert outcome.failed == []
    status = "silu/triton status"
    assert [(r["id"], r["score"], r["max_score"], r[status]) for r in rows(out)] == [
        ("ada", "3", "3", "passed"),
        ("bob", "0", "3", "not_written"),
        ("cyd", "0", "3", "not_attempted"),
        ("dan", "0", "3", "not_attempted"),
    ]
    for name in ("ada", "bob", "cyd", "dan"):
        for path in (f"students/{name}.html", f"students/{name}.md", f"results/{name}.json"):
            assert name in (out / path).read_text(encoding="utf-8"), path
        assert f"students/{name}.html" in (out / "index.html").read_text(encoding="utf-8")
    # What a student repeats at home: no folder of ours, and not their name.
    [failure] = book.entries[1].counted.evidence.variants[0].parts[0].failures[:1]
    assert failure.reproduce.startswith("grader check silu --case 'n=")
    assert "--submission" not in failure.reproduce


def test_every_score_is_what_grading_that_submission_alone_gives(source, out, exercises, ran):
    from grader.grading.grade import grade
    from grader.scoring.score import score

    _, book = grade_class(source, out, exercises)
    for entry in book.entries:
        alone = grade(source / entry.student.id, exercises, Options(seed=7, effort=BRIEF))
        assert entry.counted.grade.score == score(alone, exercises).score
        seen = entry.counted.evidence.variants
        same = [replace(variant, parts=()) for variant in alone.variants]
        assert [replace(variant, parts=()) for variant in seen] == same


def test_a_bonus_is_in_the_score_and_told_on_its_own(source, out, tmp_path, ran):
    text = SPEC.replace("points: {ragged: 3}", "bonus: true, points: {ragged: 3}")
    grade_class(source, out, write_spec(tmp_path / "specs", text))
    assert [(row["score"], row["bonus"], row["max_score"]) for row in rows(out)] == [
        ("3", "3", "0"),
        ("0", "0", "0"),
        ("0", "0", "0"),
    ]


def test_a_second_run_grades_nothing_again(source, out, exercises, ran):
    grade_class(source, out, exercises)
    first = scores(out)
    assert ran == ["ada", "bob"]
    outcome, _ = grade_class(source, out, exercises)
    assert ran == ["ada", "bob"]
    assert outcome.graded == 0
    assert scores(out) == first


def test_equal_files_are_graded_once(source, out, exercises, ran):
    submission(source / "dan", f"# ada\n{RIGHT}")
    (source / "eve").mkdir()
    outcome, _ = grade_class(source, out, exercises)
    assert ran == ["ada", "bob"]
    assert outcome.shared == 2  # dan's with ada's, and that eve handed in nothing
    assert scores(out) == {"ada": "3", "bob": "0", "cyd": "0", "dan": "3", "eve": "0"}


def test_what_changed_is_graded_again_and_nothing_else(source, out, exercises, ran):
    grade_class(source, out, exercises)
    submission(source / "bob", f"# bob2\n{RIGHT}")
    submission(source / "cyd", f"# cyd\n{RIGHT}")
    ran.clear()
    grade_class(source, out, exercises)
    assert ran == ["bob2", "cyd"]
    assert scores(out) == {"ada": "3", "bob": "3", "cyd": "3"}


def test_results_of_earlier_executors_are_graded_anew_and_it_is_said(
    source, out, exercises, ran, monkeypatch
):
    class Heard(progress.Watcher):
        def say(self, line: str) -> None:
            lines.append(line)

    lines: list[str] = []
    grade_class(source, out, exercises, watcher=Heard())
    submission(source / "cyd", f"# cyd\n{RIGHT}")  # what is new isn't outdated
    monkeypatch.setattr(executors, "VERSION", executors.VERSION + 1)
    assert lines == []
    grade_class(source, out, exercises, watcher=Heard())
    assert ran == ["ada", "bob", "ada", "bob", "cyd"]
    assert lines == [
        "Graded anew, since the grader or the specs have changed: 2 of silu/triton. The old "
        "results stay in the store"
    ]
    with Store(out) as store:  # the old ones can still be read
        assert len(store.results.known()) == 6
        assert all(
            store.results.of(key).evidence.variant == "triton" for key in store.results.known()
        )


def test_a_class_has_one_seed_drawn_once(source, out, exercises, ran, tmp_path):
    grade_class(source, out, exercises, seed=None)
    [seed] = {row["seed"] for row in rows(out)}
    grade_class(source, out, exercises, seed=None)
    grade_class(source, out, exercises, seed=int(seed))
    assert {row["seed"] for row in rows(out)} == {seed}
    with pytest.raises(Mistake, match=f"--seed {int(seed) + 1}: expected {seed}"):
        grade_class(source, out, exercises, seed=int(seed) + 1)
    grade_class(source, tmp_path / "other", exercises, seed=None)
    assert {row["seed"] for row in rows(tmp_path / "other")} != {seed}


def test_a_changed_threshold_needs_no_new_run_but_a_new_size_class_does(
    source, out, exercises, ran, tmp_path
):
    grade_class(source, out, exercises)
    dearer = write_spec(tmp_path / "dearer", SPEC.replace("ragged: 3}", "ragged: 5}"))
    grade_class(source, out, dearer)
    assert ran == ["ada", "bob"]
    assert scores(out)["ada"] == "5"
    text = SPEC.replace("[1, 20]}}", "[1, 20]}, aligned: {n: {multiple_of: 4, up_to: 8}}}")
    more = write_spec(tmp_path / "more", text.replace("ragged: 3}", "ragged: 3, aligned: 1}"))
    grade_class(source, out, more)
    assert ran == ["ada", "bob"] + ["ada"] * 2 + ["bob"] * 2


def test_grading_a_part_first_leaves_only_the_rest_to_be_run(source, out, tmp_path):
    both = two_variants(tmp_path / "both")
    done: list[tuple[str, ...]] = []

    def noted(task: HandinTask) -> Graded:
        done.append(tuple(wanted.variant for wanted in task.wanted))
        return quick(task)

    grade_class(source, out, both, only=["silu/other"], function=noted)
    assert done == [("other",)]  # nobody handed it in, so it is one result
    assert {row["silu/other"] for row in rows(out)} == {"0"}
    assert "silu/triton" not in rows(out)[0]
    done.clear()
    grade_class(source, out, both, function=noted)
    assert done == [("triton",)] * 3
    assert scores(out) == {"ada": "3", "bob": "0", "cyd": "0"}


def test_what_was_graded_without_a_sandbox_is_graded_again_where_one_is_required(
    source, out, exercises, ran, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr(confinement, "_try", _limits_only)
        for _ in range(2):
            grade_class(source, out, exercises, require_sandbox=False)
            assert len(ran) == 2
    if not any(offer.works for offer in confinement.probe()[:2]):
        pytest.skip("no sandbox on this machine")
    for _ in range(2):
        grade_class(source, out, exercises)
        assert len(ran) == 4


def _limits_only(level, device):
    return confinement.Offer(level, level is confinement.Level.limits, "switched off by a test")


# --- what goes wrong ------------------------------------------------------------------------------


def test_what_the_grader_failed_on_costs_nothing_and_is_tried_again(
    source, out, exercises, ran, monkeypatch
):
    works = TaskCheck.part

    def fail(self: TaskCheck, space: Space) -> PartEvidence:
        return PartEvidence(space.dtype, space.size_class, Status.grader_error, reason="Boom")

    monkeypatch.setattr(TaskCheck, "part", fail)
    outcome, book = grade_class(source, out, exercises)
    assert outcome.failed == ["ada", "bob"]
    assert [row["score"] for row in rows(out)] == ["", "", "0"]  # no final score, not 0
    assert "the grader failed on silu/triton" in book.entries[0].waiting
    monkeypatch.setattr(TaskCheck, "part", works)
    outcome, _ = grade_class(source, out, exercises)
    assert outcome.failed == []
    assert ran == ["ada", "bob"]
    assert scores(out) == {"ada": "3", "bob": "0", "cyd": "0"}


def test_a_submission_the_grader_breaks_on_is_a_row_and_not_a_stop(source, out, exercises, ran):
    def grade(task: HandinTask) -> Graded:
        if any(b"# ada" in data for data in task.files.values()):
            raise RuntimeError("Boom\x1b[2J")
        return grade_files(task)

    outcome, book = grade_class(source, out, exercises, function=grade)
    assert outcome.complete
    assert outcome.failed == ["ada"]
    assert "Boom" in outcome.trouble
    assert scores(out) == {"ada": "", "bob": "0", "cyd": "0"}
    [part] = book.entries[0].counted.evidence.variants[0].parts
    assert part.status is Status.grader_error


def test_a_killed_grading_process_is_tried_once_more_then_given_up(tmp_path, out, exercises):
    source = make_class(tmp_path / "in", 6)
    (source / "student004" / "silu.py").write_text("x = 'deadly'\n")
    with process_pool.Pool(2) as processes:
        machines = Machines("cpu", InPool(processes, 2, standin.deadly))
        outcome, book = grade_class(source, out, two_variants(tmp_path / "s"), machines=machines)
    assert outcome.complete
    assert outcome.failed == ["student004"]
    seen = {entry.student.id: entry for entry in book.entries}
    lost, other = seen["student004"].counted.evidence.variants
    assert lost.parts[0].status is Status.grader_error
    assert "lost, twice" in lost.parts[0].reason
    assert other.parts[0].status is Status.passed
    assert [seen[f"student00{n}"].score for n in (0, 1, 2, 3, 5)] == [0, 4, 4, 0, 4]


class _Lossy:
    """An executor that loses the first process of every task."""

    width = 1
    lost = (process_pool.Lost,)

    def __init__(self, times: int) -> None:
        self._times = times
        self._seen: dict[tuple[bytes, ...], int] = {}

    def submit(self, task: HandinTask) -> Future[Graded]:
        future: Future[Graded] = Future()
        key = tuple(sorted(task.files.values()))
        self._seen[key] = self._seen.get(key, 0) + 1
        if self._seen[key] <= self._times:
            future.set_exception(process_pool.Lost("killed"))
        else:
            future.set_result(quick(task))
        return future


@pytest.mark.parametrize(("times", "failed"), [(1, []), (2, ["ada", "bob", "cyd"])])
def test_a_lost_process_costs_one_more_try(source, out, exercises, times, failed):
    machines = Machines("cpu", _Lossy(times))
    outcome, _ = grade_class(source, out, exercises, machines=machines)
    assert outcome.failed == failed


def test_a_stuck_process_ends_itself_and_nothing_else_does(monkeypatch):
    ended = []
    monkeypatch.setattr(tasks, "end_this_process", ended.append)
    watch = tasks._Watch(0.05)
    for _ in range(20):
        time.sleep(0.01)
        watch.moved()
    with locks._waiting():  # for others on the GPU, without moving
        time.sleep(0.2)
    assert ended == []
    deadline = time.monotonic() + 10
    while not ended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert ended
    watch.end()
    assert len(ended) == 2  # what came of it then would be no evidence


def test_another_grader_gives_no_result(exercises):
    task = HandinTask({"silu.py": b"# x\n"}, (Wanted("silu", "triton", "0" * 64),), exercises, 7)
    with pytest.raises(TaskError, match="expected the grader and the oracles"):
        grade_files(task)
    with pytest.raises(TaskError, match="expected a machine with the GPU"):
        grade_files(replace(task, device="NVIDIA H9000"))


def test_nothing_of_the_folder_it_runs_in_is_graded(tmp_path, exercises, ran, monkeypatch):
    submission(tmp_path / "assignment", f"# ours\n{RIGHT}")
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in"
    (source / "cyd").mkdir(parents=True)
    submission(source / "ada", f"# ada\n{RIGHT}")
    grade_class(source, tmp_path / "out", exercises)
    assert ran == ["ada"]
    assert scores(tmp_path / "out")["cyd"] == "0"


def test_odd_files_are_a_row_and_not_a_stop(source, out, exercises, ran):
    (source / "eve" / "silu.py").mkdir(parents=True)
    os.mkfifo(submission(source / "fay", f"# fay\n{RIGHT}").joinpath("pipe"))
    (source / "gus").mkdir()
    os.mkfifo(source / "gus" / "silu.py")
    submission(source / "hal", "#" * (2 << 20))
    (source / "ida").mkdir()
    (source / "ida" / "silu.py").symlink_to("silu.py")
    (source / "jan").mkdir()
    (source / "jan" / "silu.py").write_bytes(b"# \xff\xfe\x00 x")
    for _ in range(2):
        outcome, _ = grade_class(source, out, exercises)
        assert outcome.complete
        assert outcome.failed == []
        assert len(rows(out)) == 9
    assert len(ran) == 4


def test_names_no_file_could_have_lose_nothing(source, out, exercises, ran):
    long = "x" * 250
    names = (long, long[:-1] + "y", os.fsdecode(b"\xff\xfe"), "two\nlines", "a,b", '"q"', "=1+1")
    for index, name in enumerate(names):
        submission(source / name, f"# {index}\n{RIGHT}")
    for _ in range(2):
        outcome, _ = grade_class(source, out, exercises)
        assert outcome.complete
    assert len(ran) == 2 + len(names)
    assert len(rows(out)) == 3 + len(names)
    assert len(list((out / "students").glob("*.html"))) == 3 + len(names)
    for row in rows(out):
        assert not any(cell.lstrip()[:1] in {"=", "@"} for cell in row.values())


def test_results_inside_the_source_are_no_submission(source, exercises, ran):
    out = source / "results"
    for _ in range(2):
        grade_class(source, out, exercises)
        assert set(scores(out)) == {"ada", "bob", "cyd"}


def test_a_source_that_is_not_there_leaves_nothing_behind(tmp_path, out, exercises):
    with pytest.raises(Mistake):
        grade_class(tmp_path / "none", out, exercises)
    assert not out.exists()


def test_two_commands_do_not_work_on_one_class(source, out, exercises):
    with run.alone(out), pytest.raises(Mistake, match="another command is at work"):
        grade_class(source, out, exercises)


# --- interruptions --------------------------------------------------------------------------------


def test_an_interrupted_run_keeps_what_is_done_and_goes_on_from_there(source, out, exercises):
    stop = threading.Event()
    done = []

    def one_only(task: HandinTask) -> Graded:
        done.append(sorted(task.files.values()))
        stop.set()
        return quick(task)

    def go(function, event) -> run.Outcome:
        with Store(out, create=True) as store:
            course_class = CourseClass.open(store, exercises)
            number = store.begin_run("test", "0", {})
            machines = Machines("cpu", InThisProcess(function))
            return run.grade(
                course_class, course_class.handins, machines, number, run.Options(), stop=event
            )

    with Store(out, create=True) as store:
        store.set_seed(7)
        number = store.begin_run("test", "0", {})
        store.handins.keep(standin.collect(source, exercises).handins, "in", number)
    assert not go(one_only, stop).complete
    assert len(done) == 1
    assert len(results(out)) == 1
    outcome = go(quick, threading.Event())
    assert outcome.complete
    assert outcome.graded == 2
    assert len(results(out)) == 3


def test_ctrl_c_stops_and_a_second_one_ends_the_process():
    said, before = [], signal.getsignal(signal.SIGINT)
    with run.stopped_by_signals(said.append) as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.wait(5)
        assert len(said) == 1
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 130
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_handed_out_is_stored_before_it_stops():
    stop = threading.Event()
    stored = []

    def function(task):
        stop.set()
        return Graded((), {})

    queue = Queue(InThisProcess(function), lambda job: None)
    queue.add([Job(None, ()), Job(None, ())])
    with pytest.raises(Stopped):
        for ended in schedule.run([queue], stop):
            stored.append(ended)
    assert len(stored) == 1


KILLED = """
    import os, random, signal, sqlite3, sys, time
    from multiprocessing import forkserver
    from pathlib import Path
    from grader.startup import importing
    with importing():
        from grader.cli import app, class_commands
        from grader.grading import process_pool
        from grader.batch.run import run
        from grader.spec import course as courses
        from tests.support import standin

    source, out, specs, seed = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    exercises = standin.two_variants(specs)
    with_exercises = type("Stated", (courses.Course,), {"exercises": exercises})
    courses.find = lambda path=None, **_: with_exercises(courses.HOME, path)
    run.grade_in_pool = standin.quick
    # One fork server for all commands: each of its own would take two seconds to import torch.
    forkserver.set_forkserver_preload(["grader.grading.preloaded", "tests.support.standin"])
    forkserver.ensure_running()
    forkserver._forkserver.ensure_running = lambda: None  # not a child of theirs
    process_pool.expect = lambda: None
    words = ["batch", str(source), "--out", str(out), "--seed", "7", "--jobs", "2", "--plain"]
    words.append("--no-sandbox-needed")

    def start():
        child = os.fork()
        if not child:
            sys.argv = ["grader", *words]
            log = os.open(str(out) + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(log, 1)
            os.dup2(log, 2)
            app.main()
            os._exit(0)
        return child

    def stored():
        try:
            database = sqlite3.connect(f"file:{out}/class.sqlite?mode=ro", uri=True, timeout=5)
            [count] = database.execute("SELECT count(*) FROM results").fetchone()
            database.close()
            return count
        except sqlite3.Error:
            return 0

    random.seed(seed)
    cut = 0
    for number in range(10):
        before, child = stored(), start()
        if number % 3 == 0:
            time.sleep(random.uniform(0.0, 0.3))  # while it begins
        else:
            deadline = time.monotonic() + 60
            while stored() == before and time.monotonic() < deadline:
                if os.waitpid(child, os.WNOHANG)[0]:
                    sys.exit("it ended before it could be killed: " + open(f"{out}.log").read())
                time.sleep(0.002)
            time.sleep(random.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        cut += os.waitpid(child, 0)[1] == signal.SIGKILL
    print(cut, "killed with", stored(), "stored")
    status = os.waitpid(start(), 0)[1]
    assert status == 0, open(f"{out}.log").read()
"""


def test_a_run_killed_ten_times_ends_as_if_it_never_was(tmp_path):
    source, out, count = make_class(tmp_path / "in", 60), tmp_path / "out", 60
    seed = random.randrange(1 << 32)
    program = [sys.executable, "-c", "\n".join(line[4:] for line in KILLED.splitlines())]
    ran = subprocess.run(
        [*program, source, out, tmp_path / "specs", str(seed)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )
    assert ran.returncode == 0, f"seed {seed}: {ran.stderr[-3000:]}"
    killed, _, _, stored, _ = ran.stdout.split()
    assert int(killed) == 10
    assert 6 <= int(stored) < 2 * count, "the moments were none in the middle"
    whole, specs = tmp_path / "whole", two_variants(tmp_path / "specs")
    grade_class(source, whole, specs, function=quick, effort=Effort())
    assert results(out) == results(whole)
    assert len(results(out)) == 2 * count
    assert rows(out) == rows(whole)
    database = sqlite3.connect(out / NAME)
    # Nothing was graded that was stored already.
    assert database.execute("SELECT count(*) FROM results").fetchone() == (2 * count,)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    runs = database.execute("SELECT count(*), count(ended) FROM runs").fetchone()
    database.close()
    assert runs[1] == 1
    assert 7 <= runs[0] <= 11


def test_a_disk_that_fills_up_midway_costs_nothing_that_was_stored(tmp_path, monkeypatch):
    source, specs = make_class(tmp_path / "in", 60), two_variants(tmp_path / "specs")
    disk = tmp_path / "disk"
    disk.mkdir()

    def fill() -> str:
        try:
            own_disk(disk, "640k")
        except (OSError, subprocess.SubprocessError) as error:
            return f"skip: no disk of one's own here: {error}"
        try:
            grade_class(source, disk / "out", specs, function=instant)
        except Mistake as error:
            said = str(error)
        before = results(disk / "out")
        own_disk(disk, "32m")
        grade_class(source, disk / "out", specs, function=instant)
        after = results(disk / "out")
        assert 10 < len(before) < 120 == len(after)
        assert before.items() <= after.items()
        grade_class(source, disk / "whole", specs, function=instant)
        assert after == results(disk / "whole")
        assert rows(disk / "out") == rows(disk / "whole")
        return said

    said = in_a_child(fill)
    if said.startswith("skip"):
        pytest.skip(said)
    assert said.endswith(
        "class.sqlite: the disk is full. All that is stored is safe: make room, and the same "
        "command goes on"
    )


def written(out: Path) -> set[Path]:
    """The files beside the store."""
    return {p for p in out.rglob("*.*") if p.is_file() and not p.name.startswith(NAME)}


def test_views_are_whole_or_not_written(source, out, exercises, ran, monkeypatch):
    grade_class(source, out, exercises)
    before = {path: path.read_bytes() for path in written(out)}
    submission(source / "ada", f"# ada wrong\n{RIGHT}")

    def fail(self, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="No space left"):
        grade_class(source, out, exercises)
    assert {path: path.read_bytes() for path in written(out)} == before


def test_of_two_commands_that_write_pages_one_waits(source, out, exercises, ran, monkeypatch):
    _, book = grade_class(source, out, exercises)
    at_work, most = [], []
    replace_one = views._replace

    def slowly(path: Path, text: str) -> None:
        at_work.append(path)
        most.append(len(at_work))
        time.sleep(0.002)
        replace_one(path, text)
        at_work.remove(path)

    monkeypatch.setattr(views, "_replace", slowly)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: views.write(book, exercises, out), range(3)))
    assert max(most) == 1 and len(most) > 3


def test_pages_of_students_who_are_gone_go(source, out, exercises, ran):
    grade_class(source, out, exercises)
    (out / "students" / "mine.txt").touch()
    (source / "cyd").rmdir()
    grade_class(source, out, exercises)
    assert set(scores(out)) == {"ada", "bob"}
    assert {path.name for path in (out / "students").iterdir()} == {
        *("ada.html", "ada.md", "bob.html", "bob.md", "mine.txt")
    }
    assert views.PAGE == "index.html"
