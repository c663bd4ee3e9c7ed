"""The command line: exit statuses, one line for a mistake, reports written, lines to paste."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import typer
from rich.console import Console

from grader import __version__
from grader import evidence as evidence_files
from grader.cli import app, console
from grader.evidence import (
    Evidence,
    Failure,
    MemoryEvidence,
    Metric,
    PartEvidence,
    PerformanceEvidence,
    VariantEvidence,
)
from grader.grading.check import check as check_task
from grader.grading.grade import grade
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.spec import SpecError, load_all
from grader.spec.task import Task
from grader.status import Status
from tests.support import warm_python
from tests.support.commandline import any_sandbox_will_do, call, one_line, work_on
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

WIDTH = 80
WITH_TRIES = replace(BRIEF, repair_seconds=12.0)  # of changes of the text


def spaced(text: str) -> str:
    """The text with its line breaks as spaces."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def wrong(tmp_path_factory) -> Path:
    """A submission whose grid rounds down."""
    return submission(tmp_path_factory.mktemp("wrong") / "ada lovelace", GRID_ROUNDS_DOWN)


@pytest.fixture(scope="module")
def exercises(tmp_path_factory):
    """The small exercise alone."""
    return write_spec(tmp_path_factory.mktemp("specs"))


@pytest.fixture(scope="module")
def observed(wrong, exercises) -> Evidence:
    """What grading the wrong submission showed, once for all tests."""
    return grade(wrong, exercises, Options(seed=7, device="cpu", effort=WITH_TRIES))


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, exercises):
    """80 columns, no colour, and the small exercise in place of the course's."""
    any_sandbox_will_do(monkeypatch)
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("NO_COLOR", "1")
    work_on(monkeypatch, lambda: exercises)


@pytest.fixture
def graded(monkeypatch, observed):
    """`grader grade` gets this evidence instead of running anything."""
    monkeypatch.setattr(app, "grade_submission", lambda *args, **options: observed)
    return observed


def broken(parts=(), performance=None) -> Evidence:
    """Evidence of a run in which the grader itself failed."""
    variant = VariantEvidence("silu", "triton", "silu.py", "00", "", tuple(parts), performance)
    return Evidence("sub", 7, (variant,), {"gpu": None, "sandbox": "test"})


# --- grade ----------------------------------------------------------------------------------------


def test_a_low_score_is_no_failure_and_each_failure_is_told_once(capsys, graded, wrong):
    ran = call(capsys, "grade", wrong)
    assert ran.code == 0, ran.err
    assert "Earned 0 of 3." in ran.out
    assert ran.out.count("silu/triton: `n_elements // BLOCK` rounds down") == 1
    assert ran.out.count("Reproduce:") == 1
    assert ran.err == ""


def test_every_report_asked_for_is_written(capsys, graded, wrong, tmp_path):
    kinds = ("json", "html", "junit", "gradescope", "evidence")
    names = {name: tmp_path / f"grade.{name}" for name in kinds}
    options = [word for name, path in names.items() for word in (f"--{name}", path)]
    assert call(capsys, "grade", wrong, *options).code == 0
    data = json.loads(names["json"].read_text(encoding="utf-8"))
    assert (data["schema"], data["score"], data["max_score"]) == (1, 0.0, 3.0)
    assert names["html"].read_text(encoding="utf-8").startswith("<!doctype html>")
    [case] = ET.fromstring(names["junit"].read_text(encoding="utf-8")).iter("testcase")
    assert case.find("failure") is not None
    results = json.loads(names["gradescope"].read_text(encoding="utf-8"))
    assert (results["score"], results["tests"][0]["status"]) == (0.0, "failed")
    assert evidence_files.read(names["evidence"]) == graded


def test_stored_evidence_is_scored_again_without_running_anything(
    capsys, graded, wrong, tmp_path, monkeypatch
):
    stored, first, again = (tmp_path / name for name in ("evidence.json", "1.json", "2.json"))
    assert call(capsys, "grade", wrong, "--evidence", stored, "--json", first).code == 0

    def fail(*args, **options):
        raise AssertionError("rescore started something")

    monkeypatch.setattr("grader.grading.grade.Session.__init__", fail)
    monkeypatch.setattr("grader.sandbox.sandbox.Sandbox.start", fail)
    monkeypatch.setattr(subprocess, "Popen", fail)
    ran = call(capsys, "rescore", stored, "--json", again)
    assert ran.code == 0, ran.err
    assert again.read_bytes() == first.read_bytes()
    assert "Earned 0 of 3." in ran.out


