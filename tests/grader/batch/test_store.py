"""The store keeps what it is given, whatever happens to its file, and says what is wrong."""

from __future__ import annotations

import ctypes
import os
import re
import sqlite3
import subprocess
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Entry,
    Gradebook,
    Handin,
    Member,
    Student,
)
from grader.batch.store import database as databases
from grader.batch.store import migrations
from grader.batch.store.results import NewResult
from grader.batch.store.store import NAME, Store
from grader.evidence import PartEvidence, VariantEvidence, variant_to_json
from grader.mistakes import Mistake
from grader.status import Status
from tests.support.small_exercise import ROOT

ENVIRONMENT = {"gpu": None, "sandbox": "bubblewrap", "torch": "2.11"}
AT = datetime(2026, 12, 1, 23, 59, tzinfo=timezone(timedelta(hours=1)))
ADA = Handin(
    "submission_1",
    (Member("17", "Ada", "ada@x.org", "ada"), Member("18", "Bob")),
    AT,
    files={"silu.py": b"# ada\n", "silu.cu": b"\xff\x00"},
    notes=("conftest.py is ignored",),
)


def evidence(status: Status = Status.passed, sha256: str = "a" * 64) -> VariantEvidence:
    part = PartEvidence("float32", "ragged", status, 3)
    return VariantEvidence("silu", "triton", "silu.py", sha256=sha256, parts=(part,))


def result(key: str, status: Status = Status.passed, **more) -> NewResult:
    return NewResult(key, variant_to_json(evidence(status)), "cpu", **more)


@pytest.fixture
def store(tmp_path):
    """A new store, of a class with a run."""
    with Store(tmp_path / "results", create=True) as opened:
        opened.set_seed(7)
        opened.begin_run("grader batch", "0.6", ENVIRONMENT)
        yield opened


def rows(store: Store, query: str) -> list[tuple]:
    """What any other SQLite tool reads in the file."""
    database = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


# --- what is kept ---------------------------------------------------------------------------------


def test_a_handin_comes_back_as_it_was(store):
    store.handins.keep([ADA, Handin("bad", problem="the zip can't be read")], "in", 1)
    ada, bad = store.handins.all()
    assert replace(ada.handin, files=ADA.files) == ADA
    assert store.handins.files(ada.number) == ADA.files
    assert set(ada.hashes) == {"silu.py", "silu.cu"}
    assert bad.handin == Handin("bad", problem="the zip can't be read")
    assert (bad.hashes, store.handins.files(bad.number)) == ({}, {})


def test_equal_files_are_stored_once(store):
    store.handins.keep([ADA, replace(ADA, id="submission_2")], "in", 1)
    assert rows(store, "SELECT count(*) FROM files") == [(4,)]
    assert rows(store, "SELECT count(*) FROM contents") == [(2,)]


def test_collecting_again_adds_nothing_and_takes_in_what_is_told_anew(store):
    for _ in range(2):
        store.handins.keep([ADA], "in", 1)
    later = AT + timedelta(hours=1)
    store.handins.keep([replace(ADA, submitted_at=later)], "in", 1)
    [ada] = store.handins.all()
    assert ada.handin.submitted_at == later


def test_a_resubmission_takes_the_place_of_the_one_before_which_stays(store):
    store.handins.keep([ADA], "in", 1)
    store.handins.keep([replace(ADA, files={"silu.py": b"# better\n"})], "in", 1)
    store.handins.keep([ADA], "in", 1)
    found = store.handins.all()
    assert [each.is_current for each in found] == [False, False, True]
    assert [store.handins.files(each.number)["silu.py"] for each in found] == [
        b"# ada\n",
        b"# better\n",
        b"# ada\n",
    ]


def test_what_its_source_has_no_longer_is_gone_and_comes_back(store):
    other = replace(ADA, id="submission_2")
    store.handins.keep([ADA, other], "in", 1)
    store.handins.keep([other], "in", 1)
    assert [each.is_gone for each in store.handins.all()] == [True, False]
    store.handins.keep([replace(ADA, id="late")], "another source", 1)
    assert [each.is_gone for each in store.handins.all()] == [True, False, False]
    store.handins.keep([ADA, other], "in", 1)
    assert [each.is_gone for each in store.handins.all()] == [False, False, False]


def test_names_that_are_no_text_are_kept(store):
    odd = os.fsdecode(b"\xff\xfe")
    for _ in range(2):
        store.handins.keep([Handin(odd, problem=odd)], odd, 1)
    [handin] = store.handins.all()
    assert not handin.is_gone
    assert "dcff" in handin.handin.id


