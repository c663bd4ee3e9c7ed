"""A course is a folder: how it is found, what it says, and that its exercises judge by it."""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from pathlib import Path

import pytest
import torch

import warpgrade
from grader.batch.store.keys import Conditions, Keys
from grader.batch.store.store import Store
from grader.cases import oracle
from grader.cli import console
from grader.evidence import PerformanceEvidence
from grader.gpu import devices, kinds, machine
from grader.grading.session import Options, Session
from grader.mistakes import Mistake
from grader.scoring import speed
from grader.spec import Course, SpecError, load, load_all
from grader.spec import course as courses
from grader.spec.exercise import HOME, REFERENCE
from grader.staff import new
from grader.staff.handout_tables import points_table
from grader.status import Status
from tests.support.commandline import call
from tests.support.small_exercise import ROOT, SPEC

INTEGERS = ROOT / "tests" / "integer_course"


def made(folder: Path, text: str = "", names: tuple[str, ...] = ("aa", "bb")) -> Course:
    """A course with small exercises."""
    (folder / "exercises").mkdir(parents=True)
    for name in names:
        (folder / "exercises" / f"{name}.yaml").write_text(SPEC, encoding="utf-8")
    (folder / "course.yaml").write_text(text or "title: Small\n", encoding="utf-8")
    return Course(folder)


# --- where it is ----------------------------------------------------------------------------------


def test_a_course_is_found_by_its_folder_by_its_file_and_upwards(tmp_path, monkeypatch):
    course = made(tmp_path / "course")
    (course.root / "exercises" / "deep").mkdir()
    assert courses.find(course.root) == courses.find(course.root / "course.yaml") == course
    monkeypatch.chdir(course.root / "exercises" / "deep")
    assert courses.find() == course
    monkeypatch.chdir(tmp_path)
    assert courses.find() == Course(HOME) and courses.find().is_default


@pytest.mark.parametrize("part", ["course.yaml", "exercises"])
def test_a_course_of_another_users_is_not_taken_unless_it_is_named(tmp_path, monkeypatch, part):
    """Anybody may put a course into /tmp, and its oracles are run."""
    course = made(tmp_path / "course")
    (course.root / "inner").mkdir()
    lstat = Path.lstat

    def of_somebody(path: Path) -> os.stat_result:
        status = list(lstat(path))
        if path == course.root / part:
            status[stat.ST_UID] = os.geteuid() + 1
        return os.stat_result(status)

    monkeypatch.setattr(Path, "lstat", of_somebody)
    monkeypatch.chdir(course.root / "inner")
    with pytest.raises(SpecError, match=rf"{part}: expected a file of one's own, .*--course "):
        courses.find()
    with pytest.raises(SpecError, match=rf"{part}: expected a file of one's own, .*--course "):
        courses.find(course.root / "course.yaml", is_named=False)
    assert courses.find(course.root) == course


def test_a_submission_is_not_judged_by_a_course_that_it_brings(tmp_path, monkeypatch, capsys):
    """Its oracles would run in the grader's process, and its spec says what is right."""
    course = made(tmp_path / "eve")
    (course.root / "aa.py").write_text("import torch\n", encoding="utf-8")
    course.reference.mkdir()
    ran = tmp_path / "ran"
    course.oracles.write_text(f"open({str(ran)!r}, 'w')\n", encoding="utf-8")
    monkeypatch.chdir(course.root)
    for line in (("grade", "."), ("check", "aa", "--submission", str(course.root))):
        refused = call(capsys, *line)
        assert refused.code == 2
        assert "expected a folder without a course" in " ".join(refused.err.split())
    with pytest.raises(Mistake, match="expected a folder without a course"):
        warpgrade.grade(course.root)
    assert not ran.exists()