def test_rescoring_goes_by_the_spec_of_now(capsys, graded, wrong, tmp_path, monkeypatch):
    stored, again = tmp_path / "evidence.json", tmp_path / "grade.json"
    stored.write_text(evidence_files.to_json(graded), encoding="utf-8")
    dearer = write_spec(tmp_path / "specs", SPEC.replace("ragged: 3}", "ragged: 5}"))
    work_on(monkeypatch, lambda: dearer)
    assert call(capsys, "rescore", stored, "--json", again).code == 0
    assert json.loads(again.read_text(encoding="utf-8"))["max_score"] == 5.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "can't be read: No such file or directory"),
        ("{}", "Field required"),
        ("not json", "Invalid JSON"),
    ],
)
def test_evidence_that_is_none_gets_one_line(capsys, tmp_path, text, said):
    path = tmp_path / "evidence.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    ran = call(capsys, "rescore", path)
    assert ran.code == 2
    line = one_line(ran.err)
    assert line.startswith(str(path))
    assert said in line


def test_an_untouched_assignment_scores_nothing_and_says_what_to_do_first(capsys, tmp_path):
    folder = submission(tmp_path / "ada", STUB)
    ran = call(capsys, "grade", folder)
    assert ran.code == 0
    assert "Earned 0 of 3." in ran.out
    assert "Not attempted yet." in ran.out
    assert f"Start with silu: open {folder}/silu.py" in ran.out
    assert f"then run: pytest -k silu --submission={folder}\n" in ran.out


def test_an_interrupted_run_shows_what_there_is_and_does_not_pass_for_a_finished_one(
    capsys, graded, wrong, tmp_path, monkeypatch
):
    partial_evidence = Evidence("sub", 7, (), {}, complete=False)
    monkeypatch.setattr(app, "grade_submission", lambda *args, **options: partial_evidence)
    stored = tmp_path / "evidence.json"
    ran = call(capsys, "grade", wrong, "--evidence", stored)
    assert ran.code == 130
    assert "interrupted" in ran.out
    assert evidence_files.read(stored) == partial_evidence


def test_ctrl_c_ends_a_command_with_a_word(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "grade_submission", interrupted)
    ran = call(capsys, "grade", ROOT / "reference")
    assert (ran.code, ran.err) == (130, "interrupted\n")


# --- mistakes -------------------------------------------------------------------------------------


def test_a_submission_that_is_not_there_gets_one_line(capsys, tmp_path):
    for words in (("grade", tmp_path / "nowhere"), ("check", "silu", "--submission", "nowhere")):
        ran = call(capsys, *words)
        assert ran.code == 2
        assert "nowhere: expected a folder like assignment/, found none" in one_line(ran.err)
    assert one_line(ran.err).endswith(f"found none in {Path.cwd()}")  # perhaps the wrong folder


@pytest.mark.parametrize("command", [["grade"], ["check", "silu", "--submission"]])
def test_a_file_in_the_place_of_its_folder_is_told_with_the_folder(capsys, tmp_path, command):
    file = tmp_path / "silu.py"
    file.touch()
    ran = call(capsys, *command, file)
    assert ran.code == 2
    assert one_line(ran.err).endswith(f"assignment/, got a file; it lies in {tmp_path}")


def test_a_case_without_quotes_is_told_how_to_write_it(capsys):
    ran = call(capsys, "check", "silu", "--case", "n=10", "dtype=float16")
    assert ran.code == 2
    assert one_line(ran.err).endswith("in quotes: --case 'n=10 dtype=float16'")


