"""While parts are checked on a GPU, what will be timed is compiled: it is there when needed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from grader import gpu_turns, side_by_side
from grader.cases import Case
from grader.evidence import PartEvidence, VariantEvidence
from grader.session import Session
from grader.spec import Variant, load_all
from grader.status import Status
from grader.timing.contenders import FromPlans
from tests.grader.small_exercise import ROOT

EXERCISES = load_all()
RMSNORM = EXERCISES["rmsnorm"]
SMALL = {"rows": 16, "cols": 512, "dtype": "float32"}
REFERENCE = ROOT / "reference"


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    """Locks of this test's own, on a GPU that isn't there."""
    monkeypatch.setattr(gpu_turns.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(gpu_turns, "_held", {})
    monkeypatch.setenv(gpu_turns.VISIBLE, "0")


def on_cases(*cases: dict) -> Variant:
    """rmsnorm in Triton, timed on small cases."""
    before = RMSNORM.variants["triton"]
    changed = before.performance.model_copy(update={"case": cases[0], "cases": cases})
    return before.model_copy(update={"performance": changed})


@pytest.fixture
def documents(monkeypatch) -> list[tuple[Case, bytes]]:
    """The cases that were compiled for, and what an executor on a GPU would be given."""
    seen: list[tuple[Case, bytes]] = []
    real = FromPlans.documents

    def spied(self, case: Case, arguments):
        made = real(self, case, arguments)
        seen.append((case, made))
        return made

    monkeypatch.setattr(FromPlans, "documents", spied)
    return seen


def compiled(submission: Path, variant: Variant, is_over=lambda: False) -> None:
    with Session(submission, EXERCISES, device="cuda") as session:
        session.compile_ahead(RMSNORM, variant, is_over)


def test_each_case_that_is_timed_is_compiled_for(documents):
    compiled(REFERENCE, on_cases(SMALL, {**SMALL, "cols": 100}))
    assert [str(case).split(" seed")[0] for case, _ in documents] == [
        "rows=16 cols=512 dtype=float32",
        "rows=16 cols=100 dtype=float32",
    ]
    assert all(made for _, made in documents)


def test_it_ends_when_the_clock_is_to_begin(documents):
    over = iter([False, True])
    compiled(REFERENCE, on_cases(SMALL, {**SMALL, "cols": 100}), lambda: next(over))
    assert len(documents) == 1


def test_nothing_is_compiled_of_what_is_not_attempted(documents):
    compiled(ROOT / "assignment", on_cases(SMALL))
    assert not documents


def test_what_goes_wrong_is_told_by_the_clock_later(documents, tmp_path):
    text = (REFERENCE / "rmsnorm.py").read_text()
    (tmp_path / "rmsnorm.py").write_text(text.replace("rows, cols = x.shape", "rows, cols = None"))
    compiled(tmp_path, on_cases(SMALL))
    assert not documents


# --- beside the checks ----------------------------------------------------------------------------


def evidence(status: Status) -> VariantEvidence:
    part = PartEvidence("float32", "ragged", status)
    return VariantEvidence("rmsnorm", "triton", "rmsnorm.py", parts=(part,))


@pytest.fixture
def session(monkeypatch) -> Session:
    """A session on a GPU that isn't there, which notes what it is to compile."""
    made = Session(REFERENCE, EXERCISES, device="cuda")
    made.asked = []
    made.going_on = threading.Event()

    def compile_ahead(exercise, variant, is_over) -> None:
        made.asked.append(f"{exercise.name}/{variant.name}")
        made.going_on.wait(10.0)
        made.over = is_over()

    monkeypatch.setattr(made, "compile_ahead", compile_ahead)
    return made


def test_it_goes_on_beside_the_checks_and_the_clock_waits_for_its_end(session):
    pairs = [(e, v) for e in (RMSNORM, EXERCISES["gemm"]) for v in e.variants.values()]
    before = threading.active_count()
    with side_by_side.compiling_ahead(session, pairs, {}):
        assert threading.active_count() == before + 1
        session.going_on.set()
    assert threading.active_count() == before
    assert session.asked[0] == "gemm/cuda_tiled" and len(session.asked) == len(pairs)


def test_what_was_found_wrong_is_left_out(session):
    pairs = [(RMSNORM, variant) for variant in RMSNORM.variants.values()]
    session.going_on.set()
    wrong = {0: evidence(Status.wrong_values), 1: evidence(Status.passed)}
    with side_by_side.compiling_ahead(session, pairs, wrong):
        pass
    assert "rmsnorm/triton" not in session.asked and len(session.asked) == len(pairs) - 1


def test_who_interrupts_a_grade_does_not_wait(session):
    pairs = [(RMSNORM, RMSNORM.variants["triton"])]
    with pytest.raises(KeyboardInterrupt), side_by_side.compiling_ahead(session, pairs, {}):
        raise KeyboardInterrupt
    session.going_on.set()  # the end of its sandbox, in a grade


def test_without_a_gpu_nothing_is_compiled_ahead():
    with Session(REFERENCE, EXERCISES, device="interpreter") as session:
        before = threading.active_count()
        with side_by_side.compiling_ahead(session, [(RMSNORM, RMSNORM.variants["triton"])], {}):
            assert threading.active_count() == before
