"""The rules of the assignment and the sandbox, as grading applies them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from grader.cli.app import app
from grader.evidence import Evidence
from grader.executors.cuda import cuda_build
from grader.grading.check import check_part
from grader.grading.grade import grade, grade_task
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.sandbox.confinement import Confinement, ConfinementError, Level, Offer
from grader.scoring.score import score
from grader.spec import load_all
from grader.spec.blocks import Policy
from grader.spec.task import Task
from grader.status import Status
from tests.support.small_exercise import ROOT
from tests.support.standin import grade_class

EXERCISES = load_all()
SILU = EXERCISES["silu"]
BRIEF = Effort(edges=2, drawn=0, repair_seconds=0)
LIBRARY = """
import torch

def silu(x, out):
    out.copy_(torch.nn.functional.silu(x))
"""
SNEAKY = """
#include <cstdlib>
#include <torch/all.h>

extern "C" void silu(const float* input, float* output, int n) {
    system("true");
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "submission"
    path.mkdir()
    return path


def test_what_breaks_a_rule_on_cuda_earns_nothing_and_nothing_of_it_is_compiled(
    folder: Path, monkeypatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was compiled")

    monkeypatch.setattr(cuda_build, "begin", never)
    (folder / "silu.cu").write_text(SNEAKY)
    with Session(folder, EXERCISES, Options(device="cpu")) as session:
        variant = grade_task(session, Task(SILU, SILU.variants["cuda"]))
    assert {part.status for part in variant.parts} == {Status.policy_violation}
    failure = variant.parts[0].failures[0]
    assert (failure.where, failure.observed_by) == ("silu.cu:3", "grader")
    assert "a library's kernels would do the work" in failure.what
    assert "silu.cu:6: system is a service of the system" in failure.detail
    points = score(Evidence("sneaky", 7, (variant,), {}), EXERCISES)
    assert points.score == 0 < points.gradable


def test_what_python_names_is_no_violation_as_long_as_kernels_compute(folder: Path) -> None:
    right = (ROOT / "reference" / "silu.py").read_text()
    (folder / "silu.py").write_text(f"import numpy, os, sys\n{right}\nos.environ.get('HOME')\n")
    with Session(folder, EXERCISES, Options(device="cpu", effort=BRIEF)) as session:
        part = check_part(session, Task(SILU, SILU.variants["triton"]), "float32", "aligned")
    assert part.status is Status.passed, part


def test_what_is_lifted_may_break_the_rules_and_the_evidence_says_so(folder: Path) -> None:
    (folder / "silu.py").write_text(LIBRARY)
    with Session(folder, EXERCISES, Options(device="cpu", effort=BRIEF)) as session:
        part = check_part(session, Task(SILU, SILU.variants["triton"]), "float32", "aligned")
        assert part.status is Status.policy_violation
    with Session(
        folder, EXERCISES, Options(device="cpu", effort=BRIEF, lifted=("silu",))
    ) as session:
        part = check_part(session, Task(SILU, SILU.variants["triton"]), "float32", "aligned")
        assert part.status is Status.passed
        assert session.blank_evidence(Task(SILU, SILU.variants["triton"])).rules_lifted


@pytest.mark.parametrize(
    "policy", [Policy(torch=("nn.functional.silu", "copy_")), Policy(lifted=("torch",))]
)
def test_a_spec_can_allow_more(folder: Path, policy: Policy) -> None:
    (folder / "silu.py").write_text(LIBRARY)
    allowing = SILU.model_copy(update={"policy": policy})
    with Session(folder, {"silu": allowing}, Options(device="cpu", effort=BRIEF)) as session:
        part = check_part(
            session, Task(allowing, allowing.variants["triton"]), "float32", "aligned"
        )
    assert part.status is Status.passed, part


def test_what_pytorch_computed_is_told_at_its_line(folder: Path) -> None:
    (folder / "silu.py").write_text(LIBRARY)
    with Session(folder, EXERCISES, Options(device="cpu", effort=BRIEF)) as session:
        part = check_part(session, Task(SILU, SILU.variants["triton"]), "float32", "aligned")
    assert part.status is Status.policy_violation
    assert part.failures[0].where == "silu.py:5"


# --- where there is no sandbox -------------------------------------------------------------------


@pytest.fixture
def handed_in(folder: Path) -> Path:
    """A submission with a stub in it."""
    (folder / "silu.py").write_text("def silu(x, out):\n    raise NotImplementedError\n")
    return folder


@pytest.fixture
def unconfined(monkeypatch) -> None:
    """A machine that has neither bubblewrap nor Landlock."""

    def offer(level: Level, device: str) -> Offer:
        if level is Level.limits:
            return Offer(level, True)
        return Offer(level, False, f"there is no {level.value} here", "install it")

    monkeypatch.setattr("grader.sandbox.confinement._try", offer)


def test_a_required_sandbox_that_is_not_there_refuses_in_one_line(unconfined, handed_in) -> None:
    asked = CliRunner().invoke(app, ["grade", str(handed_in), "--require-sandbox"])
    assert isinstance(asked.exception, ConfinementError)
    assert "there is no bubblewrap here" in str(asked.exception)
    assert "there is no landlock here. install it" in str(asked.exception)
    assert "\n" not in str(asked.exception)


def test_a_class_is_not_graded_without_a_sandbox_unless_told_to(
    unconfined, folder, tmp_path, tmp_path_factory
) -> None:
    line = ["batch", str(folder.parent), "--out", str(tmp_path_factory.mktemp("refused"))]
    assert isinstance(CliRunner().invoke(app, line).exception, ConfinementError)
    with pytest.raises(ConfinementError):
        grade_class(folder.parent, tmp_path / "out", EXERCISES)
    _, book = grade_class(folder.parent, tmp_path / "out", EXERCISES, require_sandbox=False)
    assert [entry.student.id for entry in book.entries] == ["submission"]


def test_ones_own_work_runs_with_limits_only_and_the_report_says_so(unconfined, handed_in) -> None:
    evidence = grade(handed_in, EXERCISES, only=["silu"])
    assert evidence.environment["sandbox"] == "limits"
    assert not Confinement(Level.limits, "cpu", (), ()).is_enough
    shown = CliRunner().invoke(app, ["grade", str(handed_in), "--only", "silu"])
    assert "no final grade" in " ".join(shown.output.split())


def test_lifting_an_unknown_name_is_refused(handed_in) -> None:
    shown = CliRunner().invoke(app, ["grade", str(handed_in), "--lift", "silo"])
    assert shown.exit_code == 2
