"""The commands on a class: what they say, write and ask, and one line for each mistake."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from rich.console import Console

from grader.batch.course.records import Handin
from grader.batch.missing_results import Job
from grader.batch.run import progress, run
from grader.batch.run.finished import Finished
from grader.batch.run.run import Machines
from grader.batch.store.handins import StoredHandin
from grader.batch.store.store import NAME, Store
from grader.batch.tasks import Graded, HandinTask
from grader.evidence import (
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
    variant_from_json,
    variant_to_json,
)
from grader.grading.session import Step
from grader.sandbox import confinement
from grader.spec import load_all
from grader.status import Status
from tests.support import standin
from tests.support.commandline import any_sandbox_will_do, call, one_line, work_on
from tests.support.small_exercise import write_spec
from tests.support.standin import TWO, InThisProcess, instant, two_variants, unchecked
from tests.support.synthetic_class import clone_at

COURSE = """\
title: Kernels
due: 2026-12-01T12:00+00:00
late: {penalty_per_day: 50}
"""
ROSTER = """\
Student,ID,SIS User ID,SIS Login ID,Section,Kernels (77)
    Points Possible,,,,,4
"Lovelace, Ada",1001,ada,ada,A,
"Babbage, Charles",1002,bob,bob,A,
"Nobody, Cyd",1003,cyd,cyd,A,
"""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Two small variants, graded in this process in no time; any sandbox will do."""
    exercises = two_variants(tmp_path / "specs")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    work_on(monkeypatch, lambda: exercises)
    any_sandbox_will_do(monkeypatch)
    grade_with(monkeypatch, instant)
    return exercises


def grade_with(monkeypatch, function, device: str = "cpu") -> list[HandinTask]:
    """Have every run call `function`; returns the tasks it was given."""
    tasks: list[HandinTask] = []

    def noted(task: HandinTask) -> Graded:
        tasks.append(task)
        return function(task)

    @contextmanager
    def machines(watcher, jobs=None):
        yield Machines(device, InThisProcess(noted))

    monkeypatch.setattr(run, "this_machine", machines)
    return tasks


@pytest.fixture
def source(tmp_path) -> Path:
    """Ada has all right, bob one of two, and cyd has handed in nothing that counts."""
    folder = tmp_path / "in"
    for name, files in {
        "ada": {"silu.py": "x = 'right ada'", "other.py": "x = 'right other'"},
        "bob": {"silu.py": "x = 'right bob'", "other.py": "x = 'wrong'"},
        "cyd": {"notes.txt": "sorry"},
    }.items():
        (folder / name).mkdir(parents=True)
        for file, text in files.items():
            (folder / name / file).write_text(text)
    return folder


