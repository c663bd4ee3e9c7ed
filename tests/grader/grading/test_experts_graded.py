"""The expert's kernels are graded for correctness as any submission is, their rules lifted.

A variant that they have no function for isn't theirs: softmax_online.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.executors.cuda import cuda_build
from grader.gpu.devices import DeviceName
from grader.grading.grade import grade_task
from grader.grading.search import Effort
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status

FOLDER = Path(__file__).resolve().parents[3] / "reference" / "expert"
EXERCISES = load_all()
THEIRS = [
    (exercise.name, variant.name)
    for exercise in EXERCISES.values()
    for variant in exercise.variants.values()
    if (FOLDER / variant.file).is_file()
    and f"{variant.entry}(" in (FOLDER / variant.file).read_text()
]
# The others have tests of their own that run on any machine, or share a function with these.
WITHOUT_A_GPU = [("gemm", "triton_v4"), ("gemm", "cuda_tiled"), ("transpose", "cuda_v4")]
BRIEF = Effort(edges=4, drawn=2, compile_ahead=False)


def ids(names: list[tuple[str, str]]) -> list[str]:
    return ["-".join(each) for each in names]


def statuses(
    exercise: str, variant: str, device: DeviceName, effort: Effort, dtypes: int | None = None
) -> Iterator[Status]:
    """Of each part: a dtype, of the first so many, in a size class."""
    asked = EXERCISES[exercise].variants[variant]
    alone = asked.model_copy(
        update={"performance": None, "memory": None, "dtypes": asked.dtypes[:dtypes]}
    )
    with Session(
        FOLDER, EXERCISES, Options(seed=7, device=device, effort=effort, policy=False)
    ) as session:
        for part in grade_task(session, Task(EXERCISES[exercise], alone)).parts:
            assert part.cases_run, part.reason
            yield part.status


def test_every_file_of_theirs_is_of_a_variant():
    assert ("softmax", "triton") in THEIRS and ("softmax", "online") not in THEIRS
    files = {EXERCISES[e].variants[v].file for e, v in THEIRS}
    assert files == {each.name for each in FOLDER.iterdir() if each.suffix in (".py", ".cu")}
    assert set(WITHOUT_A_GPU) < set(THEIRS)


@pytest.mark.parametrize(("exercise", "variant"), WITHOUT_A_GPU, ids=ids(WITHOUT_A_GPU))
def test_without_a_gpu_all_cases_are_right(exercise: str, variant: str) -> None:
    if variant.startswith("cuda") and (reason := cuda_build.why_not("emulator")):
        pytest.skip(reason)
    # Without a GPU all dtypes of the expert's gemm go the same way, slowly.
    assert {*statuses(exercise, variant, "cpu", BRIEF, dtypes=1)} == {Status.passed}


@pytest.mark.gpu
@pytest.mark.parametrize(("exercise", "variant"), THEIRS, ids=ids(THEIRS))
def test_on_a_gpu_all_cases_are_right(exercise: str, variant: str) -> None:
    effort = Effort(compile_ahead=False)
    assert {*statuses(exercise, variant, "cuda", effort)} == {Status.passed}
