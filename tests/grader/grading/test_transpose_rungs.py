"""The ladder of transposes: a better kernel earns the lower rungs too, a worse one does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.executors.cuda import cuda_build
from grader.grading.check import check_memory, check_part
from grader.grading.session import Options, Session
from grader.scoring import memory_bounds
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status

ROOT = Path(__file__).resolve().parents[3]
EXERCISE = load_all()["transpose"]
RUNGS = (1, 2, 3, 4)

pytestmark = pytest.mark.skipif(
    bool(cuda_build.why_not("emulator")), reason=cuda_build.why_not("emulator")
)


@pytest.fixture(scope="module", params=RUNGS, ids=lambda rung: f"solution_of_v{rung}")
def solution(request, tmp_path_factory):
    """One solution handed in for every rung."""
    text = (ROOT / "reference" / "transpose.cu").read_text()
    mine = f"transpose_v{request.param}"
    others = [f"transpose_v{rung}" for rung in RUNGS if f"transpose_v{rung}" != mine]
    for other in others:  # the other solutions go out of the way
        text = re.sub(rf"\b{other}\b", f"unused_{other}", text)
    signature = re.search(rf"void {mine}\(([^)]*)\)", text)[1]
    names = ", ".join(each.split()[-1].lstrip("*") for each in signature.split(","))
    for other in others:
        text += f'\nextern "C" void {other}({signature}) {{ {mine}({names}); }}\n'
    folder = tmp_path_factory.mktemp("rung")
    (folder / "transpose.cu").write_text(text)
    with Session(folder, {"transpose": EXERCISE}, Options(check_with_nvcc=False)) as session:
        yield request.param, session


@pytest.mark.parametrize("rung", RUNGS)
def test_a_solution_earns_the_memory_points_of_its_rung_and_below(solution, rung):
    which, session = solution
    variant = EXERCISE.variants[f"cuda_v{rung}"]
    if variant.memory is None:
        assert rung == 1, "only the first rung asks nothing of memory"
        part = check_part(session, Task(EXERCISE, variant), "float32", "ragged")
        assert part.status is Status.passed
        return
    seen = check_memory(session, Task(EXERCISE, variant))
    assert seen.status is Status.passed, seen
    missed = memory_bounds.shortfalls(seen, variant)
    assert (not missed) == (rung <= which), missed
