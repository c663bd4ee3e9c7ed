"""Exercises appear in the course's order: in reports, pages, tables, exports and in pytest."""

from __future__ import annotations

import csv
import html
import json
import re
import zipfile
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.batch.run import run
from grader.batch.run.run import Machines
from grader.evidence import from_json as evidence_from_json
from grader.evidence import to_json as evidence_to_json
from grader.grading import gradescope as autograder
from grader.scoring.score import score
from grader.spec import Course, SpecError, load_all
from grader.spec.course_file import FILE
from grader.spec.course_file import load as load_course
from grader.staff import handout, release
from tests import test_assignment
from tests.support import documents
from tests.support.commandline import any_sandbox_will_do, call, one_line
from tests.support.gradebooks import attempt, variant_evidence
from tests.support.small_exercise import ROOT, SPEC
from tests.support.standin import InThisProcess, instant

LECTURE = [
    "gelu",
    "silu",
    "softmax",
    "rmsnorm",
    "copy_first_column",
    "transpose",
    "gemm",
    "flash_attention",
]
CLASS_ORDER = "order: [gemm, softmax]\n"
OF_CLASS = ["gemm", "softmax", *(name for name in LECTURE if name not in ("gemm", "softmax"))]


def once(names: Iterable[str]) -> list[str]:
    """Each name where it comes first."""
    return list(dict.fromkeys(names))


def titled(titles: Iterable[str]) -> list[str]:
    """The names of exercises by their titles."""
    names = {each.title: name for name, each in load_all().items()}
    return [names[html.unescape(title)] for title in titles]


# --- which order ----------------------------------------------------------------------------------


def test_the_default_is_the_lectures_which_is_the_handouts():
    assert list(load_all()) == LECTURE
    text = documents.read("handout.md")
    assert [each for each in re.findall(r"^## (\w+)$", text, re.M) if each in LECTURE] == LECTURE


def test_the_handouts_overview_is_in_the_courses_order():
    text = documents.read("handout.md")
    backwards = dict(reversed(load_all().items()))
    made = handout.render(text, backwards)
    table = made[made.index("<!-- overview") : made.index("<!-- /overview")]
    assert re.findall(r"\(#(\w+)\)", table) == LECTURE[::-1]


def course_of(folder: Path, names: Iterable[str], text: str = "") -> Course:
    (folder / "exercises").mkdir(exist_ok=True)
    for name in names:
        (folder / "exercises" / f"{name}.yaml").write_text(SPEC, encoding="utf-8")
    if text:
        (folder / FILE).write_text(text, encoding="utf-8")
    return Course(folder)


def test_an_exercise_that_is_not_named_comes_last_by_the_alphabet(tmp_path):
    course = course_of(tmp_path, ["aa", "bb", "yy", "zz"], "order: [zz, bb]")
    assert list(course.exercises) == ["zz", "bb", "aa", "yy"]


def test_specs_without_a_course_file_are_in_the_order_of_the_alphabet(tmp_path):
    assert list(course_of(tmp_path, ["zz", "aa"]).exercises) == ["aa", "zz"]