def test_a_course_that_nobody_has_named_is_told_once(tmp_path, monkeypatch, capsys):
    """It may be a hand-in's, and its oracles run as the user who grades."""
    course = made(tmp_path / "eve")
    monkeypatch.setattr(console, "_announced", [])
    monkeypatch.setattr(console, "_given", None)
    monkeypatch.chdir(course.root)
    assert console.the_course() == console.the_course() == course
    assert " ".join(capsys.readouterr().err.split()).count("Its oracles run with your rights.") == 1
    monkeypatch.setattr(console, "_given", course.root)
    monkeypatch.setattr(console, "_announced", [])
    assert console.the_course() == course and capsys.readouterr().err == ""


def test_a_course_that_a_classs_results_name_is_told(tmp_path, monkeypatch, capsys):
    """Somebody else's results may name a course that somebody else has written."""
    course = made(tmp_path / "eve", "title: Eve's\n")
    results = tmp_path / "results"
    with Store(results, create=True) as store:
        store.keep_document("course", course.root / "course.yaml", b"title: Eve's\n")
    monkeypatch.setattr(console, "_announced", [])
    monkeypatch.setattr(console, "_given", None)
    monkeypatch.chdir(tmp_path)
    said = " ".join(call(capsys, "export", str(results)).err.split())
    assert f"Course: {course.root}, as the class's results have it. Its oracles run" in said


def test_a_course_file_without_exercises_beside_it_is_for_a_class(tmp_path, monkeypatch):
    course = made(tmp_path / "course", "title: Small\norder: [bb]\n")
    for_class = tmp_path / "course.yaml"
    for_class.write_text("title: Autumn\ndue: 2026-12-01T23:59+01:00\n", encoding="utf-8")
    monkeypatch.chdir(course.root)
    found = courses.find(for_class)
    assert (found.root, found.file, found.settings.title) == (course.root, for_class, "Autumn")
    assert list(found.exercises) == ["bb", "aa"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", "expected a course's folder or its course.yaml"),
        (".", "expected a course's folder, with"),
    ],
)
def test_what_is_no_course_is_told(tmp_path, name, said):
    with pytest.raises(SpecError, match=said):
        courses.find(tmp_path / name)


def test_parts_may_lie_elsewhere_in_its_folder(tmp_path):
    course = made(tmp_path / "c", "folders: {wrong: tests/wrong, handout: docs/a.md}\n")
    assert course.wrong == course.root / "tests" / "wrong"
    assert course.handout == course.root / "docs" / "a.md"
    assert course.reference == course.root / "reference"
    outside = made(tmp_path / "d", "folders: {wrong: ../wrong}\n")
    with pytest.raises(SpecError, match=r"course.yaml:1: folders.wrong: expected a path inside"):
        outside.exercises  # noqa: B018