@pytest.fixture
def results(tmp_path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def graded(source, results, capsys) -> Path:
    """The class, graded."""
    assert call(capsys, "batch", source, "--out", results).code == 0
    return results


def scores(results: Path) -> dict[str, str]:
    with (results / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row["score"] for row in csv.DictReader(file)}


# --- batch ----------------------------------------------------------------------------------------


def test_a_batch_is_told_in_lines_and_ends_in_files(capsys, source, results):
    (source / "notes.txt").touch()
    ran = call(capsys, "batch", source, "--out", results, "--plain")
    assert ran.code == 0
    assert f"3 hand-ins of 3 students, 3 with a final score; {results / 'gradebook.csv'}" in ran.out
    assert "notes.txt" in ran.out
    assert "0 of 3 submissions are graded already" in ran.err
    assert "1/3 ada: 2 passed" in ran.err
    assert "2/3 bob: 1 passed, 1 wrong values" in ran.err
    assert scores(results) == {"ada": "4", "bob": "3", "cyd": "0"}
    ran = call(capsys, "batch", source, "--out", results)
    assert "3 of 3 submissions are graded already" in ran.err


def test_results_do_not_go_among_the_hand_ins(capsys, source):
    ran = call(capsys, "batch", source, "--out", source / ".")
    assert (ran.code, ran.out) == (2, "")
    assert "expected another folder than that of the submissions" in one_line(ran.err)
    assert not (source / "class.sqlite").exists()


def test_a_link_to_itself_holds_no_submissions(capsys, tmp_path, results):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    ran = call(capsys, "batch", tmp_path / "loop", "--out", results)
    assert (ran.code, ran.out) == (2, "")
    assert "expected a folder of submissions, or an archive; found nothing" in one_line(ran.err)


def test_results_are_a_folder(capsys, source):
    ran = call(capsys, "batch", source, "--out", __file__)
    assert (ran.code, ran.out) == (2, "")
    assert "expected a folder, got a file" in one_line(ran.err)


def test_a_class_in_which_nobody_has_a_wanted_file_may_be_of_another_course(
    capsys, tmp_path, results
):
    (tmp_path / "class" / "ada").mkdir(parents=True)
    (tmp_path / "class" / "ada" / "square.py").touch()
    words = ("batch", tmp_path / "class", "--out", results, "--layout", "folders")
    warning = "No hand-in has a file that an exercise names (other.py, silu.py)"
    assert warning in call(capsys, *words).out
    (tmp_path / "class" / "ada" / "silu.py").touch()
    assert "No hand-in" not in call(capsys, *words).out


def test_what_is_left_out_is_counted_where_it_is_too_much_to_list(capsys, source, results):
    for number in range(13):
        (source / f"student{number}_silu.py").touch()
    ran = call(capsys, "batch", source, "--out", results)
    assert ran.out.count("left out, neither a folder nor an archive") == 10
    assert "\nand 3 more\n" in ran.out


def test_a_hand_in_that_its_source_has_no_more_is_named(capsys, source, graded):
    shutil.rmtree(source / "ada")
    ran = call(capsys, "batch", source, "--out", graded)
    assert ran.code == 0
    assert "no longer in its source, so it doesn't count: ada\n" in ran.out
    assert scores(graded) == {"bob": "3", "cyd": "0"}


def test_results_of_another_courses_exercises_keep_their_gradebook(
    capsys, source, graded, surroundings, monkeypatch, tmp_path
):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "gemm.yaml").write_text(f"oracle: silu\n{TWO}")
    others = load_all(tmp_path / "others")
    before = (graded / "gradebook.csv").read_bytes()
    work_on(monkeypatch, lambda: others)
    for words in (("batch", source, "--out", graded), ("rescore", graded, "--yes")):
        ran = call(capsys, *words)
        assert ran.code == 2
        assert "expected the course that has silu, with which it was graded" in one_line(ran.err)
        assert "got one with gemm" in one_line(ran.err)
    assert (graded / "gradebook.csv").read_bytes() == before
    work_on(monkeypatch, lambda: others | surroundings)
    assert call(capsys, "batch", source, "--out", graded).code == 0


def test_what_is_damaged_is_named_once(capsys, source, results):
    (source / "dan.zip").write_bytes(b"PK\3\4 and no more")
    (source / "eve").mkdir()
    (source / "eve" / "assignment.zip").write_bytes(b"PK\3\4 and no more")
    ran = call(capsys, "batch", source, "--out", results)
    told = [line for line in ran.out.splitlines() if " is damaged" in line]
    assert [line.partition(" is damaged")[0] for line in told] == [
        "can't be read: dan.zip",
        "can't be read: eve: assignment.zip",
    ]
    page = (results / "index.html").read_text(encoding="utf-8")
    assert "eve: eve" not in page
    assert "dan.zip: dan.zip" not in page


def test_a_part_of_the_exercises_is_out_of_what_that_part_is_worth(capsys, source, results):
    for only, most in (("silu/other", "1"), ("silu/triton", "4")):
        assert call(capsys, "batch", source, "--out", results, "--only", only).code == 0
        sheet = call(capsys, "export", results, "--format", "canvas").out
        [possible] = [row for row in csv.reader(io.StringIO(sheet)) if "Points" in row[0]]
        assert possible[-1] == most
        assert json.loads((results / "gradebook.json").read_text())["max_score"] == float(most)


GRADES = """\
assignment_name,github_username,roster_identifier,student_repository_name,submission_timestamp
Kernels,ada,1001,lab-ada,2026-12-02 11:00:00 UTC
Kernels,bob,1002,lab-bob,
"""