@pytest.mark.parametrize(
    ("name", "suggested"),
    [("sillu", "silu"), ("SiLU", "silu"), ("silu.py", "silu"), ("silu/cuda", "silu")],
)
def test_a_wrong_name_suggests_the_right_one(capsys, wrong, name, suggested):
    for words in (
        ("check", name, "--submission", wrong),
        ("grade", wrong, "--only", name),
        ("batch", wrong.parent, "--out", wrong.parent / "out", "--only", name),
    ):
        ran = call(capsys, *words)
        assert ran.code == 2
        line = one_line(ran.err)
        assert line.startswith(f"{name}: expected the name of an exercise, one of silu.")
        assert f"Did you mean {suggested}" in line


@pytest.mark.parametrize(("option", "value"), [("--jobs", "0"), ("--seed", "x")])
def test_a_value_that_an_option_cannot_have_is_shown(capsys, wrong, option, value):
    ran = call(capsys, "grade", wrong, option, value)
    assert ran.code == 2
    assert f", got '{value}'" in " ".join(ran.err.replace("│", " ").split())


def test_an_option_s_names_may_stand_in_one_list_with_commas() -> None:
    exercises = load_all()
    names = ["silu", "rmsnorm/triton", "gelu"]
    assert console.known_names(exercises, ["silu,rmsnorm/triton", "gelu"]) == names
    assert console.known_names(exercises, ["silu, rmsnorm/triton,", "gelu"]) == names
    assert console.known_names(exercises, None) == []


@pytest.mark.parametrize("name", ["", ",", "silu,qqqq"])
def test_a_list_without_a_name_or_with_a_wrong_one_is_refused(name: str) -> None:
    with pytest.raises(typer.Exit):
        console.known_names(load_all(), [name])


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("transpose_v1", "transpose/cuda_v1 or transpose/triton_v1"),
        ("softmax_online/triton", "softmax/online"),
        ("gemm_tiled", "gemm/cuda_tiled"),
        ("transpose_v3/cuda", "transpose/cuda_v3"),
        ("rmsnorm/cuda", "rmsnorm/cuda_vector or rmsnorm/cuda_matrix"),
        ("Gem/cuda", "gemm/cuda_tiled"),
    ],
)
def test_the_name_of_a_function_suggests_the_variants_that_implement_it(capsys, name, suggested):
    with pytest.raises(typer.Exit):
        console.known_names(load_all(), [name])
    assert f"Did you mean {suggested}?" in one_line(capsys.readouterr().err)


def test_an_unknown_variant_of_an_exercise_is_told_which_there_are(capsys):
    with pytest.raises(typer.Exit):
        console.known_names(load_all(), ["softmax/triton_online"])
    line = one_line(capsys.readouterr().err)
    assert "expected a variant of softmax, one of softmax/triton, softmax/online." in line


def test_a_grade_of_an_exercise_s_name_says_how_to_pick_one(capsys):
    for name in ("silu", "silu/triton"):
        ran = call(capsys, "grade", name)
        assert ran.code == 2
        assert one_line(ran.err).endswith(f"got the name of an exercise: give it as --only {name}")
    assert "--only" not in call(capsys, "grade", "silu/triton_v9").err


def test_a_name_like_no_other_suggests_nothing(capsys, wrong):
    line = one_line(call(capsys, "check", "qqqq", "--submission", wrong).err)
    assert line == "qqqq: expected the name of an exercise, one of silu."


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("n=0", "n: expected 1 to"),
        ("n=x", "n: expected a whole number, got 'x'"),
        ("m=5", "m: expected one of n, dtype, data, seed"),
        ("n", "expected words like"),
        ("dtype=float32", "n"),
        ("n=5 dtype=float8", "dtype: expected one of float32, got 'float8'"),
        ("n='5", "No closing quotation"),
        ("", "n"),
    ],
)
def test_a_mistake_in_a_case_gets_one_line(capsys, wrong, case, said):
    ran = call(capsys, "check", "silu", "--submission", wrong, "--case", case)
    assert ran.code == 2
    line = one_line(ran.err)
    assert line.startswith("--case: silu/")
    assert said in line