# --- what it says ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu: MI300X", "course.yaml:1: gpu: expected an NVIDIA GPU, got 'MI300X', which is AMD's"),
        ("gpu: [H100]", "course.yaml:1: gpu: expected the name of a GPU, got a list"),
        ("gpu: H1000", "course.yaml:1: gpu: expected the name of an NVIDIA GPU such as T4"),
        (
            "gpu: V100-PCIE-16GB",
            "course.yaml:1: gpu: expected compute capability 7.5 or newer, got",
        ),
        ("title: A\nweights: {ab: 2}", "course.yaml:2: weights.ab: expected the name of an"),
        ("weights: {aa: 0}", "course.yaml:1: weights.aa: expected a number > 0, got 0"),
        ("due_dates: {aa: 2026-11-15T23:59}", "due_dates: expected the key 'due' beside it"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_what_was_expected(tmp_path, text, said):
    with pytest.raises(SpecError) as told:
        made(tmp_path / "c", text).exercises  # noqa: B018
    assert said in str(told.value)


def test_weights_multiply_points(tmp_path):
    plain = made(tmp_path / "a").exercises
    heavy = made(tmp_path / "b", "weights: {aa: 2}").exercises
    assert [each.max_points for each in plain.values()] == [3, 3]
    assert [each.max_points for each in heavy.values()] == [6, 3]


def test_a_wrong_spec_leaves_the_others(tmp_path):
    course = made(tmp_path / "c", "order: [bb, aa]", ("aa", "bb", "cc"))
    (course.specs / "aa.yaml").write_text("titel: x\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"aa.yaml:1: titel") as told:
        course.exercises  # noqa: B018
    assert list(told.value.right) == ["bb", "cc"]


# --- what judges by it ----------------------------------------------------------------------------


def test_an_exercise_is_judged_by_its_own_courses_oracle_in_every_process():
    integers, ours = Course(INTEGERS).exercises["peak"], load_all()["silu"]
    for each in (integers, pickle.loads(pickle.dumps(integers)), integers.model_copy()):
        assert oracle.file_of(each) == INTEGERS / "reference" / "oracles.py"
        assert oracle.of(each).check is not None
    assert ours.reference == REFERENCE == Course(HOME).reference


def test_keys_of_results_do_not_depend_on_where_a_course_lies(tmp_path):
    shutil.copytree(HOME / "exercises", tmp_path / "exercises")
    (tmp_path / "reference").mkdir()
    shutil.copy(HOME / "reference" / "oracles.py", tmp_path / "reference")
    shutil.copy(HOME / "course.yaml", tmp_path)
    conditions = Conditions(7, "cpu")
    here, there = load_all(), Course(tmp_path).exercises
    assert list(here) == list(there)
    ours, theirs = Keys(here, conditions), Keys(there, conditions)
    for name, exercise in here.items():
        for variant in exercise.variants:
            assert ours.of(name, variant, "00") == theirs.of(name, variant, "00")


# --- its GPU --------------------------------------------------------------------------------------


def test_kernels_are_compiled_for_the_courses_gpu_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "gpu_properties", lambda: None)
    exercises = made(tmp_path / "c", "gpu: 4090").exercises
    with Session(tmp_path, exercises, Options(device="cpu")):
        assert machine.capability() == 89
    with Session(tmp_path, load_all(), Options(device="cpu")):
        assert machine.capability() == 90


def test_every_gpu_of_the_data_sheets_has_a_compute_capability():
    names = {
        "T4": 75, "RTX 2080 Ti": 75, "A100-SXM4-80GB": 80, "A30": 80, "A10G": 86, "RTX 3090": 86,
        "L4": 89, "NVIDIA L40S": 89, "NVIDIA GeForce RTX 4090": 89, "NVIDIA H100 80GB HBM3": 90,
        "H200": 90, "B200": 100, "RTX 5090": 120,
    }  # fmt: skip
    assert {name: kinds.capability_of(name) for name in names} == names
    assert not kinds.is_of("L4", "NVIDIA L40S") and kinds.is_of("A100", "NVIDIA A100-SXM4-80GB")


def test_a_device_of_amd_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(devices, "_DRIVERS", ("/",))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "AMD Instinct MI300X")
    with pytest.raises(Mistake, match=r"^AMD Instinct MI300X: expected an NVIDIA GPU"):
        machine.gpu_name.__wrapped__()


TIMED = SPEC.replace(
    "points: {ragged: 3}}",
    "points: {ragged: 3, performance: 2}, performance: {case: {n: 67108864, dtype: float32}, "
    "bytes: 8 * n, "
    "thresholds: {H100: [{speed_vs: copy, at_least: 0.9, points: 2}], "
    "A100: [{speed_vs: torch, at_least: 0.5, points: 2}]}}}",
)


