"""A batch loses nothing, grades nothing twice, and no submission can stop or spoil it."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from grader import confinement
from grader import evidence as evidence_files
from grader import grade as grading
from grader.batch import run as batch
from grader.evidence import PartEvidence
from grader.grade import PUBLIC_SEED, Session, SubmissionError
from grader.spec import Exercise
from grader.status import Status
from tests.grader.small_exercise import (
    BRIEF,
    GRID_ROUNDS_DOWN,
    RIGHT,
    SPEC,
    STUB,
    submission,
    write_spec,
)


@pytest.fixture(autouse=True)
def any_sandbox_will_do(monkeypatch) -> None:
    """Batches insist on a sandbox; what is tested here holds on machines without one as well."""
    choose = confinement.choose
    monkeypatch.setattr(
        confinement,
        "choose",
        lambda wanted=None, device="interpreter", _=False: choose(wanted, device),
    )


@pytest.fixture(scope="module")
def exercises(tmp_path_factory) -> dict[str, Exercise]:
    """The small exercise alone."""
    return write_spec(tmp_path_factory.mktemp("specs"))


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """Names of the submissions of which a part was run; no kernel is: what matters is the rest.

    A submission that says `wrong` fails.
    """
    names: list[str] = []

    def part(self: Session, exercise, variant, dtype, size_class, step, on_step) -> PartEvidence:
        names.append(self.submission.name)
        on_step(step)
        text = (self.submission / variant.file).read_text(encoding="utf-8", errors="replace")
        status = Status.wrong_values if "wrong" in text else Status.passed
        return PartEvidence(dtype, size_class, status, 3)

    monkeypatch.setattr(Session, "_check", part)
    return names


@pytest.fixture
def source(tmp_path) -> Path:
    """Three submissions: right, wrong, and nothing handed in."""
    folder = tmp_path / "submissions"
    submission(folder / "ada", RIGHT)
    submission(folder / "bob", f"# wrong\n{RIGHT}")
    (folder / "cyd").mkdir()
    return folder


@pytest.fixture
def out(tmp_path) -> Path:
    """Where the results go."""
    return tmp_path / "results"


def run(source: Path, out: Path, exercises, **options) -> batch.Table:
    """A batch with the public seed."""
    return batch.run(source, out, exercises, **{"seed": PUBLIC_SEED, **options})


def rows(out: Path) -> list[dict[str, str]]:
    """The CSV file as a spreadsheet reads it."""
    with (out / "scores.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def scores(out: Path) -> dict[str, str]:
    return {row["submission"]: row["score"] for row in rows(out)}


def test_a_bonus_is_in_the_score_and_told_on_its_own(source, out, tmp_path, ran):
    text = SPEC.replace("points: {ragged: 3}", "bonus: true, points: {ragged: 3}")
    run(source, out, write_spec(tmp_path / "specs", text))
    names = ("score", "gradable", "max_score", "bonus", "max_bonus")
    assert [tuple(row[name] for name in names) for row in rows(out)] == [
        ("3", "0", "0", "3", "3"),
        ("0", "0", "0", "0", "3"),
        ("0", "0", "0", "0", "3"),
    ]


def test_a_folder_of_folders_becomes_a_table(source, out, exercises, monkeypatch):
    submission(source / "bob", GRID_ROUNDS_DOWN)
    submission(source / "dan", STUB)
    real = grading.grade
    monkeypatch.setattr(
        batch, "grade", lambda *a, **k: real(*a, device="interpreter", effort=BRIEF, **k)
    )
    table = run(source, out, exercises)
    assert table.complete
    assert table.grader_errors == []
    status = "silu/triton status"
    assert [(r["submission"], r["score"], r["max_score"], r[status]) for r in rows(out)] == [
        ("ada", "3", "3", "passed"),
        ("bob", "0", "3", "not_written"),
        ("cyd", "0", "3", "not_attempted"),
        ("dan", "0", "3", "not_attempted"),
    ]
    for name in ("ada", "bob", "cyd", "dan"):
        assert evidence_files.read(out / "evidence" / f"{name}.json").submission == name
        assert name in (out / "reports" / f"{name}.html").read_text(encoding="utf-8")


def test_a_second_run_grades_nothing_again(source, out, exercises, ran):
    run(source, out, exercises)
    first = (out / "scores.csv").read_bytes()
    assert ran == ["ada", "bob"]
    run(source, out, exercises)
    assert ran == ["ada", "bob"]
    assert (out / "scores.csv").read_bytes() == first


def test_what_changed_is_graded_again_and_nothing_else(source, out, exercises, ran):
    run(source, out, exercises)
    submission(source / "bob", RIGHT)
    submission(source / "cyd", RIGHT)
    ran.clear()
    run(source, out, exercises)
    assert ran == ["bob", "cyd"]
    assert scores(out) == {"ada": "3", "bob": "3", "cyd": "3"}


def test_another_seed_is_another_test(source, out, exercises, ran):
    run(source, out, exercises)
    run(source, out, exercises, seed=1)
    assert ran == ["ada", "bob"] * 2
    assert {row["seed"] for row in rows(out)} == {"1"}


def test_a_changed_threshold_needs_no_new_run_but_a_new_size_class_does(
    source, out, exercises, ran, tmp_path
):
    run(source, out, exercises)
    dearer = write_spec(tmp_path / "dearer", SPEC.replace("ragged: 3}", "ragged: 5}"))
    run(source, out, dearer)
    assert ran == ["ada", "bob"]
    assert scores(out)["ada"] == "5"
    text = SPEC.replace("[1, 20]}}", "[1, 20]}, aligned: {n: {multiple_of: 4, up_to: 8}}}")
    more = write_spec(tmp_path / "more", text.replace("ragged: 3}", "ragged: 3, aligned: 1}"))
    run(source, out, more)
    assert ran == ["ada", "bob"] + ["ada"] * 2 + ["bob"] * 2


def test_grading_less_than_before_uses_and_keeps_what_there_is(source, out, tmp_path, ran):
    text = SPEC + "  other: {file: other.py, entry: silu, dtypes: [float32], points: {ragged: 1}}\n"
    both = write_spec(tmp_path / "both", text)
    run(source, out, both)
    before = (out / "evidence" / "ada.json").read_bytes()
    ran.clear()
    run(source, out, both, only=["silu/other"])
    assert ran == []
    assert (out / "evidence" / "ada.json").read_bytes() == before
    assert {row["max_score"] for row in rows(out)} == {"1"}


def test_what_the_grader_failed_on_is_tried_again(source, out, exercises, ran, monkeypatch):
    works = Session._check

    def fail(self, exercise, variant, dtype, size_class, step, on_step):
        return PartEvidence(dtype, size_class, Status.grader_error, reason="Boom")

    monkeypatch.setattr(Session, "_check", fail)
    table = run(source, out, exercises)
    assert table.grader_errors == ["ada", "bob"]
    assert [row["note"] for row in rows(out)] == ["the grader failed on a part of it"] * 2 + [""]
    monkeypatch.setattr(Session, "_check", works)
    table = run(source, out, exercises)
    assert table.grader_errors == []
    assert ran == ["ada", "bob"]
    assert [row["note"] for row in rows(out)] == ["", "", ""]


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("inside", [True, False], ids=["within-grade", "outside"])
def test_an_interrupted_batch_keeps_what_is_done_and_goes_on_from_there(
    source, out, exercises, ran, monkeypatch, inside
):
    owner, name = (Session, "_check") if inside else (batch, "grade")
    real = getattr(owner, name)

    def interrupt(*args, **options):
        folder = args[0].submission if inside else args[0]
        if folder.name == "bob":
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(owner, name, interrupt)
    table = run(source, out, exercises)
    assert not table.complete
    assert scores(out) == {"ada": "3"}
    assert not (out / "evidence" / "bob.json").exists()

    monkeypatch.setattr(owner, name, real)
    ran.clear()
    table = run(source, out, exercises)
    assert table.complete
    assert ran == ["bob"]
    assert scores(out) == {"ada": "3", "bob": "0", "cyd": "0"}


def test_an_interruption_takes_no_row_away(source, out, exercises, ran, monkeypatch):
    run(source, out, exercises)
    submission(source / "ada", f"{RIGHT}\n# changed\n")

    def interrupt(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "grade", interrupt)
    assert not run(source, out, exercises).complete
    assert set(scores(out)) == {"bob", "cyd"}  # ada's score is of another file


def test_nothing_is_ever_half_written(source, out, exercises, ran, monkeypatch):
    run(source, out, exercises)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert len(before) == 7
    submission(source / "ada", f"{RIGHT}\n# changed\n")

    def fail(fd: int) -> None:
        raise OSError(28, "No space left on device", str(out))

    monkeypatch.setattr(batch.os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        run(source, out, exercises)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


# --- odd submissions ------------------------------------------------------------------------------


def test_odd_files_are_a_row_and_not_a_stop(source, out, exercises, ran):
    (source / "eve" / "silu.py").mkdir(parents=True)
    os.mkfifo(submission(source / "fay").joinpath("pipe"))
    (source / "gus").mkdir()
    os.mkfifo(source / "gus" / "silu.py")
    submission(source / "hal", "#" * (2 << 20))
    (source / "ida").mkdir()
    (source / "ida" / "silu.py").symlink_to("silu.py")
    (source / "jan").mkdir()
    (source / "jan" / "silu.py").write_bytes(b"\xff\xfe\x00")
    for _ in range(2):
        table = run(source, out, exercises)
        assert table.complete
        assert table.grader_errors == []
        assert len(rows(out)) == 9
    assert ran == ["ada", "bob", "fay", "jan"]


def test_a_submission_the_grader_breaks_on_is_a_row_and_not_a_stop(
    source, out, exercises, ran, monkeypatch
):
    real = batch.grade

    def grade(folder, *args, **options):
        if folder.name == "ada":
            raise RuntimeError("Boom\x1b[2J")
        if folder.name == "bob":
            raise SubmissionError("gone")
        return real(folder, *args, **options)

    monkeypatch.setattr(batch, "grade", grade)
    table = run(source, out, exercises)
    assert table.complete
    assert table.grader_errors == ["ada"]
    ada, bob, cyd = rows(out)
    assert ada["note"] == "the grader failed: RuntimeError: Boom"
    assert (ada["score"], bob["score"], bob["note"]) == ("", "", "the folder is gone")
    assert cyd["score"] == "0"


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", " =1+1", "\t=1+1", "\n=1+1", '=cmd|"/C calc"!A0']
)
def test_no_name_becomes_a_formula(source, out, exercises, ran, name):
    submission(source / name.replace("/", "_"))
    run(source, out, exercises)
    for row in rows(out):
        for cell in row.values():
            assert cell.lstrip()[:1] not in {"=", "+", "-", "@"}
            assert cell[:1] not in {"\t", "\r", "\n"}


@pytest.mark.parametrize("cell", ["=1", " =1", " +1", "\t1", "\r1", "\n1", "-1", "@A1"])
def test_a_cell_that_a_spreadsheet_would_run_is_quoted(cell):
    assert batch._safe(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "3", "0.5", "ada", "a=b", "O'Brien"])
def test_a_plain_cell_stays_as_it_is(cell):
    assert batch._safe(cell) == cell


def test_names_no_file_could_have_lose_nothing(source, out, exercises, ran):
    long = "x" * 250
    odd = os.fsdecode(b"\xff\xfe")
    for name in (long, long[:-1] + "y", odd, "two\nlines", "a,b", '"q"'):
        submission(source / name)
    for _ in range(2):
        table = run(source, out, exercises)
        assert table.complete
        assert table.grader_errors == []
    assert len(ran) == 2 + 6
    assert len(rows(out)) == 3 + 6
    assert len(list((out / "evidence").iterdir())) == 3 + 6


def test_only_folders_are_submissions_and_the_results_are_none(source, exercises, ran):
    (source / "late.zip").touch()
    (source / ".git").mkdir()
    out = source / "results"
    for _ in range(2):
        table = run(source, out, exercises)
        assert set(table.rows) == {"ada", "bob", "cyd"}
        assert table.left_out == ["late.zip"]


@pytest.mark.parametrize("make", [False, True])
def test_a_source_without_submissions_is_the_users_mistake(tmp_path, out, exercises, make):
    source = tmp_path / "none"
    if make:
        source.mkdir()
        (source / "ada.zip").touch()
    with pytest.raises(SubmissionError, match="none: expected"):
        run(source, out, exercises)
    assert not out.exists()


def test_progress_counts_what_is_done(source, out, exercises, ran):
    told = []
    run(source, out, exercises, on_submission=lambda *args: told.append(args))
    assert told == [("ada", 0, 3), ("bob", 1, 3), ("cyd", 2, 3)]
    submission(source / "bob", RIGHT)
    told.clear()
    run(source, out, exercises, on_submission=lambda *args: told.append(args))
    assert told == [("bob", 2, 3)]


def test_what_was_graded_without_a_sandbox_is_graded_again_where_one_is_required(
    source, out, exercises, ran, monkeypatch
):
    with monkeypatch.context() as patched:
        patched.setattr(confinement, "_try", _limits_only)
        run(source, out, exercises, require_sandbox=False)
        assert len(ran) == 2
        run(source, out, exercises, require_sandbox=False)
        assert len(ran) == 2
    if not any(offer.works for offer in confinement.probe()[:2]):
        pytest.skip("no sandbox on this machine")
    run(source, out, exercises, require_sandbox=True)
    assert len(ran) == 4
    run(source, out, exercises, require_sandbox=True)
    assert len(ran) == 4


def _limits_only(level, device):
    return confinement.Offer(level, level is confinement.Level.limits, "switched off by a test")