@pytest.fixture
def clones(tmp_path) -> Path:
    """Two clones whose commits say that they were made in time."""
    folder = tmp_path / "lab-submissions"
    in_time = datetime(2026, 12, 1, 11, tzinfo=timezone.utc)
    for name in ("ada", "bob"):
        files = {"silu.py": b"x = 'right'", "other.py": name.encode(), **clone_at(in_time)}
        for file, data in files.items():
            path = folder / f"lab-{name}" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return folder


@pytest.mark.parametrize("option", ["--times", "--roster"])
def test_a_clone_is_late_by_the_platforms_time(capsys, clones, results, tmp_path, option):
    course, grades = tmp_path / "course.yaml", tmp_path / "grades.csv"
    course.write_text(COURSE)
    grades.write_text(GRADES)
    ran = call(capsys, "batch", clones, "--out", results, "--course", course)
    assert "judged by the times of commits" in ran.out
    assert scores(results) == {"ada": "4", "bob": "4"}
    assert call(capsys, "batch", clones, "--out", results, option, grades).code == 0
    again = call(capsys, "batch", clones, "--out", results)  # the file is remembered
    told = "judged by grades.csv for 1 of 2 hand-ins, by their commits' times for 1"
    assert told in again.out
    ada, bob = ("1001", "1002") if option == "--roster" else ("ada", "bob")
    assert scores(results) == {ada: "2", bob: "4"}  # a day late
    notes = {
        e["id"]: e["notes"] for e in json.loads((results / "gradebook.json").read_text())["entries"]
    }
    assert notes[ada] == []
    assert notes[bob] == ["its time is that of its last commit: grades.csv tells none"]


def test_other_platforms_tell_their_own_times(capsys, source, results, tmp_path):
    grades = tmp_path / "grades.csv"
    grades.write_text(GRADES)
    ran = call(capsys, "batch", source, "--out", results, "--times", grades)
    assert ran.code == 2
    assert "expected GitHub Classroom's clones" in one_line(ran.err)
    assert not results.exists()


def test_the_graders_own_failure_is_in_the_exit_status(capsys, source, results, monkeypatch):
    def fail(task: HandinTask) -> Graded:
        raise RuntimeError("Boom\x1b[2J")

    grade_with(monkeypatch, fail)
    ran = call(capsys, "batch", source, "--out", results)
    assert ran.code == 3
    assert "THE GRADER FAILED on ada, bob, cyd: the same command tries again" in ran.out
    assert "Boom" in ran.err
    assert "Not final: 2 of 3 students" in ran.out
    assert scores(results) == {"ada": "", "bob": "", "cyd": "0"}


def test_an_interrupted_batch_says_that_it_goes_on(capsys, source, results, monkeypatch):
    def interrupt(task: HandinTask) -> Graded:
        import os
        import signal

        os.kill(os.getpid(), signal.SIGINT)
        return instant(task)

    grade_with(monkeypatch, interrupt)
    ran = call(capsys, "batch", source, "--out", results)
    assert ran.code == 130
    assert "what is graded is stored" in ran.err
    assert "The same command goes on from here" in ran.out
    assert scores(results) == {"ada": "4", "bob": "", "cyd": ""}
    grade_with(monkeypatch, instant)
    ran = call(capsys, "batch", source, "--out", results)
    assert ran.code == 0
    assert "1 of 3 submissions are graded already" in ran.err
    assert scores(results) == {"ada": "4", "bob": "3", "cyd": "0"}


def test_a_file_that_a_killed_first_run_left_empty_is_begun_anew(capsys, source, results):
    results.mkdir()
    (results / NAME).touch()
    ran = call(capsys, "batch", source, "--out", results)
    assert ran.code == 0, ran.err
    assert len(scores(results)) > 1


def test_the_seed_is_drawn_once_and_no_other_is_taken(capsys, source, graded):
    known = json.loads((graded / "gradebook.json").read_text())["seed"]
    ran = call(capsys, "batch", source, "--out", graded, "--seed", known + 1)
    assert ran.code == 2
    assert f"expected {known}" in one_line(ran.err)
    assert call(capsys, "batch", source, "--out", graded, "--seed", known).code == 0