def test_a_result_comes_back_with_its_environment(store):
    store.results.keep([result("k1"), result("k2", Status.crashed)], 7, ENVIRONMENT, 1)
    found = store.results.of("k2")
    assert found.evidence == evidence(Status.crashed)
    assert found.environment == ENVIRONMENT
    assert store.results.of("k3") is None
    assert store.results.devices() == ["cpu"]
    assert {each[:2] for each in store.results.graded("cpu")} == {("silu", "triton")}
    assert store.results.graded("a GPU") == set()
    assert rows(store, "SELECT count(*) FROM environments") == [(1,)]


def test_a_later_result_takes_the_place_of_the_one_before_which_stays(store):
    store.results.keep([result("k1", Status.crashed)], 7, ENVIRONMENT, 1)
    store.results.keep([result("k1")], 7, ENVIRONMENT, 1)
    assert store.results.of("k1").evidence == evidence()
    kept = "SELECT status, superseded IS NULL FROM results ORDER BY number"
    assert rows(store, kept) == [("crashed", 0), ("passed", 1)]


def test_results_are_kept_all_or_none(store):
    store.results.keep([result("k1", Status.crashed)], 7, ENVIRONMENT, 1)
    broken = replace(result("k2"), evidence="{}")
    with pytest.raises(Exception, match="exercise"):
        store.results.keep([result("k1"), broken], 7, ENVIRONMENT, 1)
    assert store.results.of("k1").evidence == evidence(Status.crashed)
    assert store.results.of("k2") is None


def test_what_a_run_has_to_know_of_results(store):
    store.results.keep([result("k1", grader_failed=True)], 7, ENVIRONMENT, 1)
    store.results.keep([result("k2", to_measure=True)], 7, {"sandbox": "limits"}, 1)
    known = store.results.known()
    assert known["k1"].grader_failed
    assert known["k1"].had_sandbox
    assert known["k2"].to_measure
    assert not known["k2"].had_sandbox


def test_a_class_has_one_seed(store):
    assert store.set_seed(8) == 7
    assert store.seed == 7


def test_a_course_and_a_roster_are_kept_as_bytes(store):
    store.keep_document("roster", Path("/in/roster.csv"), b"\xff\xfei\x00d\x00")
    store.keep_document("roster", Path("/in/roster.csv"), b"id\n")
    assert store.document("roster") == (Path("/in/roster.csv"), b"id\n")
    assert store.document("course") is None


def test_the_scores_written_last_are_kept_without_those_that_are_not_final(store):
    entries = (
        Entry(Student("1", name="Ada"), raw=5.0, score=4.5),
        Entry(Student("2"), score=3.0, waiting=("not graded yet",)),
    )
    for _ in range(2):
        store.keep_standings(Gradebook("", "cpu", 7, 10.0, entries))
    assert store.standings() == {"1": ("Ada", 4.5), "2": ("", None)}
    assert store._database.rows("SELECT student, raw FROM standings") == [("1", 5.0), ("2", None)]


# --- adjustments ----------------------------------------------------------------------------------


def test_adjustments_are_only_ever_added(store):
    first = store.adjustments.add(
        Adjustment("1", AdjustmentKind.points, "typo", points=2.0, by="ta", at=AT)
    )
    store.adjustments.add(Adjustment("1", AdjustmentKind.lift, "fine", only="silu/triton"))
    store.adjustments.undo(first, "no typo")
    made, lifted = store.adjustments.all()
    assert made.adjustment == Adjustment("1", AdjustmentKind.points, "typo", "", 2.0, "ta", AT)
    assert made.undone_by is not None
    assert lifted.undone_by is None
    assert rows(store, "SELECT count(*) FROM adjustments") == [(3,)]
    database = sqlite3.connect(store.path)
    for change in ("UPDATE adjustments SET points = 9", "DELETE FROM adjustments"):
        with pytest.raises(sqlite3.IntegrityError, match="undo one by another"):
            database.execute(change)
    database.close()


@pytest.mark.parametrize(
    ("number", "said"), [(9, "there is no adjustment 9"), (1, "undone already")]
)
def test_only_what_is_there_can_be_undone(store, number, said):
    store.adjustments.add(Adjustment("1", AdjustmentKind.note, "hello"))
    store.adjustments.undo(1, "why not")
    with pytest.raises(Mistake, match=said):
        store.adjustments.undo(number, "again")