WRONG = [
    ("order:\n  - zz\n  - zzz\n", ":3: order[1]: expected the name of an exercise, one of "
     "aa, zz, got 'zzz', did you mean 'zz'?"),
    ("order: [zz,\n  aa,\n  zz]", ":3: order[2]: expected each exercise once, got 'zz' again; "
     "line 1 has it"),
    ("order: zz", ":1: order: expected a list, got 'zz'"),
    ("order: [zz, 3]", ":1: order[1]: expected the name of an exercise, got 3"),
    ("order: {zz: 1}", ":1: order: expected a list, got a mapping"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_a_wrong_order_is_one_line_with_file_place_what_was_expected_and_what_came(
    tmp_path, text, told
):
    known = course_of(tmp_path, ["aa", "zz"]).exercises
    course = course_of(tmp_path, [], text)
    with pytest.raises(SpecError) as of_specs:
        course.exercises  # noqa: B018
    assert str(of_specs.value) == f"course.yaml{told}"
    with pytest.raises(SpecError) as of_class:
        load_course(tmp_path / "course.yaml", known)
    assert str(of_class.value) == f"course.yaml{told}"


def test_a_key_that_specs_have_no_use_for_is_told(tmp_path):
    course = course_of(tmp_path, ["aa"], "odrer: [aa]")
    with pytest.raises(SpecError, match=r"^course.yaml:1: odrer: .* did you mean 'order'"):
        course.exercises  # noqa: B018


# --- of one submission ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def evidence(tmp_path_factory) -> Path:
    """A file of evidence that holds exercises by the alphabet, as graders before wrote it."""
    made = [
        variant_evidence(exercise, variant)
        for _, exercise in sorted(load_all().items())
        for variant in exercise.variants.values()
    ]
    path = tmp_path_factory.mktemp("evidence") / "evidence.json"
    observed = attempt("ada", made).evidence
    assert observed is not None
    path.write_text(evidence_to_json(observed), encoding="utf-8")
    return path


def test_every_report_of_a_submission_is_in_the_courses_order(evidence, tmp_path, capsys):
    ways = ("json", "html", "junit", "gradescope")
    options = [word for way in ways for word in (f"--{way}", tmp_path / way)]
    ran = call(capsys, "rescore", evidence, *options)
    assert ran.code == 0, ran.err
    texts = {way: (tmp_path / way).read_text(encoding="utf-8") for way in ways}
    assert re.findall(r"^\S.* \((\w+)\)$", ran.out, re.M) == LECTURE
    assert [each["name"] for each in json.loads(texts["json"])["exercises"]] == LECTURE
    assert once(re.findall(r"<h2[^>]*>[^<]*<code>(\w+)</code>", texts["html"])) == LECTURE
    named = [each["name"] for each in json.loads(texts["gradescope"])["tests"]]
    worth_points = [name for name in LECTURE if name != "gelu"]
    assert once(re.findall(r"(\w+)/", " ".join(named))) in (LECTURE, worth_points)
    assert once(re.findall(r'<testsuite name="(\w+)', texts["junit"])) == LECTURE


def test_an_order_changes_no_score_and_no_key(evidence):
    observed = evidence_from_json(evidence.read_text(encoding="utf-8"))
    ours = score(observed, load_all())
    by_alphabet = score(observed, dict(sorted(load_all().items())))
    assert replace(ours, exercises=()) == replace(by_alphabet, exercises=())
    assert sorted(ours.exercises, key=str) == sorted(by_alphabet.exercises, key=str)


# --- of a class -----------------------------------------------------------------------------------


@pytest.fixture
def batch(tmp_path, monkeypatch, capsys):
    """`grader batch` of one student who has all right, with the words given; its results."""
    any_sandbox_will_do(monkeypatch)

    @contextmanager
    def machines(watcher, jobs=None):
        yield Machines("cpu", InThisProcess(instant))

    monkeypatch.setattr(run, "this_machine", machines)
    files = {v.file for each in load_all().values() for v in each.variants.values()}
    for file in files:
        (tmp_path / "in" / "ada").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "ada" / file).write_text("right")

    def graded(*words: object) -> Path:
        ran = call(capsys, "batch", tmp_path / "in", "--out", tmp_path / "results", *words)
        assert ran.code == 0, ran.err
        return tmp_path / "results"

    return graded


def orders_of(results: Path) -> dict[str, list[str]]:
    """The exercises in the order in which each view of a class has them."""
    with (results / "gradebook.csv").open(encoding="utf-8", newline="") as file:
        columns = next(csv.reader(file))
    book = json.loads((results / "gradebook.json").read_text(encoding="utf-8"))
    [student] = (results / "students").glob("*.html")
    page = (results / "index.html").read_text(encoding="utf-8")
    theirs = student.read_text(encoding="utf-8")
    marked = student.with_suffix(".md").read_text(encoding="utf-8")
    [gradescope] = (results / "results").glob("*.json")
    tests = json.loads(gradescope.read_text(encoding="utf-8"))["tests"]
    return {
        "csv": once(each.partition("/")[0] for each in columns if "/" in each),
        "json": once(each["exercise"] for each in book["entries"][0]["variants"]),
        "tallies": titled(re.findall(r'<th scope="rowgroup"[^>]*>([^<]+)', page)),
        "students": titled(
            re.findall(r'<th scope="col" class="number exercise"[^>]*>([^<]+)', page)
        ),
        "student": once(re.findall(r"<h2[^>]*>[^<]*<code>(\w+)</code>", theirs)),
        "markdown": once(re.findall(r"^\| (\w+) \| [a-z]", marked, re.M)),
        "gradescope": once(re.findall(r"(\w+)/", " ".join(each["name"] for each in tests))),
    }


def without_gelu(order: list[str]) -> list[str]:
    return [name for name in order if name != "gelu"]


def test_every_view_of_a_class_is_in_the_courses_order(batch):
    for view, found in orders_of(batch()).items():
        assert without_gelu(found) == without_gelu(LECTURE), view


def test_a_class_has_the_order_of_its_course_file_then_the_lectures(batch, tmp_path, capsys):
    course = tmp_path / "course.yaml"
    course.write_text(CLASS_ORDER)
    results = batch("--course", course)
    for view, found in orders_of(results).items():
        assert without_gelu(found) == without_gelu(OF_CLASS), view
    course.write_text("order: [flash_attention]")
    assert call(capsys, "export", results).code == 0
    assert {found[0] for found in orders_of(results).values()} == {"flash_attention"}


def test_a_wrong_order_of_a_class_ends_the_command_with_its_line(batch, tmp_path, capsys):
    course = tmp_path / "course.yaml"
    course.write_text("order: [gem]")
    ran = call(capsys, "batch", tmp_path / "in", "--out", tmp_path / "r", "--course", course)
    assert (ran.code, ran.out) == (2, "")
    assert one_line(ran.err).startswith("course.yaml:1: order[0]: expected the name of an exerci")


# --- what is packed -------------------------------------------------------------------------------


def test_a_release_of_some_exercises_has_their_order_and_no_others(tmp_path):
    made = release.make(ROOT, load_all(), ["transpose", "silu", "gemm"])
    release.write(made, tmp_path / "course")
    assert list(Course(tmp_path / "course").exercises) == ["silu", "transpose", "gemm"]


def test_gradescopes_autograder_has_the_order_of_the_class(tmp_path, capsys):
    course = tmp_path / "course.yaml"
    course.write_text("order: [gemm, softmax, silu]")
    words = ("--course", course, "--only", "silu", "--only", "gemm")
    assert call(capsys, "gradescope-zip", "--out", tmp_path / "a.zip", *words).code == 0
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        archive.extract(autograder.CONFIG, tmp_path)
    config = autograder.Config.read(tmp_path / autograder.CONFIG)
    assert config.order == ("gemm", "silu")


# --- in pytest ------------------------------------------------------------------------------------


def test_pytest_collects_in_the_courses_order():
    assert once(param.values[0].name for param in test_assignment.PARTS) == LECTURE