@pytest.mark.parametrize("command", ["grade", "rescore"])
def test_a_report_that_cannot_be_written_is_said_before_grading(
    capsys, wrong, tmp_path, monkeypatch, command
):
    def fail(*args, **options):
        raise AssertionError("graded before it looked")

    monkeypatch.setattr(app, "grade_submission", fail)
    monkeypatch.setattr(evidence_files, "read", fail)
    for option in ("--json", "--html", "--junit", "--gradescope"):
        ran = call(capsys, command, wrong, option, tmp_path / "none" / "report")
        assert ran.code == 2
        assert f"there is no {tmp_path / 'none'}" in one_line(ran.err)
        ran = call(capsys, command, wrong, option, tmp_path)
        assert ran.code == 2
        assert "expected the name of a file, got a folder" in one_line(ran.err)
    twice = tmp_path / "report"
    ran = call(capsys, command, wrong, "--json", twice, "--html", twice)
    assert ran.code == 2
    assert "the same one twice" in one_line(ran.err)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_disk_that_is_full_gets_one_line(capsys, graded, wrong):
    ran = call(capsys, "grade", wrong, "--json", "/dev/full")
    assert ran.code == 2
    assert "No space left on device" in one_line(ran.err)


def test_a_broken_spec_gets_one_line(capsys, wrong, tmp_path, monkeypatch):
    folder = tmp_path / "specs"
    folder.mkdir()
    text = SPEC.replace("points: {ragged: 3}", "points: {ragged: -3}")
    (folder / "silu.yaml").write_text(text, encoding="utf-8")
    work_on(monkeypatch, lambda: load_all(folder))
    for words in (("grade", wrong), ("check", "silu"), ("batch", wrong, "--out", tmp_path / "o")):
        ran = call(capsys, *words)
        assert ran.code == 2
        line = one_line(ran.err)
        assert line.startswith("silu.yaml:")
        assert "-3" in line


def test_an_exercise_without_an_oracle_gets_one_line(capsys, wrong, tmp_path, monkeypatch):
    text = SPEC.replace("title: SiLU", "title: SiLU\noracle: no_such_function")
    without = write_spec(tmp_path / "specs", text)
    work_on(monkeypatch, lambda: without)
    for words in (("grade", wrong), ("check", "silu"), ("batch", wrong, "--out", tmp_path / "o")):
        ran = call(capsys, *words)
        assert ran.code == 2
        said = "silu: oracles.py: expected a function no_such_function, found none"
        assert one_line(ran.err) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek"], "Did you mean"),
        (["check"], "Missing argument"),
        (["grade", "--sed", "1"], "No such option"),
        (["grade", "--seed", "-1"], "--seed"),
    ],
)
def test_a_wrong_command_line_is_exit_status_2(capsys, words, said):
    ran = call(capsys, *words)
    assert ran.code == 2
    assert said in spaced(ran.err)
    assert "Traceback" not in ran.err


# --- the grader's own failures --------------------------------------------------------------------


@pytest.mark.parametrize(
    "evidence",
    [
        broken([PartEvidence("float32", "ragged", Status.grader_error, reason="Boom: line 3")]),
        broken(
            [PartEvidence("float32", "ragged", Status.passed, 5)],
            PerformanceEvidence(Status.grader_error, "Boom: line 3"),
        ),
    ],
    ids=["part", "performance"],
)
def test_a_failing_grader_is_loud_and_exit_status_3(capsys, wrong, monkeypatch, evidence):
    monkeypatch.setattr(app, "grade_submission", lambda *args, **options: evidence)
    ran = call(capsys, "grade", wrong)
    assert ran.code == 3
    assert "THE GRADER FAILED" in ran.out
    assert "Boom: line 3" in ran.out


def test_a_check_the_grader_failed_on_is_loud_and_exit_status_3(capsys, wrong, monkeypatch):
    part = PartEvidence("float32", "ragged", Status.grader_error, reason="Boom: line 3")
    monkeypatch.setattr(app, "grade_task", lambda *args: broken([part]).variants[0])
    ran = call(capsys, "check", "silu", "--submission", wrong)
    assert ran.code == 3
    assert "THE GRADER FAILED" in ran.out
    assert "Boom: line 3" in ran.out