def test_a_course_and_a_roster_are_remembered(capsys, source, results, tmp_path):
    course, roster = tmp_path / "course.yaml", tmp_path / "roster.csv"
    course.write_text(COURSE)
    roster.write_text(ROSTER)
    options = ("--course", course, "--roster", roster)
    assert call(capsys, "batch", source, "--out", results, *options).code == 0
    assert scores(results) == {"1001": "4", "1002": "3", "1003": "0"}
    ran = call(capsys, "batch", source, "--out", results)
    assert (ran.code, scores(results)["1001"]) == (0, "4")
    course.write_text(COURSE.replace("Kernels", "Other kernels"))
    ran = call(capsys, "export", results)
    assert f"{course}: changed since it was last read, and read anew" in ran.err
    assert json.loads((results / "gradebook.json").read_text())["title"] == "Other kernels"
    course.unlink()
    roster.unlink()
    ran = call(capsys, "export", results)
    assert ran.err.count("not found") == 2
    assert json.loads((results / "gradebook.json").read_text())["title"] == "Other kernels"
    assert scores(results) == {"1001": "4", "1002": "3", "1003": "0"}


def test_a_course_file_in_a_place_that_cannot_be_looked_into_counts_as_gone(capsys, graded):
    course = Path("a/" * 3000 + "course.yaml")  # as in a folder of another user's
    with Store(graded) as store:
        store.keep_document("course", course, COURSE.encode())
    assert call(capsys, "export", graded).code == 0
    assert json.loads((graded / "gradebook.json").read_text())["title"] == "Kernels"


def test_a_file_that_arrives_late_is_added_to_the_class(capsys, source, graded, tmp_path):
    late = tmp_path / "late" / "dan"
    shutil.copytree(source / "ada", late)
    ran = call(capsys, "batch", late.parent, "--out", graded, "--layout", "folders")
    assert ran.code == 0
    assert "2 results shared" in ran.out or "4 of 4" in ran.err
    assert scores(graded) == {"ada": "4", "bob": "3", "cyd": "0", "dan": "4"}


def test_results_of_two_devices_are_never_mixed(capsys, source, graded, monkeypatch, tmp_path):
    def on_gpu(task: HandinTask) -> Graded:
        environment = {**standin.ENVIRONMENT, "gpu": "NVIDIA H100"}
        here = replace(task, device="cpu")
        return replace(unchecked(here), environment=environment)

    grade_with(monkeypatch, on_gpu, "NVIDIA H100")
    ran = call(capsys, "batch", source, "--out", graded)
    assert ran.code == 2
    assert "results of several devices (NVIDIA H100, cpu)" in ran.err.splitlines()[-1]
    course = tmp_path / "course.yaml"
    course.write_text("device: H100\n")
    assert call(capsys, "export", graded, "--course", course).code == 0
    assert json.loads((graded / "gradebook.json").read_text())["device"] == "NVIDIA H100"


