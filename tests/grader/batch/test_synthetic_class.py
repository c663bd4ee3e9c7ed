"""The synthetic class is the same every time, holds what it promises, and is collected whole."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from grader.batch.collect import Collection, collect
from grader.batch.course.records import Handin
from grader.spec import load_all
from grader.staff.calibration import corpus
from tests.support import synthetic_class
from tests.support.small_exercise import ROOT
from tests.support.synthetic_class import LAYOUTS, Truth, make

EXERCISES = load_all()
N = 45  # every kind of hand-in, and two of the broken archives
FORMS = [(layout, False) for layout in LAYOUTS] + [("gradescope", True), ("canvas", True)]
CLASSES = [layout for layout in LAYOUTS if layout != "single"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Mapping[tuple[str, bool], tuple[Path, Truth]]:
    """The same class in every layout and form."""
    folder = tmp_path_factory.mktemp("classes")
    classes = {}
    for layout, other in FORMS:
        out = folder / f"{layout}{other}"
        classes[layout, other] = out, make(out, N, layout, 5, other_form=other)
    return classes


@pytest.fixture(scope="module")
def collected(made) -> Mapping[tuple[str, bool], Collection]:
    return {form: collect(out / truth.source, EXERCISES) for form, (out, truth) in made.items()}


def digests(handin: Handin) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in handin.files.items()}


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_layout_is_recognised_and_read_back_whole(made, collected, form):
    _, truth = made[form]
    found = collected[form]
    assert found.layout == form[0]
    by_id = {handin.id: handin for handin in found.handins}
    assert sorted(by_id) == [true.id for true in truth.handins]
    for true in truth.handins:
        handin = by_id[true.id]
        assert digests(handin) == {name: file.sha256 for name, file in true.files.items()}
        assert bool(handin.problem) == bool(true.broken), handin
        assert handin.marked_late == true.marked_late
        at = handin.submitted_at
        assert (at.isoformat() if at else None) == true.submitted_at


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_members_are_those_of_the_roster(made, collected, form):
    out, truth = made[form]
    with (out / truth.roster).open(encoding="utf-8", newline="") as file:
        ids = {row["platform_id"]: row["id"] for row in csv.DictReader(file)}
    found = {
        handin.id: tuple(ids[member.id] for member in handin.members)
        for handin in collected[form].handins
    }
    assert found == {true.id: true.members for true in truth.handins}
    present = {member for true in truth.handins for member in true.members}
    assert present.isdisjoint(truth.absent)
    assert present | set(truth.absent) == set(ids.values())


def test_every_layout_gives_the_same_bytes_for_the_same_student(made, collected):
    """Of a student alone; what else there is, an earlier hand-in or a group, not all can say."""
    last: dict[tuple[str, bool], dict[str, dict[str, str]]] = {}
    for form, (_, truth) in made.items():
        members = {true.id: true.members for true in truth.handins}
        handins = collected[form].handins
        last[form] = {
            members[each.id][0]: digests(each) for each in handins if len(members[each.id]) == 1
        }
    reference = last["folders", False]
    assert len(reference) > 30
    for form, files in last.items():
        assert len(files) == 1 or len(files) > 25
        for student, found in files.items():
            assert found == reference[student], (form, student)


def test_a_class_holds_what_it_promises(made):
    _, truth = made["gradescope", False]
    broken = {true.broken for true in truth.handins} - {""}
    assert len(broken) == 2
    assert any(len(true.members) == 2 for true in truth.handins)
    assert any(not true.files and not true.broken for true in truth.handins)
    assert {true.shape for true in truth.handins} == {"flat", "wrapped", "deep", "zipped"}
    assert len(truth.absent) >= 2
    by_members: dict[tuple[str, ...], list[set[str]]] = {}
    for true in truth.handins:
        by_members.setdefault(true.members, []).append(set(true.files))
    again = [files for files in by_members.values() if len(files) == 2]
    assert any(second < first or len(second) < len(first) - 3 for first, second in again)
    files = [file for true in truth.handins for file in true.files.values()]
    assert {file.change for file in files} == {"", "comments", "crlf", "bom", "utf-16"}
    kinds = {re.split("/", file.source)[0] for file in files}
    assert kinds == {"reference", "assignment", "wrong", "honest"}
    assert any(name != file.name for true in truth.handins for name, file in true.files.items())


def test_every_origin_that_the_truth_names_exists(made):
    places = {
        entry.place
        for kind in ("wrong", "honest")
        for language in ("triton", "cuda")
        for entry in corpus.load(kind, language)
    }
    for _, truth in made.values():
        for true in truth.handins:
            for file in true.files.values():
                assert file.source in places or (ROOT / file.source).is_file()


def test_the_truth_is_written_as_it_is_returned(made):
    for out, truth in made.values():
        written = json.loads((out / "truth.json").read_text(encoding="utf-8"))
        assert written == json.loads(json.dumps(asdict(truth)))


def test_a_course_file_has_the_class_s_rules(made):
    out, truth = made["folders", False]
    course = yaml.safe_load((out / truth.course).read_text(encoding="utf-8"))
    assert set(course) == {"title", "due", "late", "extensions", "counts", "device"}
    assert course["extensions"]


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("layout", ["archives", "canvas"])
def test_the_same_seed_makes_the_same_class_byte_by_byte(tmp_path, layout):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make(tmp_path / name, 12, layout, seed, only=["silu"])
    assert tree(tmp_path / "a") == tree(tmp_path / "b") != tree(tmp_path / "c")


def test_a_class_of_chosen_exercises_has_their_files_alone(tmp_path):
    truth = make(tmp_path, 10, only=["silu", "gelu"], without=["timed_out"])
    files = {name for true in truth.handins for name in true.files}
    assert files == {"silu.py", "silu.cu", "gelu.py", "gelu.cu"}


def test_the_command_line_makes_a_class_or_says_in_a_line_why_not(tmp_path, capsys):
    out = tmp_path / "class"
    assert synthetic_class.main([str(out), "--n", "8", "--layout", "canvas"]) == 0
    # Of the eight one handed in nothing and one an empty folder, which Canvas doesn't take.
    assert "submissions.zip: 6 hand-ins of 8 students" in capsys.readouterr().out
    assert synthetic_class.main([str(out), "--n", "8"]) == 2
    assert capsys.readouterr().err == f"{out}: expected a new or an empty folder\n"
