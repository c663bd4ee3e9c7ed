"""CUDA C++ files on the trusted side: no compiler, untrusted answers, what a problem comes to."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from grader.cases.case import fixed_case
from grader.emulator import report, toolchain
from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import BuildError, Checked, Problem, Program, Programs
from grader.executors.cuda.native_answers import _STATUS_OF_PROBLEM, NativeAnswers, with_const
from grader.grading.check import check_memory, check_part, check_parts
from grader.grading.grade import grade
from grader.grading.session import Options, Session
from grader.sandbox.worker_process import Cause, Death, Limits
from grader.scoring.score import score
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status

ROOT = Path(__file__).resolve().parents[4]
EXERCISES = load_all()
TRANSPOSE = EXERCISES["transpose"]
REASON = "the CUDA emulator needs g++; install it: apt install g++"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_build, "why_not", lambda backend: REASON)


def test_without_a_compiler_cuda_is_not_measured_and_costs_nothing(no_compiler) -> None:
    only = ["transpose/cuda_v3"]
    observed = grade(ROOT / "reference", EXERCISES, Options(device="cpu"), only=only)
    [seen] = observed.variants
    assert {part.status for part in seen.parts} == {Status.not_measured}
    assert {part.reason for part in seen.parts} == {REASON}
    graded = score(observed, EXERCISES)
    assert (graded.score, graded.gradable) == (0, 0)


def test_without_a_compiler_memory_is_not_measured_either(no_compiler) -> None:
    with Session(ROOT / "reference", EXERCISES, Options(device="cpu")) as session:
        seen = check_memory(session, Task(TRANSPOSE, TRANSPOSE.variants["cuda_v4"]))
    assert (seen.status, seen.reason) == (Status.not_measured, REASON)


def test_what_is_expected_is_compiled_once_while_something_else_runs(monkeypatch) -> None:
    begun, silu = [], EXERCISES["silu"]
    begin = cuda_build.begin

    def noted(sandbox: Any, order: cuda_build.Order) -> Any:
        if order.backend == "emulator":
            begun.append(order.name)
        return begin(sandbox, order)

    monkeypatch.setattr(cuda_build, "begin", noted)
    options = Options(device="cpu", keeps_builds=False)
    with Session(ROOT / "reference", EXERCISES, options) as session:
        session.begin_building(Task(silu, variant) for variant in silu.variants.values())
        session.begin_building([Task(silu, silu.variants["cuda"])])
        session.runners.programs.wait()
        assert not session.runners.programs._made  # nobody has waited for it
        assert begun == ["silu.cu"]
        assert check_part(
            session, Task(silu, silu.variants["cuda"]), "float32", "ragged"
        ).status.is_gradable
    assert begun == ["silu.cu"]


class Quiet:
    """A sandbox whose builder compiles nothing."""

    pid = 4711

    def hold(self, name: str, data: bytes) -> Path:
        return Path(name)

    def builder(self, source: Path, wanted: dict[str, Any], *_: Any) -> Quiet:
        self.wanted = wanted
        return self

    def post(self, _: object) -> None: ...
    def close(self) -> None: ...


@pytest.mark.parametrize(("backend", "is_nice"), [("emulator", False), ("nvcc", True)])
def test_only_nvccs_check_makes_way_and_only_it_needs_the_gpus_kind(monkeypatch, backend, is_nice):
    asked, nice, sandbox = [], [], Quiet()
    monkeypatch.setattr(cuda_build, "prepare", lambda: ("g++", "", ""))
    monkeypatch.setattr(cuda_build.machine, "capability", lambda: asked.append(1) or 90)
    monkeypatch.setattr(cuda_build.os, "setpriority", lambda *given: nice.append(given))
    cuda_build.begin(sandbox, cuda_build.Order("a.cu", b"", [], backend)).close()
    assert nice == [(os.PRIO_PROCESS, 4711, cuda_build.NVCC_NICENESS)] * is_nice
    assert len(asked) == is_nice and ("architecture" in sandbox.wanted) == is_nice


def test_what_is_expected_is_begun_in_the_background(monkeypatch) -> None:
    silu, may_begin, begun = EXERCISES["silu"], threading.Event(), []

    def begin(*given: Any) -> None:
        assert may_begin.wait(60)
        begun.append(given)

    monkeypatch.setattr(Programs, "begin", begin)
    with Session(ROOT / "reference", EXERCISES, Options(device="cpu")) as session:
        session.begin_building([Task(silu, silu.variants["cuda"])])
        assert not begun  # nobody is kept waiting for its sandbox
        may_begin.set()
        session.runners.programs.wait()
        assert begun == [(session.runners.programs, "silu.cu", "emulator")]


def test_what_is_expected_but_not_asked_for_leaves_no_compiler() -> None:
    options = Options(device="cpu", keeps_builds=False)
    with Session(ROOT / "reference", EXERCISES, options) as session:
        session.begin_building([Task(TRANSPOSE, TRANSPOSE.variants["cuda_v4"])])
        session.runners.programs.wait()
        buildings = list(session.runners.programs._building.values())
        assert buildings
        assert all(each.worker.alive for each in buildings)
    assert not any(each.worker.alive for each in buildings)


@pytest.mark.parametrize(
    "source",
    ['#include "/etc/hostname"\n', 'extern "C" void silu() { asm("nop"); system("id"); }\n'],
)
def test_what_breaks_the_rules_is_not_compiled_ahead(tmp_path, source) -> None:
    (tmp_path / "silu.cu").write_text(source)
    silu = EXERCISES["silu"]
    with Session(tmp_path, EXERCISES, Options(device="cpu")) as session:
        session.begin_building([Task(silu, silu.variants["cuda"])])
        session.runners.programs.wait()
        assert not session.runners.programs._building
        part = check_part(session, Task(silu, silu.variants["cuda"]), "float32", "ragged")
    assert part.status is Status.policy_violation


# --- two compilers --------------------------------------------------------------------------------

ERROR = Problem(kind="compile", message="no member x", line=7)
REFUSED = Checked(False, (Problem(kind="nvcc", message="identifier is undefined", line=3),))
ACCEPTED = Checked(True)


def test_what_only_nvcc_refuses_is_no_program() -> None:
    told = Program(Path("program"), "emulator").reconciled(REFUSED)
    assert (told.path, [each.line for each in told.problems]) == (None, [3])


def test_what_only_the_emulator_refuses_is_a_limit_of_ours() -> None:
    told = Program(None, "emulator", problems=(ERROR,)).reconciled(ACCEPTED)
    assert [each.kind for each in told.problems] == ["unsupported"]
    assert told.problems[0].message.endswith("no member x")


def test_what_no_gpu_has_stays_an_error_although_the_front_end_of_nvcc_accepts_it() -> None:
    too_much = Problem(kind="hardware", message="k has 49,156 bytes of static __shared__ memory")
    made = Program(None, "emulator", problems=(too_much,))
    assert made.reconciled(ACCEPTED) == made


@pytest.mark.parametrize("checked", [REFUSED, Checked()], ids=["both refuse", "nvcc is silent"])
def test_an_error_of_the_emulators_compiler_stays_unless_nvcc_accepts(checked) -> None:
    made = Program(None, "emulator", problems=(ERROR,))
    assert made.reconciled(checked) == made


@pytest.mark.parametrize("checked", [ACCEPTED, Checked()], ids=["both accept", "nvcc is silent"])
def test_a_program_stays_unless_nvcc_refuses(checked) -> None:
    made = Program(Path("program"), "emulator")
    assert made.reconciled(checked) == made


@pytest.mark.skipif(toolchain.find_nvcc() is None, reason="needs nvcc")
def test_a_file_that_only_nvcc_refuses_fails_though_it_ran_meanwhile(tmp_path) -> None:
    text = (ROOT / "reference" / "silu.cu").read_text()
    (tmp_path / "silu.cu").write_text(text + "__global__ int number() { return 1; }\n")
    silu = EXERCISES["silu"]
    task = Task(silu, silu.variants["cuda"])
    options = Options(device="cpu", check_with_nvcc=True)
    with Session(tmp_path, EXERCISES, options) as session:
        parts = check_parts(session, task, task.parts)
    assert {part.status for part in parts} == {Status.compile_error}
    line = len(text.splitlines()) + 1
    assert all(f"silu.cu:{line}" in str(part.failures[0]) for part in parts)


def test_a_signature_is_told_to_the_compiler_as_c_has_it() -> None:
    rmsnorm = EXERCISES["rmsnorm"]
    kinds = cuda_build.signature(rmsnorm, rmsnorm.variants["cuda_matrix"])
    assert kinds == ["pointer:float32"] * 3 + ["int", "int", "float"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"ok": 1e400}',
        json.dumps({"ok": True, "executable_bytes": -1}),
        json.dumps({"ok": True, "executable_bytes": 1 << 40}),
        json.dumps({"ok": True, "entries": ["x"] * 1000}),
        json.dumps({"ok": True, "problems": [{"kind": "no such", "message": ""}]}),
        json.dumps({"ok": True, "problems": [{"kind": "main", "message": "x" * 10_000}]}),
        json.dumps({"ok": True, "more": 1}),
        "[" * 100_000,
    ],
)
def test_an_answer_that_no_builder_gives_is_refused(text: str) -> None:
    with pytest.raises(BuildError, match="makes no sense"):
        cuda_build.read_answer(text)


@pytest.mark.parametrize(
    "data", [b"\xff", b"[]", b'{"1": 2}', b'{"1": [0, "f"]}', b'{"a": [1, "f"]}', b"[" * 100_000]
)
def test_a_table_of_lines_that_no_builder_makes_is_refused(data: bytes) -> None:
    with pytest.raises(BuildError, match="makes no sense"):
        cuda_build._read_sites(data)


def test_an_entrys_own_problem_goes_before_the_files() -> None:
    general = Problem(kind="main", message="the file defines main()")
    own = Problem(kind="no_extern_c", message="f has no C name", entry="f")
    program = Program(None, "emulator", problems=(general, own))
    assert program.problem_of("f") == own
    assert program.problem_of("g") == general
    assert Program(None, "emulator", problems=(own,)).problem_of("g") is None


def test_every_kind_of_problem_has_a_status() -> None:
    kinds = Problem.model_json_schema()["properties"]["kind"]["enum"]
    assert set(kinds) == set(_STATUS_OF_PROBLEM)


def test_a_message_on_the_entrys_type_has_const_for_inputs():
    exercise = EXERCISES["silu"]
    task = Task(exercise, exercise.variants["cuda"])
    kept = "silu takes 2 arguments; expected void silu(float*, float*)"
    assert with_const(kept, task.signature) == kept
    message = "silu takes 2 arguments; expected void silu(float*, float*, int)"
    shown = "silu takes 2 arguments; expected void silu(const float*, float*, int)"
    assert with_const(message, task.signature) == shown


@pytest.fixture
def answers(tmp_path) -> NativeAnswers:
    """Explains what happened to a submission for silu, whose file is empty."""
    exercise = EXERCISES["silu"]
    task = Task(exercise, exercise.variants["cuda"])
    path = tmp_path / "silu.cu"
    path.write_text("")
    program = Program(path, "emulator", sites={})
    return NativeAnswers(task=task, path=path, limits=Limits(), program=program)


@pytest.mark.parametrize(("memory", "hint"), [("out", "full of NaNs"), ("tile", "fill this")])
def test_reading_an_output_first_has_a_hint_of_its_own(answers, memory, hint):
    text = f"4 bytes at offset 0 of {memory}, which has 64 bytes"
    finding = report.Finding("uninitialised_read", block=(0, 0, 0), thread=(0, 0, 0), text=text)
    task = answers.task
    case = fixed_case(task, {"n": 16, "dtype": "float32"}, 0)
    result = answers.from_report(case, report.Report(findings=(finding,)))
    assert result.status is Status.uninitialised_read
    assert hint in result.hint


def test_an_assertion_of_host_code_is_named_at_its_line(answers):
    log = 'silu.cu:5: void silu(const float*, int): Assertion `n % 4 == 0 && "whole"\' failed.\n'
    died = Death(Cause.signalled, "killed by SIGABRT", signal=6, log=log)
    result = answers.from_death(None, died)
    assert (result.status, result.line) == (Status.crashed, 5)
    assert result.verdict.what == 'an assertion in host code fails: n % 4 == 0 && "whole".'