@pytest.mark.parametrize("begun", ["nothing", "a folder"])
@pytest.mark.parametrize("wrong", ["--course", "--roster"])
def test_a_mistake_at_the_first_run_leaves_nothing(capsys, source, tmp_path, begun, wrong):
    results = tmp_path / "new" / "results"
    if begun == "a folder":
        results.mkdir(parents=True)
        (results / "mine.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    file = tmp_path / "wrong"
    file.write_text("due: yesterday\n")
    ran = call(capsys, "batch", source, "--out", results, wrong, file)
    assert (ran.code, "expected" in ran.err) == (2, True)
    assert sorted({*tmp_path.rglob("*")} - {file}) == before


def test_a_mistake_later_leaves_what_is_there(capsys, source, graded, tmp_path):
    file = tmp_path / "wrong"
    file.write_text("due: yesterday\n")
    before = sorted(graded.rglob("*"))
    assert call(capsys, "batch", source, "--out", graded, "--course", file).code == 2
    assert sorted(graded.rglob("*")) == before
    assert call(capsys, "batch", source, "--out", graded).code == 0


def test_no_sandbox_no_class(capsys, source, results, monkeypatch):
    def none(wanted=None, device="cpu", required=False):
        if required:
            raise confinement.ConfinementError("no sandbox here")

    monkeypatch.setattr(confinement, "choose", none)
    ran = call(capsys, "batch", source, "--out", results)
    assert (ran.code, one_line(ran.err)) == (2, "no sandbox here")
    assert not results.exists()
    assert call(capsys, "batch", source, "--out", results, "--no-sandbox-needed").code == 0


def test_a_full_disk_while_writing_pages_says_how_to_write_them(
    capsys, source, results, monkeypatch
):
    real = Path.write_bytes

    def fail(self, data: bytes) -> int:
        if self.suffix == ".part":
            raise OSError(28, "No space left on device", str(self))
        return real(self, data)

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", fail)
        ran = call(capsys, "batch", source, "--out", results)
    assert ran.code == 2
    assert "No space left on device. All results are stored: `grader export" in ran.err
    assert call(capsys, "export", results).code == 0
    assert scores(results) == {"ada": "4", "bob": "3", "cyd": "0"}


# --- rescore --------------------------------------------------------------------------------------


@pytest.fixture
def dearer(monkeypatch, tmp_path):
    """Specs in which what bob has right is worth twice as much."""
    specs = write_spec(tmp_path / "dearer", TWO.replace("{ragged: 3}", "{ragged: 6}"))

    def take() -> None:
        work_on(monkeypatch, lambda: specs)

    return take


def test_rescoring_says_who_moves_by_how_much_before_it_writes(capsys, graded, dearer, monkeypatch):
    tasks = grade_with(monkeypatch, instant)
    dearer()
    ran = call(capsys, "rescore", graded)
    assert ran.code == 2
    assert "ada: 4 -> 7 (+3)" in ran.out
    assert "bob: 3 -> 6 (+3)" in ran.out
    assert "cyd" not in ran.out
    assert "2 of 3 scores change" in ran.out
    assert "Give --yes" in one_line(ran.err)
    assert scores(graded) == {"ada": "4", "bob": "3", "cyd": "0"}
    ran = call(capsys, "rescore", graded / NAME, "--yes")
    assert ran.code == 0
    assert scores(graded) == {"ada": "7", "bob": "6", "cyd": "0"}
    assert "Nobody's score changes" in call(capsys, "rescore", graded).out
    assert tasks == []


@pytest.mark.parametrize(("answer", "score"), [("y\n", "7"), ("n\n", "4"), ("\n", "4")])
def test_rescoring_asks_where_somebody_is_there(capsys, graded, dearer, monkeypatch, answer, score):
    dearer()
    stdin = io.StringIO(answer)
    stdin.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", stdin)
    ran = call(capsys, "rescore", graded)
    assert "Write this gradebook?" in ran.out
    assert scores(graded)["ada"] == score


def test_rescoring_says_what_has_to_be_run_again(capsys, graded, monkeypatch, tmp_path):
    specs = write_spec(tmp_path / "wider", TWO.replace("[1, 20]", "[1, 30]"))
    work_on(monkeypatch, lambda: specs)
    ran = call(capsys, "rescore", graded)
    assert "ada: 4 -> none" in ran.out
    assert "3 students with no results under the specs as they are" in ran.out
    assert scores(graded)["ada"] == "4"


# --- regrade --------------------------------------------------------------------------------------


def test_regrading_runs_one_students_parts_and_nothing_else(capsys, source, graded, monkeypatch):
    shutil.rmtree(source)  # the files are in the store

    def worse(task: HandinTask) -> Graded:
        return unchecked(replace(task, files=dict.fromkeys(task.files, b"wrong")))

    tasks = grade_with(monkeypatch, worse)
    ran = call(capsys, "regrade", graded, "--student", "ada", "--only", "silu/triton")
    assert ran.code == 0
    assert [[wanted.name for wanted in task.wanted] for task in tasks] == [["silu/triton"]]
    assert "ada: 4 -> 1 (-3)" in ran.out
    assert scores(graded) == {"ada": "1", "bob": "3", "cyd": "0"}
    database = sqlite3.connect(graded / NAME)
    query = "SELECT status FROM results WHERE superseded IS NOT NULL"
    assert database.execute(query).fetchall() == [("passed",)]
    database.close()


def test_regrading_runs_what_the_class_was_graded_on(capsys, source, results, monkeypatch):
    tasks = grade_with(monkeypatch, instant)
    call(capsys, "batch", source, "--out", results, "--only", "silu/triton")
    before = scores(results)
    tasks.clear()
    assert call(capsys, "regrade", results, "--student", "ada").code == 0
    assert [[wanted.name for wanted in task.wanted] for task in tasks] == [["silu/triton"]]
    assert scores(results) == before


# --- adjust ---------------------------------------------------------------------------------------


def test_points_are_added_listed_and_taken_back(capsys, graded, dearer):
    ran = call(capsys, "adjust", graded, "--student", "bob", "--points", "+2", "--reason", "typo")
    assert ran.code == 0, ran.err
    assert "bob: 3 -> 5 (+2)" in ran.out
    ran = call(
        capsys, "adjust", graded, "--student", "ada", "--points", "-0.5", "--reason", "=late"
    )
    assert scores(graded) == {"ada": "3.5", "bob": "5", "cyd": "0"}
    listed = call(capsys, "adjust", graded).out
    assert "1: bob: +2 points: typo" in listed
    assert "2: ada: -0.5 points: =late" in listed
    assert "bob" not in call(capsys, "adjust", graded, "--student", "ada").out
    dearer()
    assert call(capsys, "rescore", graded, "--yes").code == 0
    assert scores(graded) == {"ada": "6.5", "bob": "8", "cyd": "0"}
    assert call(capsys, "adjust", graded, "--undo", "1", "--reason", "no typo").code == 0
    assert scores(graded)["bob"] == "6"
    assert "1 (undone): bob: +2 points: typo" in call(capsys, "adjust", graded).out


def test_adjustments_survive_regrading(capsys, source, graded):
    call(capsys, "adjust", graded, "--student", "bob", "--points", "2", "--reason", "typo")
    assert call(capsys, "regrade", graded, "--student", "bob").code == 0
    assert call(capsys, "batch", source, "--out", graded).code == 0
    assert scores(graded)["bob"] == "5"


def strict(task: HandinTask) -> Graded:
    """As `instant`, but without its rules lifted every file breaks one."""
    graded = instant(task)
    made = []
    for each in graded.results:
        seen = variant_from_json(each.evidence)
        if seen.parts and not seen.rules_lifted:
            parts = tuple(replace(part, status=Status.policy_violation) for part in seen.parts)
            seen = replace(seen, parts=parts)
        made.append(replace(each, evidence=variant_to_json(seen)))
    return replace(graded, results=tuple(made))


def test_a_violation_is_lifted_and_run_again_for_that_student_alone(
    capsys, source, results, monkeypatch
):
    tasks = grade_with(monkeypatch, strict)
    call(capsys, "batch", source, "--out", results)
    assert scores(results) == {"ada": "0", "bob": "0", "cyd": "0"}
    tasks.clear()
    words = ("--student", "ada", "--lift", "silu/triton", "--reason", "a false alarm")
    ran = call(capsys, "adjust", results, *words)
    assert ran.code == 0
    assert "ada: 0 -> none" in ran.out  # it has to be run first
    command = f"grader regrade {results} --student ada --only silu/triton"
    assert command in ran.out
    assert tasks == []
    ran = call(capsys, *command.split()[1:])
    assert ran.code == 0
    [task] = tasks
    assert [(wanted.name, wanted.lifted) for wanted in task.wanted] == [("silu/triton", True)]
    assert scores(results) == {"ada": "3", "bob": "0", "cyd": "0"}
    tasks.clear()
    assert call(capsys, "batch", source, "--out", results).code == 0
    assert tasks == []
    assert call(capsys, "adjust", results, "--undo", "1", "--reason", "no, it was one").code == 0
    assert scores(results)["ada"] == "0"


# --- export ---------------------------------------------------------------------------------------


def test_a_gradebook_for_canvas_comes_of_canvas_own_roster(capsys, source, results, tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_text(ROSTER)
    call(capsys, "batch", source, "--out", results, "--roster", roster)
    to = tmp_path / "canvas.csv"
    words = ("--format", "canvas", "--assignment", "Kernels (77)", "--to", to)
    ran = call(capsys, "export", results, *words)
    assert ran.code == 0
    assert f"3 students in {to}" in ran.out
    with to.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["ID"], row["Kernels (77)"]) for row in rows[1:]] == [
        ("1002", "3"),
        ("1001", "4"),
        ("1003", "0"),
    ]


