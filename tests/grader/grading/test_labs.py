"""CUDA variants of several files: what passes, and the file and line that a mistake is told at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.evidence import VariantEvidence
from grader.executors.cuda import cuda_build, joining
from grader.grading.check import check
from grader.grading.grade import expect_files
from grader.grading.gradescope import folder_in
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.grading.source_rules import violations_of
from grader.mistakes import Mistake
from grader.service.single import RequestError, check_source
from grader.spec import Course, SpecError
from grader.spec.compiling import digest
from grader.spec.task import Task
from grader.staff.author import texts
from grader.staff.stubs import make_stubs
from grader.status import Status
from grader.worker import nvcc

COURSE = Course(Path(__file__).parents[2] / "lab_course")
EXERCISES = COURSE.exercises
TASK = Task(EXERCISES["scale"], EXERCISES["scale"].variants["cuda"])
BRIEF = Effort(
    edges=3,
    drawn=0,
    shrink_runs=0,
    probe_seconds=0.0,
    reruns=1,
    enough=1,
    compile_ahead=False,
    repair_seconds=0,
)
OPTIONS = Options(seed=7, device="cpu", effort=BRIEF, check_with_nvcc=False)


@pytest.fixture
def lab(tmp_path):
    """The solution, handed in."""
    folder = tmp_path / "lab"
    shutil.copytree(COURSE.reference, folder)
    (folder / "blocks.cuh").write_text("#error a student's own copy counts for nothing\n")
    return folder


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def evidence_on(folder: Path) -> VariantEvidence:
    with Session(folder, EXERCISES, OPTIONS) as session:
        return check(session, TASK)


def failure_of(folder: Path):
    return evidence_on(folder).parts[0].failures[0]


def test_files_that_belong_together_pass_with_an_entry_for_each_dtype(lab):
    parts = evidence_on(lab).parts
    assert [(each.dtype, each.status) for each in parts] == [
        ("float32", Status.passed),
        ("float16", Status.passed),
    ]


def test_a_compilers_error_names_the_file_and_line_of_the_header(lab):
    changed(lab / "helper.cuh", "2.0f * x + 1.0f;", "2.0f * y + 1.0f;")
    failure = failure_of(lab)
    assert (failure.status, failure.where) == (Status.compile_error, "helper.cuh:8")
    assert [each.line for each in failure.code] == [8]
    assert "'y'" in failure.what


def test_a_stray_store_names_the_file_and_line_of_the_kernel(lab):
    changed(lab / "kernel.cu", "i < n", "i <= n")
    failure = failure_of(lab)
    assert (failure.status, failure.where) == (Status.wrote_out_of_bounds, "kernel.cu:7")
    assert "at kernel.cu:7 (`out[i]" in failure.what
    assert "launcher.cu" not in failure.what + failure.detail


def test_a_missing_entry_is_told_by_its_name_and_the_other_dtype_passes(lab):
    changed(lab / "launcher.cu", "scale_f16", "scale_half")
    single, half = evidence_on(lab).parts
    assert single.status is Status.passed
    assert half.failures[0].what == "there is no function scale_f16"
    assert half.failures[0].hint == "Define scale_f16(x, out, n)."


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("helper.cuh", "#include <sys/socket.h>", 1),
        ("kernel.cu", 'static void list() { system("ls"); }', 1),
        ("kernel.cu", '#include "../helper.cuh"', 1),
        ("kernel.cu", '#include "/etc/passwd"', 1),
    ],
)
def test_the_rules_hold_in_every_file(lab, file, text, line):
    path = lab / file
    path.write_text(f"{text}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    failure = failure_of(lab)
    assert (failure.status, failure.where) == (Status.policy_violation, f"{file}:{line}")


def test_a_file_that_is_missing_a_link_or_too_large_is_named(lab):
    helper = lab / "helper.cuh"
    helper.unlink()
    assert evidence_on(lab).not_attempted == "there is no helper.cuh"
    helper.symlink_to("/etc/passwd")
    assert evidence_on(lab).not_attempted.startswith("helper.cuh is a symbolic link")
    helper.unlink()
    helper.write_bytes(b" " * ((1 << 20) + 1))
    assert evidence_on(lab).not_attempted == "helper.cuh is larger than 1 MiB"
    helper.write_bytes(b"\n" * (1 << 20))
    assert evidence_on(lab).not_attempted.endswith("together they are larger than 1 MiB")


def test_a_folder_without_the_first_file_is_still_the_submissions(lab):
    for name in ("launcher.cu", "helper.cuh"):
        (lab / name).unlink()
    expect_files(lab, EXERCISES)
    assert folder_in(lab.parent, EXERCISES) == lab
    (lab / "kernel.cu").unlink()
    with pytest.raises(Mistake, match=r"with launcher\.cu or other files of exercises; found none"):
        expect_files(lab, EXERCISES)
    assert folder_in(lab.parent, EXERCISES) == lab.parent


def test_the_stubs_have_nothing_to_grade_and_include_the_courses_header(tmp_path):
    stubs = make_stubs(COURSE.reference, EXERCISES)
    assert list(stubs) == ["launcher.cu", "kernel.cu", "helper.cuh", "blocks.cuh"]
    assert stubs["blocks.cuh"] == (COURSE.reference / "blocks.cuh").read_text(encoding="utf-8")
    assert "return x;" in stubs["helper.cuh"]
    assert "1.0f" not in stubs["helper.cuh"]
    mistakes = "\n".join(texts.stub_mistakes(COURSE, EXERCISES["scale"]))
    assert "BEGIN SOLUTION" not in mistakes  # the helper's region is enough
    for name in stubs:
        assert f"assignment/{name}: expected the stub" in mistakes


def test_a_single_source_is_refused_for_a_variant_of_several_files():
    with pytest.raises(RequestError, match=r"launcher\.cu, kernel\.cu, helper\.cuh"):
        check_source(TASK, "int main;", OPTIONS)


def test_nvcc_gets_the_flags_and_the_signature_of_each_entry(monkeypatch):
    given = []
    monkeypatch.setattr(cuda_build, "begin", lambda *values: given.append(values))
    monkeypatch.setattr(cuda_build, "prepare", lambda: None)
    programs = cuda_build.Programs(EXERCISES, lambda name: b"", lambda: None, True, True)
    programs._begun("launcher.cu", "nvcc")
    [(_, order)] = given
    assert (order.name, order.backend) == ("launcher.cu", "nvcc")
    assert order.flags == ("-use_fast_math",)
    assert order.entries == [
        ("scale_f32", ["pointer:float32", "pointer:float32", "int"]),
        ("scale_f16", ["pointer:float16", "pointer:float16", "int"]),
    ]


def test_nvcc_is_called_with_the_flags(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(nvcc, "run", lambda line, folder: calls.append(line))
    monkeypatch.setattr(nvcc, "_refusals", lambda done, source: ())
    (tmp_path / "a.cu").write_text("")
    nvcc.check("nvcc", tmp_path / "a.cu", tmp_path, "sm_90", ("-maxrregcount=64",))
    assert "-maxrregcount=64" in calls[0]


def test_students_dont_answer_for_lines_of_the_courses_headers():
    text = b'#include <sys/socket.h>\nvoid f() { system("ls"); }\n'
    [failure] = violations_of(TASK, text, lambda line: line == 1)
    assert (failure.where, failure.detail) == ("launcher.cu:2", "")
    assert violations_of(TASK, text, lambda line: True) == ()


# --- the joined text ------------------------------------------------------------------------------


def joined(texts: dict[str, str], **compile_: list[str]) -> joining.Joined:
    block = TASK.variant.compile.model_validate(compile_)
    lab = joining.labs_of(EXERCISES)["launcher.cu"]
    lab = joining.Lab("main.cu", block, lab.reference)
    made = joining.join(lab, lambda name: texts[name].encode())
    assert isinstance(made, joining.Joined)
    return made


def test_a_header_stands_once_where_it_is_included_first():
    files = {"a.cuh": "int a;", "main.cu": '#include "a.cuh"\n#include "a.cuh"  // again\nint m;'}
    made = joined(files, files=["a.cuh"], flags=["-D N=3", "-D DEBUG"])
    assert made.data.decode().split("\n") == [
        "#define N 3",
        "#define DEBUG 1",
        "int a;",
        "",
        "int m;",
    ]
    assert [made.place(line) for line in (3, 4, 5)] == [
        ("a.cuh", 1),
        ("main.cu", 2),
        ("main.cu", 3),
    ]


def test_a_unit_that_another_one_includes_stands_once():
    files = {"a.cu": '#include "b.cu"\nint a;', "b.cu": '#include "a.cu"\nint b;', "main.cu": ""}
    made = joined(files, files=["a.cu", "b.cu"])
    assert made.data.decode().split("\n") == ["", "int b;", "int a;", ""]


@pytest.mark.parametrize(
    "text",
    [
        '/*\n#include "a.cuh"\n*/',
        'auto s = R"(\n#include "a.cuh"\n)";',
        '#if 0\n#include "a.cuh"\n#endif',
        "#include <a.cuh>",
        '#include "other.cuh"',
    ],
)
def test_what_includes_no_file_of_the_lab_stays_as_it_is(text):
    assert joined({"a.cuh": "int a;", "main.cu": text}, files=["a.cuh"]).data.decode() == text


def test_only_the_courses_headers_are_given():
    made = joined({"main.cu": '#include "blocks.cuh"\nint m;'}, headers=["blocks.cuh"])
    last = len(made.origins)
    assert made.is_given(1)
    assert not made.is_given(last)
    with pytest.raises(SpecError, match=r"nothing\.cuh: expected the header that a spec names"):
        joined({"main.cu": ""}, headers=["nothing.cuh"])


def test_one_hash_stands_for_all_files_and_is_a_single_files_own():
    assert digest(["a"]) == "a"
    assert digest(["", "b"]) == ""
    assert digest(["a", "b"]) not in (digest(["a", "c"]), digest(["a", ""]), "a")
