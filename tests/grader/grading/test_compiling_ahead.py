"""While parts are checked on a GPU, what will be timed is compiled: it is there when needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grader.cases import Case, fixed_case
from grader.evidence import PartEvidence, VariantEvidence
from grader.gpu import locks
from grader.grading import parallel
from grader.grading.measure import compile_ahead
from grader.grading.session import Options, Session, selected
from grader.spec import Variant, load_all
from grader.spec.task import Task
from grader.status import Status
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import FromPlans
from grader.timing.failures import TimingFailed
from grader.worker.protocol import Argument
from tests.support.small_exercise import ROOT

EXERCISES = load_all()
RMSNORM = EXERCISES["rmsnorm"]
SMALL = {"rows": 16, "cols": 512, "dtype": "float32"}
REFERENCE = ROOT / "reference"


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    """Locks of this test's own, on a GPU that isn't there."""
    monkeypatch.setattr(locks.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(locks, "_held", {})
    monkeypatch.setenv(locks.VISIBLE, "0")


def on_cases(*cases: dict) -> Variant:
    """rmsnorm in Triton, timed on small cases."""
    before = RMSNORM.variants["triton"]
    changed = before.performance.model_copy(update={"case": cases[0], "cases": cases})
    return before.model_copy(update={"performance": changed})


@pytest.fixture
def planned(monkeypatch) -> list[str]:
    """The cases whose kernels were compiled, as they are for the clock."""
    seen: list[str] = []
    real = FromPlans.documents

    def documents(plans: FromPlans, case: Case, arguments: Sequence[Argument]) -> Sequence[bytes]:
        made = real(plans, case, arguments)
        assert made and all(made)
        seen.append(str(case))
        return made

    monkeypatch.setattr(FromPlans, "documents", documents)
    return seen


def compiled(submission: Path, variant: Variant, is_over=lambda: False) -> None:
    # Without a GPU nothing is compiled ahead by itself; plans need none.
    with Session(submission, EXERCISES, Options(device="interpreter")) as session:
        compile_ahead(session, Task(RMSNORM, variant), is_over)


def test_each_case_that_is_timed_is_compiled_once(planned):
    compiled(REFERENCE, on_cases(SMALL, {**SMALL, "cols": 100}))
    assert [case.split(" seed")[0] for case in planned] == [
        "rows=16 cols=512 dtype=float32",
        "rows=16 cols=100 dtype=float32",
    ]


def test_it_ends_when_the_clock_is_to_begin(planned):
    over = iter([False, True])
    compiled(REFERENCE, on_cases(SMALL, {**SMALL, "cols": 100}), lambda: next(over))
    assert len(planned) == 1


def test_the_clock_finds_the_cubins_that_were_made_before(planned):
    variant = on_cases(SMALL)
    with Session(REFERENCE, EXERCISES, Options(device="interpreter")) as session:
        compile_ahead(session, Task(RMSNORM, variant), lambda: False)
        plans = session.runners.plans_of(Task(RMSNORM, variant))
        case = fixed_case(RMSNORM, variant, SMALL, session.seed)
        asked: list[str] = []
        real = plans.compiled_steps
        plans.compiled_steps = lambda *given: asked.append("compiled") or real(*given)
        session.stopwatch.planned(RMSNORM, variant).prepare(case)
        assert not asked  # nothing is compiled again
        FromPlans(plans).documents(case, Layout.of(RMSNORM, variant, case).arguments(0))
        assert asked


def test_nothing_is_compiled_of_what_is_not_attempted(planned):
    compiled(ROOT / "assignment", on_cases(SMALL))
    assert not planned


def test_what_goes_wrong_is_told_by_the_clock_later(planned, tmp_path, monkeypatch):
    text = (REFERENCE / "rmsnorm.py").read_text()
    (tmp_path / "rmsnorm.py").write_text(text.replace("rows, cols = x.shape", "rows, cols = None"))
    compiled(tmp_path, on_cases(SMALL))
    assert not planned

    def failing(*_: object, **__: object) -> None:
        raise TimingFailed("it hung", Status.timed_out)

    monkeypatch.setattr(FromPlans, "documents", failing)
    compiled(REFERENCE, on_cases(SMALL))


# --- beside the checks ----------------------------------------------------------------------------


def evidence(status: Status) -> VariantEvidence:
    part = PartEvidence("float32", "ragged", status)
    return VariantEvidence("rmsnorm", "triton", "rmsnorm.py", parts=(part,))


@pytest.fixture
def session(monkeypatch) -> Any:
    """A session on a GPU that isn't there, which notes what it is to compile."""
    made: Any = Session(REFERENCE, EXERCISES, Options(device="cuda"))
    made.asked = []
    made.going_on = threading.Event()

    def compile_ahead(session, task, is_over) -> None:
        made.asked.append(str(task))
        made.going_on.wait(10.0)
        made.over = is_over()

    monkeypatch.setattr(parallel, "compile_ahead", compile_ahead)
    return made


def test_it_goes_on_beside_the_checks_and_the_clock_waits_for_its_end(session):
    tasks = selected(EXERCISES, ["rmsnorm", "gemm"])
    before = {*threading.enumerate()}
    with parallel.compiling_ahead(session, tasks, {}):
        [beside] = {*threading.enumerate()} - before
        session.going_on.set()
    assert not beside.is_alive()
    assert session.asked[0] == "gemm/cuda_tiled" and len(session.asked) == len(tasks)


def test_what_was_found_wrong_is_left_out(session):
    tasks = selected(EXERCISES, ["rmsnorm"])
    session.going_on.set()
    wrong = {0: evidence(Status.wrong_values), 1: evidence(Status.passed)}
    with parallel.compiling_ahead(session, tasks, wrong):
        pass
    assert "rmsnorm/triton" not in session.asked and len(session.asked) == len(tasks) - 1


def test_who_interrupts_a_grade_does_not_wait(session):
    tasks = selected(EXERCISES, ["rmsnorm/triton"])
    with pytest.raises(KeyboardInterrupt), parallel.compiling_ahead(session, tasks, {}):
        raise KeyboardInterrupt
    session.going_on.set()  # the end of its sandbox, in a grade


def test_without_a_gpu_nothing_is_compiled_ahead():
    with Session(REFERENCE, EXERCISES, Options(device="interpreter")) as session:
        before = {*threading.enumerate()}  # some of which may end meanwhile
        with parallel.compiling_ahead(session, selected(EXERCISES, ["rmsnorm/triton"]), {}):
            assert not {*threading.enumerate()} - before