@pytest.mark.parametrize("name", ["gradescope", "classroom", "csv", "json", "canvas"])
def test_every_format_is_printed_where_no_file_is_named(capsys, graded, name):
    ran = call(capsys, "export", graded, "--format", name)
    assert ran.code == 0
    assert "ada" in ran.out


def test_scores_that_are_not_final_are_not_exported_unless_that_is_wanted(
    capsys, source, results, monkeypatch
):
    grade_with(monkeypatch, lambda task: 1 / 0)
    call(capsys, "batch", source, "--out", results)
    ran = call(capsys, "export", results, "--format", "canvas")
    assert ran.code == 2
    assert "no final score" in one_line(ran.err)
    assert call(capsys, "export", results, "--format", "canvas", "--allow-incomplete").code == 0


def test_all_pages_are_written_again(capsys, graded):
    before = {path: path.read_bytes() for path in graded.rglob("*.*ml")}
    assert len(before) == 4
    for path in before:
        path.unlink()
    assert call(capsys, "export", graded).code == 0
    assert set(graded.rglob("*.*ml")) == set(before)


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rescore", "{none}"), "none: can't be read"),
        (("export", "{none}"), "class.sqlite: not found"),
        (("regrade", "{none}", "--student", "ada"), "class.sqlite: not found"),
        (("regrade", "{out}", "--student", "adda"), "did you mean 'ada'?"),
        (("regrade", "{out}", "--student", "ada", "--only", "slu"), "Did you mean silu?"),
        (("adjust", "{out}", "--student", "zoe", "--points", "1", "--reason", "x"), "zoe:"),
        (("adjust", "{out}", "--student", "ada", "--points", "1"), "expected --reason"),
        (("adjust", "{out}", "--points", "1", "--reason", "x"), "expected --student"),
        (("adjust", "{out}", "--student", "ada", "--reason", "x"), "expected one of --points"),
        (("adjust", "{out}", "--student", "ada", "--points", "0", "--reason", "x"), "got 0"),
        (("adjust", "{out}", "--student", "ada", "--points", "nan", "--reason", "x"), "got nan"),
        (("adjust", "{out}", "--student", "ada", "--points", "2e6", "--reason", "x"), "got 2e+06"),
        (("adjust", "{out}", "--student", "ada", "--lift", "sliu", "--reason", "x"), "silu"),
        (("adjust", "{out}", "--undo", "5", "--reason", "x"), "there is no adjustment 5"),
        (("adjust", "{out}", "--undo", "5"), "expected --reason"),
        (
            ("adjust", "{out}", "--undo", "5", "--student", "ada", "--reason", "x"),
            "--undo 5: expected only --reason beside it, no --student or decision",
        ),
        (("export", "{out}", "--to", "x.csv"), "expected --format"),
        (("export", "{out}", "--format", "csv", "--assignment", "x"), "--format canvas"),
        (("export", "{out}", "--format", "csv", "--to", "{none}/x.csv"), "there is no"),
        (("rescore", "{out}", "--json", "x.json"), "expected a file of evidence"),
        (("batch", "{none}", "--out", "{out}"), "expected"),
        (("batch", "{in}", "--out", "{out}", "--layout", "moodle"), "layout: expected"),
        (("batch", "{in}", "--out", "{out}", "--course", "{none}"), "none"),
        (("batch", "{in}", "--out", "{out}", "--roster", "{none}"), "none"),
        (("batch", "{in}", "--out", "{out}", "--scheduler", "nowhere"), "--scheduler"),
    ],
)
def test_a_mistake_gets_one_line(capsys, source, graded, tmp_path, words, said, monkeypatch):
    monkeypatch.setattr("grader.batch.run.cluster.CONNECT_SECONDS", 0.2)
    before = scores(graded)
    names = {"none": tmp_path / "none", "out": graded, "in": source}
    ran = call(capsys, *(word.format(**names) for word in words))
    assert ran.code == 2
    assert said in one_line(ran.err)
    assert scores(graded) == before
    assert not (tmp_path / "none").exists()


