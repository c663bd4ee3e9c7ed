"""Operations of torch that a spec allows, run on the CPU in the place of a GPU's library."""

from __future__ import annotations

import pytest

from grader.cases import parse
from grader.grading.check import check_case
from grader.grading.session import Options, Session, selected
from grader.spec import load_all
from grader.status import Status
from tests.support.small_exercise import ROOT

EXERCISES = load_all()


@pytest.mark.parametrize("cols", [1, 3, 16])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_product_reads_nothing_of_what_lies_between_padded_rows(dtype, cols):
    """It is NaN there. With an odd number of columns torch's own product reads it, on some CPUs."""
    (task,) = selected(EXERCISES, ["gemm/torch_v0"])
    text = f"M=33 N=125 K={cols} dtype={dtype} a.layout=row_padded b.layout=row_padded seed=7"
    case = parse(text, task, 7)
    with Session(ROOT / "reference", EXERCISES, Options(device="cpu")) as session:
        part = check_case(session, task, case)
    assert part.status is Status.passed, part.failures
