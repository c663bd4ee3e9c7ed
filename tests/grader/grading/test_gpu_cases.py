"""Which cases a GPU is shown, and when: with a stand-in for the runner there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from grader.cases import Case, Space
from grader.cases.compare import Verdict
from grader.evidence import PartEvidence
from grader.executors.registry import Runners
from grader.executors.runner import CaseResult
from grader.gpu import locks
from grader.grading.check import LEAST_ON_A_GPU, check_part, chosen_for_a_gpu
from grader.grading.search import Effort, spread
from grader.grading.session import Options, Session
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status

ROOT = Path(__file__).resolve().parents[3]
EXERCISES = load_all()
SOFTMAX = EXERCISES["softmax"]
RIGHT = (ROOT / "reference" / "softmax.py").read_text()
ASSEMBLY = (
    'tl.inline_asm_elementwise("mov.b32 $0, %smid;", "=r,r", [tl.program_id(0)], '
    "dtype=tl.int32, is_pure=True, pack=1)"
)
EFFORT = Effort(
    edges=12, drawn=3, shrink_runs=0, probe_seconds=0.0, reruns=1, enough=1, repair_seconds=0
)


class OnGpu:
    """Finds every case right, and keeps what it was asked."""

    on_gpu = True

    def __init__(self, source: str) -> None:
        self.source = source
        self.asked: list[Case] = []

    def expect(self, cases: Sequence[Case]) -> None:
        """It prepares nothing."""

    def run(self, case: Case) -> CaseResult:
        self.asked.append(case)
        return CaseResult(case, Verdict(Status.passed))

    def close(self) -> None:
        """Nothing to end."""


Observe = Callable[[str], tuple[PartEvidence, list[Case]]]


@pytest.fixture
def observe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Observe]:
    """The evidence on a part of softmax, as on a GPU, and the cases that the GPU was shown."""

    @contextlib.contextmanager
    def nobody_else(device: str) -> Iterator[Callable[[], None]]:
        yield lambda: None

    monkeypatch.setattr(locks, "shared_on", nobody_else)

    def observed(source: str) -> tuple[PartEvidence, list[Case]]:
        (tmp_path / "softmax.py").write_text(source)
        gpu = OnGpu(source)
        monkeypatch.setattr(Runners, "on_gpu", lambda *_: gpu)
        with Session(
            tmp_path, EXERCISES, Options(device="cuda", effort=EFFORT, policy=False)
        ) as session:
            variant = SOFTMAX.variants["triton"]
            return check_part(session, Task(SOFTMAX, variant), "float32", "ragged"), gpu.asked

    yield observed


def block_of(case: Case) -> int:
    """The one constant of the solution's kernel: the power of two that holds a row."""
    return 1 << (dict(case.sizes)["cols"] - 1).bit_length()


def test_each_set_of_constants_is_run_on_the_gpu(observe):
    part, shown = observe(RIGHT)
    space = Space(Task(SOFTMAX, SOFTMAX.variants["triton"]), "float32", "ragged", 2026)
    by_plan = spread(space.edges(), EFFORT.edges)
    assert part.status is Status.passed
    assert {block_of(case) for case in shown} >= {block_of(case) for case in by_plan}
    assert len(shown) == len(set(shown)) <= 6 + len({block_of(case) for case in shown}) + 4


@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_a_part_with_few_new_launches_meets_the_gpu_in_edge_cases_too(language):
    """And one with many meets it in those alone: each has kernels that are compiled first."""
    variant = EXERCISES["silu"].variants[language]
    space = Space(Task(EXERCISES["silu"], variant), "float32", "ragged", 2026)
    least, edges = LEAST_ON_A_GPU[language], space.edges()
    assert chosen_for_a_gpu(space, ()) == spread(edges, least)
    assert chosen_for_a_gpu(space, edges[1:2]) == [edges[1], *spread(edges, least - 1)]
    assert chosen_for_a_gpu(space, edges[:least]) == edges[:least]


def test_cuda_cases_are_first_met_by_kernel_and_size_of_its_blocks():
    task = Task(EXERCISES["rmsnorm"], EXERCISES["rmsnorm"].variants["cuda_matrix"])
    with Session(ROOT / "reference", EXERCISES, Options(device="cpu")) as session:
        space = Space(task, "float32", "ragged", 2026)
        runner = session.runners.planned(task)
        narrow, wide = space.edges()[0], space.edges()[-1]
        for case in (narrow, narrow, wide):
            assert runner.run(case).status is Status.passed
        assert runner.launches.take_first_met() == [narrow]
        assert runner.run(wide).status is Status.passed and not runner.launches.take_first_met()


def test_what_is_wrong_by_plan_is_not_run_on_the_gpu(observe):
    part, shown = observe(RIGHT.replace("tl.exp(", "2.0 * tl.exp(-", 1))
    assert part.status.is_failure and not shown


def test_what_no_plan_can_decide_is_run_on_the_gpu_in_all_cases(observe):
    part, shown = observe(RIGHT.replace("tl.program_id(0)", ASSEMBLY, 1) + "\nRARE = 977\n")
    assert part.status is Status.passed and len(shown) >= EFFORT.edges
    assert any(case.size("cols") == 977 for case in shown)  # a size that the text names