# --- progress -------------------------------------------------------------------------------------


def finished(name: str, trouble: str = "") -> Finished:
    handin = StoredHandin(1, Handin(name), {}, True, False)
    return Finished(Job(handin, ()), (), {}, trouble)


def seen(status: Status) -> VariantEvidence:
    return VariantEvidence("s", "v", "f", parts=(PartEvidence("float32", "ragged", status),))


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_the_bar_fits_however_narrow_the_window(columns):
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=columns, color_system=None)
    bar = progress.watcher(terminal, plain=False)
    bar._bar.refresh()  # before it is known how many there are
    bar.begin(2, 300)
    bar.step(Step("\x1b[2J" + "exercise" * 20, "triton", "bfloat16 degenerate", 12))
    bar.finished(finished("ada"), [seen(Status.passed), seen(Status.crashed)], 3)
    bar._bar.refresh()
    bar.close()
    drawn = stream.getvalue()
    assert "3/300" in drawn
    assert "None" not in drawn
    assert drawn.count("\n") == 1
    assert "\x1b[2J" not in drawn


def test_lines_are_for_logs_and_where_nobody_watches():
    stream = io.StringIO()
    assert isinstance(progress.watcher(Console(file=stream), plain=False), progress.Lines)
    terminal = Console(file=stream, force_terminal=True, width=200, color_system=None)
    lines = progress.watcher(terminal, plain=True)
    lines.begin(0, 3)
    lines.finished(finished("a\x1b[2Jda"), [seen(Status.wrong_values), seen(Status.passed)], 1)
    lines.finished(finished("bob", "Traceback\nBoom\n"), [], 2)
    lines.measured(finished("cyd"), 4)
    text = stream.getvalue()
    assert "1/3 ada: 1 passed, 1 wrong values" in text
    assert "bob: THE GRADER FAILED: Boom" in text
    assert "4 to go" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("seconds", "told"), [(0.2, ""), (42, "42 s"), (61, "1 min"), (3660, "1 h 01 min")]
)
def test_the_time_left_is_told_in_round_numbers(seconds, told):
    assert progress._as_duration(seconds) == told