# --- the file -------------------------------------------------------------------------------------


def test_a_version_1_file_is_migrated_with_all_it_holds(tmp_path, monkeypatch):
    with monkeypatch.context() as old:
        old.setattr(migrations, "STEPS", migrations.STEPS[:1])
        with Store(tmp_path, create=True) as store:
            store.set_seed(7)
            store.begin_run("grader batch", "0.5", {})
            store.handins.keep([ADA], "in", 1)
            without_gpu = replace(result("k1"), device="interpreter")  # its name in those files
            store.results.keep([without_gpu], 7, ENVIRONMENT, 1)
            store.adjustments.add(Adjustment("1", AdjustmentKind.points, "typo", points=2.0))
    database = sqlite3.connect(tmp_path / NAME)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()
    with Store(tmp_path) as store:
        assert store.seed == 7
        assert store.handins.files(store.handins.all()[0].number) == ADA.files
        assert store.results.of("k1").evidence == evidence()
        assert store.adjustments.all()[0].adjustment.points == 2.0
        assert store.standings() == {}
        assert store.results.devices() == ["cpu"]
        store.keep_document("course", Path("course.yaml"), b"")
        assert rows(store, "PRAGMA user_version") == [(len(migrations.STEPS),)]


def test_the_documents_name_every_table_and_run_on_it(store):
    text = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8").split("## The results file")[1]
    shown = [
        re.findall(r"`(\w+)`", line.split("|")[1]) for line in text.splitlines() if "| `" in line
    ]
    tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    assert {name for line in shown for name in line} == {name for (name,) in rows(store, tables)}
    store.handins.keep([ADA], "in", 1)
    failed = replace(
        result("k1"),
        evidence=variant_to_json(
            evidence(Status.crashed, store.handins.all()[0].hashes["silu.py"])
        ),
    )
    store.results.keep([failed], 7, ENVIRONMENT, 1)
    query = re.search(r"^    SELECT .*?;", text, re.S | re.M).group()
    assert rows(store, query) == [("silu", "triton", "crashed", 1)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    with Store(tmp_path, create=True) as store:
        store.set_seed(7)

    with monkeypatch.context() as newer:
        newer.setattr(
            migrations, "STEPS", (*migrations.STEPS, "CREATE TABLE half (done);\nno SQL at all;")
        )
        with pytest.raises(Mistake, match="syntax error"):
            Store(tmp_path)
    with Store(tmp_path) as store:
        assert store.seed == 7
        assert rows(store, "SELECT * FROM sqlite_master WHERE name = 'half'") == []


def test_a_newer_file_is_refused_and_left_alone(store, tmp_path):
    store.close()
    database = sqlite3.connect(store.path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    before = store.path.read_bytes()
    with pytest.raises(Mistake, match=r"version 99 .* update the grader"):
        Store(store.path.parent)
    assert store.path.read_bytes() == before


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(Mistake, match="not found; expected the folder"):
        Store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_empty_class(tmp_path):
    (tmp_path / NAME).touch()
    with pytest.raises(Mistake, match="expected a class, got an empty file: put a backup"):
        Store(tmp_path)


def test_another_programs_file_is_refused(tmp_path):
    database = sqlite3.connect(tmp_path / NAME)
    database.execute("CREATE TABLE theirs (x)")
    database.close()
    with pytest.raises(Mistake, match="another program wrote it"):
        Store(tmp_path, create=True)
    (tmp_path / NAME).write_bytes(b"PK" + os.urandom(4000))
    with pytest.raises(Mistake, match=r"damaged .* put a backup in its place"):
        Store(tmp_path)


def test_a_damaged_file_is_said(store):
    store.results.keep([result(f"k{n}") for n in range(200)], 7, ENVIRONMENT, 1)
    store.close()
    size = store.path.stat().st_size
    with store.path.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(os.urandom(size - 4096 * 3))
    with pytest.raises(Mistake, match="damaged") as caught, Store(store.path.parent) as again:
        for number in range(200):
            again.results.of(f"k{number}")
        again.results.known()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("handins", "members", ""),
        ("handins", "members", "null"),
        ("handins", "members", "[1]"),
        ("handins", "members", '[{"x": "17"}]'),
        ("handins", "members", '[{"id": 17}]'),
        ("handins", "members", '[{"id": "\\ud800"}]'),
        ("handins", "members", "[" * 10_000),
        ("handins", "members", f"[{'9' * 5000}]"),
        ("handins", "submitted_at", "yesterday"),
        ("handins", "notes", "null"),
        ("handins", "notes", "{"),
        ("adjustments", "kind", "bonus"),
        ("adjustments", "made_at", "yesterday"),
        ("adjustments", "points", 1e308),
        ("adjustments", "points", float("inf")),
        ("documents", "path", "a\0b"),
        ("documents", "path", "a/.."),
        ("documents", "path", "a" * 256),
        ("environments", "json", ""),
        ("environments", "json", "null"),
        ("environments", "json", "[1]"),
    ],
)
def test_a_damaged_row_is_named(store, table, column, value):
    store.handins.keep([ADA], "export", 1)
    store.results.keep([result("k1")], 7, ENVIRONMENT, 1)
    store.adjustments.add(Adjustment("17", AdjustmentKind.points, "for style", points=1, at=AT))
    store.keep_document("course", Path("course.yaml"), b"title: Kernels")
    database = sqlite3.connect(store.path, isolation_level=None)
    database.execute("DROP TRIGGER adjustments_stay")
    database.execute(f"UPDATE {table} SET {column} = ?", (value,))
    database.close()
    with pytest.raises(
        Mistake, match=r"(hand-in|adjustment|document|result) \w+: it is damaged"
    ) as caught:
        store.handins.all(), store.adjustments.all(), store.results.of("k1")
        store.document("course")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(store.path))