def test_a_bug_of_ours_is_exit_status_3_and_asks_for_a_report(capsys, wrong, monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("Boom")

    monkeypatch.setattr(app, "grade_submission", fail)
    ran = call(capsys, "grade", wrong)
    assert ran.code == 3
    assert "The grader itself failed" in ran.err
    assert "RuntimeError: Boom" in ran.err


# --- check ----------------------------------------------------------------------------------------


def test_a_check_tells_what_is_wrong_in_four_parts(capsys, wrong, monkeypatch):
    options = partial(app.Options, device="cpu", effort=WITH_TRIES)
    monkeypatch.setattr(app, "Options", options)
    # The console took its width from COLUMNS when it was made, where that was set (as by xdist).
    monkeypatch.setattr(app.console, "_width", 60)
    ran = call(capsys, "check", "silu", "--submission", wrong, "--seed", "7")
    assert ran.code == 1, ran.err
    assert "silu/triton (silu.py)" in ran.out
    assert "silu/triton: `n_elements // BLOCK` rounds down" in spaced(ran.out)
    assert "Left output unwritten for n=1, float32" in spaced(ran.out)
    assert "Round up: triton.cdiv." in spaced(ran.out)
    lines = ran.out.splitlines()
    command = lines[lines.index("  Reproduce:") + 1].strip()
    assert command.startswith("grader check silu --case 'n=1 dtype=float32 seed=7'")
    # Lines to paste are never broken; everything else fits the window.
    wide = [line for line in lines if len(line) > 60]
    assert all(line.strip().startswith("grader check ") for line in wide), wide


def test_a_check_shows_dtypes_cases_and_reasons_per_size_class(capsys, wrong, monkeypatch):
    failure = Failure(Status.wrong_values, "n=1 dtype=float16 seed=7", "out[0] is 1, expected 2")
    parts = (
        PartEvidence("float32", "ragged", Status.passed, 20),
        PartEvidence("float16", "ragged", Status.wrong_values, 10, 1, (failure,)),
        PartEvidence("float32", "degenerate", Status.passed, 1, reason="stopped after 1 case"),
        PartEvidence("float32", "aligned", Status.not_measured, reason="needs a GPU"),
    )
    seen = VariantEvidence("silu", "triton", "silu.py", "00", "", parts)
    monkeypatch.setattr(app, "grade_task", lambda *args: seen)
    out = call(capsys, "check", "silu", "--submission", wrong).out
    rows = {line.split()[0]: spaced(line) for line in out.splitlines() if line.startswith("  ")}
    assert rows["ragged"] == "ragged wrong values: float16; passed: float32 30 cases"
    assert rows["degenerate"] == "degenerate passed; stopped after 1 case 1 case"
    assert rows["aligned"] == "aligned not measured here; needs a GPU 0 cases"
    assert out.count("out[0] is 1, expected 2.") == 1


def test_a_check_says_once_why_parts_were_not_measured(capsys, wrong, monkeypatch):
    def part(dtype, what):
        status = Status.not_measured
        failure = Failure(status, f"n=1 dtype={dtype} seed=7", what, where="silu.py:4")
        return PartEvidence(dtype, "ragged", status, 20, 20, (failure,), reason=what)

    reasons = ["a graph can't be judged", "a graph can't be judged", "Gluon can't be judged"]
    parts = tuple(map(part, ("float32", "float16", "bfloat16"), reasons))
    seen = VariantEvidence("silu", "triton", "silu.py", "00", "", parts)
    monkeypatch.setattr(app, "grade_task", lambda *args: seen)
    out = spaced(call(capsys, "check", "silu", "--submission", wrong).out)
    assert out.count("A graph can't be judged.") == out.count("Gluon can't be judged.") == 1
    assert "not measured here at silu.py:4 for n=1, float32." in out
    assert "Not measured in ragged for float32 and float16." in out


def test_a_check_shows_the_graders_notes_once(capsys, wrong, monkeypatch):
    note = "do_bench gives no times here."
    parts = tuple(
        PartEvidence(dtype, "ragged", Status.passed, 20, notes=(note,))
        for dtype in ("float32", "float16")
    )
    seen = VariantEvidence("silu", "triton", "silu.py", "00", "", parts)
    monkeypatch.setattr(app, "grade_task", lambda *args: seen)
    out = call(capsys, "check", "silu", "--submission", wrong).out
    assert out.count(f"silu/triton: {note}") == 1


def test_a_case_that_passes_says_so(capsys, wrong, monkeypatch):
    part = PartEvidence("float32", "case", Status.passed, 1)
    asked = []
    monkeypatch.setattr(app, "check_case", lambda *args: asked.append(args[-1]) or part)
    ran = call(capsys, "check", "silu", "--submission", wrong, "--case", "n=5 seed=9")
    assert ran.code == 0
    assert ran.out == "silu/triton: passed for n=5, float32.\n"
    assert str(asked[0]) == "n=5 dtype=float32 seed=9"
    part = PartEvidence("float32", "case", Status.not_measured, 1, reason="needs a GPU.")
    ran = call(capsys, "check", "silu", "--submission", wrong, "--case", "n=5 seed=9")
    assert "not measured here for n=5, float32 (needs a GPU)." in " ".join(ran.out.split())


def test_a_check_judges_memory_and_speed_as_a_grade_does_and_ends_with_1(
    capsys, wrong, monkeypatch, tmp_path
):
    text = SPEC.replace(
        "points: {ragged: 3}",
        "points: {ragged: 3, memory: 1}, memory: {case: {n: 20}, largest_share: {at_most: 0.5}}",
    )
    work_on(monkeypatch, lambda: write_spec(tmp_path / "specs", text))
    part = PartEvidence("float32", "ragged", Status.passed, 20)

    def out(share: float) -> tuple[int, str]:
        metrics = (Metric("largest_share", share),)
        memory = MemoryEvidence(Status.passed, "", "n=20 dtype=float32 seed=7", metrics)
        seen = VariantEvidence("silu", "triton", "silu.py", "00", "", (part,), memory=memory)
        monkeypatch.setattr(app, "grade_task", lambda *args: seen)
        ran = call(capsys, "check", "silu", "--submission", wrong)
        return ran.code, spaced(ran.out)

    words = "of the bytes that the case needs, the busiest program moves"
    code, told = out(0.25)
    assert code == 0 and f"memory passed: O{words[1:]} 25 %." in told
    code, told = out(1.0)
    assert code == 1
    assert f"memory right, but short of the target: {words} 100 %, asked for: at most 50 %" in told


def test_a_check_counts_what_no_points_hang_on(capsys, monkeypatch, tmp_path):
    options = partial(app.Options, device="cpu", effort=WITH_TRIES)
    monkeypatch.setattr(app, "Options", options)
    ran = call(capsys, "check", "silu", "--submission", submission(tmp_path / "sub", RIGHT))
    assert ran.code == 0
    assert "silu/triton: how work is shared" in ran.out
    assert "The largest launch has 1 program that stores (not scored)." in spaced(ran.out)
    assert "  memory " not in ran.out  # no row: it has no points


def test_checking_a_stub_says_that_it_is_one(capsys, tmp_path):
    folder = submission(tmp_path / "sub", STUB)
    for words in ((), ("--case", "n=5")):
        ran = call(capsys, "check", "silu", "--submission", folder, *words)
        assert ran.code == 0
        assert ran.out == "silu/triton: not attempted: silu() is still the stub.\n"


def test_the_line_a_failing_grade_prints_shows_the_same_failure_when_pasted(
    capsys, graded, wrong, tmp_path
):
    out = call(capsys, "grade", wrong).out
    [line] = [line for line in out.splitlines() if "grader check" in line]
    command = tmp_path / "bin" / "grader"
    command.parent.mkdir()
    python = shlex.quote(sys.executable)
    command.write_text(f'#!/bin/sh\nexec {python} -m grader "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    pasted = subprocess.run(
        ["sh", "-c", line],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert pasted.returncode == 1, pasted.stderr
    cause = "silu/triton: `n_elements // BLOCK` rounds down"
    assert cause in spaced(out) and cause in spaced(pasted.stdout)
    assert "Left output unwritten for n=1, float32" in spaced(pasted.stdout)
    # There silu has more variants than in the spec that the grade was made with.
    assert line.replace("check silu ", "check silu/triton ") in pasted.stdout.splitlines()


# --- the other commands ---------------------------------------------------------------------------


def test_stubs_are_written_and_work_is_not_overwritten(capsys, tmp_path, monkeypatch, exercises):
    work_on(monkeypatch, lambda: exercises, tmp_path)
    reference = tmp_path / "reference"
    reference.mkdir()
    (reference / "silu.py").write_bytes((ROOT / "reference" / "silu.py").read_bytes())
    written = tmp_path / "assignment" / "silu.py"

    ran = call(capsys, "stubs")
    assert (ran.code, ran.out) == (0, "assignment/silu.py\n")
    assert written.read_text(encoding="utf-8") == STUB
    ran = call(capsys, "stubs")
    assert (ran.code, ran.out) == (0, "assignment/ is up to date\n")

    written.write_text("# my work\n", encoding="utf-8")
    ran = call(capsys, "stubs")
    assert ran.code == 2
    assert "silu.py" in one_line(ran.err)
    assert written.read_text(encoding="utf-8") == "# my work\n"
    assert call(capsys, "stubs", "--force").code == 0
    assert written.read_text(encoding="utf-8") == STUB


def test_python_m_grader_is_the_same_and_says_its_version():
    ran = warm_python.run(["-m", "grader", "--version"], ROOT)
    assert (ran.returncode, ran.stdout) == (0, f"warpgrade {__version__}\n")


def test_a_reader_that_goes_away_gets_no_traceback(wrong):
    ran = subprocess.run(
        f"{shlex.quote(sys.executable)} -m grader --help | true",
        shell=True,
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_progress_line_fits_however_narrow_the_window(columns, monkeypatch, capsys):
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=columns, color_system=None)
    monkeypatch.setattr(console, "errors", terminal)
    with console.progress(console.step_in_words) as on_step:
        on_step(app.Step("silu", "triton", "\x1b[2J" + "n=5 " * 40, 12))
    drawn = stream.getvalue()
    assert "n=5" in drawn
    assert "\x1b[2J" not in drawn
    assert drawn.count("\n") == 1  # its end; a bar of two lines would have more


def test_the_first_failure_is_told_while_the_other_parts_are_checked(monkeypatch, tmp_path):
    """Above the line of progress, in a terminal; the report has it again, with all parts."""
    stream = io.StringIO()
    terminal = Console(file=stream, force_terminal=True, width=90, color_system=None)
    monkeypatch.setattr(console, "errors", terminal)
    source = Path("reference/silu.py").read_text()
    (tmp_path / "silu.py").write_text(source.replace("tl.exp(-x)", "tl.exp(x)"))
    told = []

    def found(step):
        message = app._first_failure(step)
        told.extend([message] if message else [])
        return message

    with console.progress(console.step_in_words, found) as on_step:
        exercises = load_all()
        task = Task(exercises["silu"], exercises["silu"].variants["triton"])
        effort = Effort(edges=4, repair_seconds=0, compile_ahead=False)
        options = Options(device="cpu", effort=effort)
        with Session(tmp_path, exercises, options) as session:
            evidence = check_task(session, task, on_step)
    assert sum(part.status.is_failure for part in evidence.parts) > 1
    [message] = told  # of the first part alone
    assert message.startswith("silu/triton: ") and message.split("\n")[0] in stream.getvalue()
    assert "grader check" not in message  # a line to paste, which a narrow window would break here


@pytest.mark.parametrize("words", [("grade",), ("check", "silu", "--submission")])
def test_a_folder_without_a_file_of_any_exercise_is_the_wrong_one(capsys, tmp_path, words):
    (tmp_path / "notes.txt").write_text("not a kernel")
    ran = call(capsys, *words, tmp_path)
    assert ran.code == 2
    assert "expected a folder like assignment/, with silu.py" in one_line(ran.err)


def test_a_spec_that_cannot_be_read_is_told_and_stops_no_other(capsys, monkeypatch):
    line = "gemm.yaml:3: titel: expected one of the keys title, summary, got 'titel'"

    def load_some():
        raise SpecError([line], {"silu": "its spec"})

    def load_none():
        raise SpecError([line])

    work_on(monkeypatch, load_some)
    assert console.right_exercises() == {"silu": "its spec"}
    assert line in " ".join(capsys.readouterr().err.split())
    work_on(monkeypatch, load_none)
    with pytest.raises(SpecError, match="titel"):
        console.right_exercises()