def test_thresholds_of_several_gpus_stand_side_by_side(tmp_path):
    path = tmp_path / "aa.yaml"
    path.write_text(TIMED, encoding="utf-8")
    variant = load(path).variants["triton"]

    def asked(device: str) -> tuple[str | None, list[str]]:
        timed = PerformanceEvidence(Status.passed, "", device=device)
        here = variant.on(device).timed
        return here.thresholds[0].speed_vs, speed.remarks(timed, here)

    assert asked("NVIDIA H100 80GB HBM3") == ("copy", [])
    assert asked("NVIDIA A100-SXM4-40GB") == ("torch", [])
    baseline, [said] = asked("NVIDIA L4")
    assert baseline == "copy"
    assert said.startswith("indicative: no threshold is calibrated for this GPU, only for H100, A1")
    table = "\n".join(points_table(load(path)))
    told = " ".join(table.split())
    assert "on an H100: 2 points for 0.90 of a copy's" in told
    assert "on an A100: 2 points for 0.50 of torch's" in told

    path.write_text(TIMED.replace("at_least: 0.5, points: 2", "at_least: 0.5, points: 1"))
    with pytest.raises(SpecError, match=r"thresholds.A100\[0\].points: expected"):
        load(path)
    path.write_text(TIMED.replace("A100:", "MI300X:"))
    with pytest.raises(SpecError, match=r"aa.yaml:\d+: .*MI300X.* which is AMD's"):
        load(path)


def test_a_gpu_that_is_not_the_courses_is_told_where_the_spec_names_none(tmp_path):
    path = tmp_path / "aa.yaml"
    text = TIMED.replace("{H100: ", "")
    text = text.replace(", A100: [{speed_vs: torch, at_least: 0.5, points: 2}]}", "")
    path.write_text(text, encoding="utf-8")
    timed = PerformanceEvidence(Status.passed, "", device="NVIDIA L4")
    asked = load(path).variants["triton"].timed
    assert speed.remarks(timed, asked) == []
    assert speed.remarks(timed, asked, "A100") == [
        "indicative: the final grade is taken on an A100"
    ]


# --- grader new -----------------------------------------------------------------------------------


def test_a_new_course_and_its_exercise_work_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for processes that are started from elsewhere
    monkeypatch.chdir(tmp_path)
    assert call(capsys, "new", "course", "kernels").code == 0
    refused = call(capsys, "new", "exercise", "square")
    assert refused.code == 2 and "expected a course around here" in refused.err
    monkeypatch.chdir(tmp_path / "kernels")
    done = call(capsys, "new", "exercise", "square", "--triton", "--cuda")
    assert done.code == 0 and "exercises/square.yaml" in done.out.splitlines()
    assert done.out.splitlines()[-1] == "Next: grader author check square"
    assert call(capsys, "handout", "--check").code == 0
    assert call(capsys, "stubs", "square").out == "assignment/ is up to date\n"
    (tmp_path / "kernels" / "assignment" / "square.py").write_text("older", encoding="utf-8")
    kept = call(capsys, "stubs")
    assert kept.code == 2 and "grader stubs square --force" in " ".join(kept.err.split())
    assert call(capsys, "stubs", "square", "--force").out == "assignment/square.py\n"
    monkeypatch.chdir(tmp_path)
    right = call(capsys, "--course", "kernels", "grade", "kernels/reference", "--only", "square")
    assert right.code == 0 and "Earned 6 of 6." in right.out, right.out
    stub = call(capsys, "grade", "--course", "kernels")
    assert stub.code == 0 and "Earned 0 of 6." in stub.out
    assert f"grader check square --course {tmp_path}/kernels" in " ".join(stub.out.split())


def test_what_is_there_is_never_overwritten(tmp_path):
    new.course(tmp_path / "c")
    with pytest.raises(Mistake, match="expected a new or an empty folder"):
        new.course(tmp_path / "c")
    course = Course(tmp_path / "c")
    new.exercise(course, "square", ["triton", "cuda"])
    before = {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}
    for name, said in (
        ("square", "expected no such file yet"),
        ("Square", "expected a Python name of lower-case letters, digits and _, got 'Square'"),
        ("my-topk", "expected a Python name .*, got 'my-topk'"),
        ("cuda", "is a variant of square.yaml"),
        ("triton", "is a module that an exercise's files import"),
        ("float32", "a word in the names of tests"),
    ):
        with pytest.raises(Mistake, match=said):
            new.exercise(Course(tmp_path / "c"), name, ["triton"])
    assert before == {path: path.read_bytes() for path in course.root.rglob("*") if path.is_file()}