def test_a_file_in_use_is_said_and_nothing_is_lost(store, monkeypatch):
    monkeypatch.setattr(databases, "BUSY_SECONDS", 0.1)
    with Store(store.path.parent) as second:
        first = sqlite3.connect(store.path, isolation_level=None)
        first.execute("BEGIN IMMEDIATE")
        with pytest.raises(Mistake, match="another program is using it"):
            second.results.keep([result("k1")], 7, ENVIRONMENT, 1)
        first.close()
        second.results.keep([result("k1")], 7, ENVIRONMENT, 1)
    assert store.results.of("k1") is not None


def in_a_child(function: Callable[[], str]) -> str:
    """What `function` says in a process of its own, which may lose rights and mount disks."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = function()
        except BaseException:
            said = f"failed: {traceback.format_exc()}"
        os.write(write, said.encode()[:60_000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    assert not said.startswith("failed"), said
    return said


def test_a_file_without_the_right_to_write_is_said(store):
    if os.getuid() != 0:
        pytest.skip("needs root, to become somebody without the right")
    store.close()

    def write_as_nobody() -> str:
        os.chdir(store.path.parent)
        Path().chmod(0o755)
        os.setegid(65534)
        os.seteuid(65534)
        try:
            with Store(Path()) as again:
                again.begin_run("grader batch", "0.6", {})
        except Mistake as error:
            return str(error)
        return "nothing"

    said = in_a_child(write_as_nobody)
    assert said == f"{NAME}: it can't be written: give yourself the right to it and its folder"


def own_disk(folder: Path, size: str) -> None:
    """Put a file system of a size over a folder, for this process alone, or make it larger."""
    if os.path.ismount(folder):
        subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)
        return
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(0x10000000 | 0x00020000):  # NEWUSER, NEWNS
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], check=True)


def test_a_full_disk_loses_nothing_and_the_message_says_what_to_do(tmp_path):
    def fill() -> str:
        try:
            own_disk(tmp_path, "512k")
        except (OSError, subprocess.SubprocessError) as error:
            return f"skip: no disk of one's own here: {error}"
        kept, said = [], "nothing"
        with Store(tmp_path / "results", create=True) as store:
            store.set_seed(7)
            store.begin_run("grader batch", "0.6", {})
            try:
                for number in range(10_000):
                    store.results.keep([result(f"k{number}")], 7, ENVIRONMENT, 1)
                    kept.append(f"k{number}")
            except Mistake as error:
                said = str(error)
            assert all(store.results.of(key) for key in kept)
        with Store(tmp_path / "results") as store:
            assert set(store.results.known()) == set(kept), "lost or doubled"
        own_disk(tmp_path, "8m")
        with Store(tmp_path / "results") as store:
            store.results.keep([result("more")], 7, ENVIRONMENT, 1)
            assert set(store.results.known()) == {*kept, "more"}
        assert len(kept) > 20
        return said

    said = in_a_child(fill)
    if said.startswith("skip"):
        pytest.skip(said)
    assert said == (
        f"{tmp_path}/results/{NAME}: the disk is full. All that is stored is safe: make room, and "
        "the same command goes on"
    )