def test_an_implausible_time_is_decided_by_a_person(capsys, source, results, monkeypatch, tmp_path):
    text = TWO.replace(
        "points: {ragged: 3}}",
        "points: {ragged: 3, performance: 2}, performance: {case: {n: 268435456, dtype: float32}, "
        "bytes: n, thresholds: [{speed_vs: copy, at_least: 0.5, points: 2}]}}",
    )
    specs = write_spec(tmp_path / "timed", text)
    work_on(monkeypatch, lambda: specs)

    def timed(task: HandinTask) -> Graded:
        graded = unchecked(replace(task, device="cpu"))
        time = PerformanceEvidence(Status.implausible_time, "faster than memory", "NVIDIA H100")
        made = []
        for each in graded.results:
            found = variant_from_json(each.evidence)
            if found.variant == "triton" and found.parts:
                found = replace(found, performance=time)
            made.append(replace(each, evidence=variant_to_json(found)))
        environment = {**graded.environment, "gpu": "NVIDIA H100"}
        return replace(graded, results=tuple(made), environment=environment)

    grade_with(monkeypatch, timed, "NVIDIA H100")
    ran = call(capsys, "batch", source, "--out", results)
    assert "a person has to decide on the time of silu/triton" in ran.out
    assert scores(results)["ada"] == ""
    words = ("adjust", results, "--student", "ada", "--reason", "seen it run", "--reject-time")
    ran = call(capsys, *words, "silu/triton")
    assert ran.code == 0
    assert scores(results)["ada"] == "4"
