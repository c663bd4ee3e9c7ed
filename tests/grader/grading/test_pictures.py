"""A failing case's picture: which elements are wrong, who wrote them, and who met in a race."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from grader import evidence
from grader.cases import parse
from grader.emulator.report import Finding, place_of, touches_of
from grader.evidence import Evidence, Failure, Picture, Touch
from grader.grading.check import check_case
from grader.grading.pictures import CELLS, _map
from grader.grading.session import Options, Session, selected
from grader.report.picture import drawn
from grader.sandbox import Sandbox
from grader.spec import load_all
from tests.support.small_exercise import ROOT

TALE = "    tl.store(out_ptr + row * stride_om + offs, y / tl.sum(y, axis=0), mask=mask)"


@pytest.fixture(scope="module")
def session(shared_sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory):
    """A session on a softmax whose second row is wrong, and a silu that stores one too many."""
    folder = tmp_path_factory.mktemp("wrong")
    softmax = (ROOT / "reference" / "softmax.py").read_text()
    assert TALE in softmax
    wrong = TALE.replace("y / tl.sum(y, axis=0)", "y / tl.sum(y, axis=0) + (row == 1) * 0.5")
    (folder / "softmax.py").write_text(softmax.replace(TALE, wrong))
    silu = (ROOT / "reference" / "silu.py").read_text()
    (folder / "silu.py").write_text(silu.replace("offs < n_elements", "offs < n_elements + 1"))
    options = Options(device="cpu", keeps_builds=False)
    with Session(folder, load_all(), options, sandbox=shared_sandbox) as opened:
        yield opened


def failure(session: Session, name: str, text: str) -> Failure:
    (task,) = selected(session.exercises, [name])
    return check_case(session, task, parse(text, task, 1)).failures[0]


def test_wrong_values_show_where_and_by_whom(session: Session):
    found = failure(session, "softmax/triton", "rows=4 cols=40").picture
    assert found is not None and (found.tensor, found.wrong) == ("out", 40)
    assert found.cell == (1, 2) and found.shape == (4, 40)
    assert found.rows == ("." * 20, "x" * 20, "." * 20, "." * 20)
    assert found.writers == (("program (1, 0, 0)", 40),)


def test_a_stray_access_shows_the_program_and_the_address(session: Session):
    found = failure(session, "silu/triton", "n=1000").picture
    (line,) = [
        n for n, text in enumerate(Path(session.submission / "silu.py").read_text().splitlines(), 1)
        if "tl.store(" in text and "#|" not in text and "# " not in text
    ]  # fmt: skip
    assert found == Picture(
        "out", touches=(Touch("program (0, 0, 0)", "writes", line),), offset=4000, size=4000
    )


def test_a_race_of_the_emulator_has_both_threads_and_the_address():
    place = "4 bytes at offset 32 of tile, which has 4096 bytes of shared memory"
    who = ((1, 0, 0), (3, 0, 0), (1, 0, 0), (4, 0, 0))
    race = Finding("race", 1, 2, 1, *who, f"{place} (a write after a read)")
    assert place_of(race) == ("tile", 4096, 32)
    assert touches_of(race, 10, 20) == (
        ("thread (3,0,0) of block (1,0,0)", "writes", 10),
        ("thread (4,0,0) of block (1,0,0)", "reads", 20),
    )
    before = "4 bytes, 8 bytes before the start of in, which has 64 bytes"
    assert place_of(Finding("out_of_bounds_read", text=before)) == ("in", 64, -8)
    assert place_of(Finding("out_of_bounds_read", text="4 bytes through a null pointer")) is None


@pytest.mark.parametrize("shape", [(5000,), (1, 70), (300, 3), (2, 3, 40), (1,)])
def test_a_map_is_small_and_marks_each_cell_with_a_wrong_element(shape: tuple[int, ...]):
    wrong = torch.zeros(shape, dtype=torch.bool)
    wrong.view(-1)[-1] = True
    made = _map("out", shape, wrong, ())
    assert len(made.rows) <= CELLS and max(map(len, made.rows)) <= CELLS
    assert made.wrong == 1 and "".join(made.rows).count("x") == 1
    every = _map("out", shape, ~torch.zeros(shape, dtype=torch.bool), ())
    marked = "".join(every.rows).count("x") * every.cell[0] * every.cell[1]
    assert marked >= wrong.numel()


def test_a_picture_is_drawn_in_few_bytes_and_old_evidence_opens():
    worst = Picture("out", (32, 32), rows=tuple(("x." * 16, ".x" * 16)[n % 2] for n in range(32)))
    shown = drawn(worst)
    assert shown is not None and len(shown["path"]) < 10_000
    assert shown["path"].startswith("M0 0h1v1h-1z") and shown["path"].count("M") == 512
    before = drawn(Picture("x", touches=(Touch("program (0, 0, 0)", "loads"),), offset=-8, size=64))
    assert (
        before is not None and before["is_outside"] and before["words"].startswith("8 bytes before")
    )
    assert drawn(None) is None and drawn(Picture()) is None
    text = evidence.to_json(Evidence("s", 1, ()))
    assert evidence.from_json(text) == Evidence("s", 1, ())
