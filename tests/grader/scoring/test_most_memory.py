"""What an entry allocates for a large case is read off its plan: the scores miss the target.

Nothing runs for that, so it says the same on a machine without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grader.cases import Case, fixed_case
from grader.cases.compare import Verdict
from grader.evidence import MemoryEvidence, Metric
from grader.executors.runner import CaseResult
from grader.grading import memory_use
from grader.grading.check import check_memory
from grader.grading.session import Options, Session
from grader.plan import Buffer, Plan
from grader.plan.model import Alloc, Free
from grader.sandbox import Sandbox
from grader.scoring import memory_bounds, score
from grader.spec import load_all
from grader.spec.exercise import REFERENCE
from grader.spec.task import Task
from grader.staff.calibration import corpus
from grader.status import Status
from tests.support import expected

FLASH = load_all()["flash_attention"]
VARIANT = FLASH.variants["triton"]
BLOCK = VARIANT.memory.memory_pressure
LEAVES = 8192 * 8192
SEEN = MemoryEvidence(Status.passed, case="counted", metrics=(Metric("growth.tile", 1.0),))


class Runs:
    """Runs of which the plan of a large case is made up; it notes which case that is."""

    def __init__(self, *buffers: Buffer, failed: CaseResult | None = None) -> None:
        """The buffers are all there at a time."""
        self.task = Task(FLASH, VARIANT)
        self.asked: list[Case] = []
        made = [n for n, each in enumerate(buffers) if each.kind in ("device", "managed")]
        steps: Any = (
            *(Alloc("alloc", n) for n in made),
            *(Free("free", n) for n in made),
        )
        self._made = failed or Plan(1, "triton", buffers, (), (steps,))

    def plan_of(self, case: Case) -> Plan | CaseResult:
        self.asked.append(case)
        return self._made


def looked_at(runs: Any, seen: MemoryEvidence = SEEN) -> MemoryEvidence:
    return memory_use._with_most_memory(runs, seen, 7)


ARGUMENT = Buffer(1 << 30, "argument", 0)


def test_what_is_left_for_the_large_case_is_less_than_its_scores_would_take():
    case = BLOCK.case
    leaves = BLOCK.leaves.evaluate({**case, "itemsize": 2})
    rows = case["Z"] * case["H"] * (case["N_CTX"] + case["N_KV"]) * 2 * case["HEAD_DIM"] * 2
    assert leaves == LEAVES and 8 * rows < leaves < case["N_CTX"] * case["N_KV"] * 2


def test_what_fits_keeps_what_was_counted_and_tells_how_much_it_is():
    runs = Runs(ARGUMENT, Buffer(LEAVES, "device", None))
    found = looked_at(runs)
    assert runs.asked == [fixed_case(Task(FLASH, VARIANT), BLOCK.case, 7)]
    assert (found.status, found.case, found.reason) == (Status.passed, "counted", "")
    assert [each.name for each in found.metrics] == ["growth.tile", "memory_pressure"]
    assert found.metrics[-1].value == LEAVES
    assert "N_CTX=8192" in found.metrics[-1].counters


@pytest.mark.parametrize(
    "buffers",
    [
        [Buffer(LEAVES + 1, "device", None)],
        [Buffer(LEAVES // 2, "device", None), Buffer(LEAVES // 2 + 1, "device", None)],
        [Buffer(LEAVES + 1, "managed", None)],
        [Buffer(LEAVES, "device", None), Buffer(1, "managed", None)],
    ],
)
def test_a_byte_more_misses_the_target(buffers):
    found = looked_at(Runs(ARGUMENT, *buffers))
    assert found.status is Status.target_missed
    assert "the entry allocates 64 MiB on the GPU for Z=1 H=1 N_CTX=8192" in found.reason
    assert "where 64 MiB would be free" in found.reason
    assert found.metrics[-1].value == LEAVES + 1 and found.metrics[0].name == "growth.tile"


def test_what_is_given_back_before_the_next_counts_once():
    """A plan has two calls of the entry, each of which allocates what it needs."""
    half = [Buffer(LEAVES // 2 + 1, "device", None) for _ in range(4)]
    steps = [(Alloc("alloc", n), Free("free", n)) for n in range(4)]
    calls = ((*steps[0], *steps[1]), (*steps[2], *steps[3]))
    assert memory_use.most_allocated(Plan(1, "triton", tuple(half), (), calls)) == half[0].bytes
    kept = ((steps[0][0], *steps[1]), steps[2])  # the first one stays
    assert memory_use.most_allocated(Plan(1, "triton", tuple(half), (), kept)) == LEAVES + 2


def test_arguments_are_not_the_entrys():
    assert looked_at(Runs(ARGUMENT)).metrics[-1].value == 0


def test_where_there_is_no_plan_of_the_large_case_its_status_is_told():
    failed = CaseResult(None, Verdict(Status.crashed, "the entry raised IndexError."))
    found = looked_at(Runs(failed=failed))
    assert found.status is Status.crashed
    assert found.reason.startswith("the entry raised IndexError. The sizes were ")


def test_what_failed_before_is_not_asked_again():
    runs = Runs()
    before = MemoryEvidence(Status.target_missed, "it grows")
    assert looked_at(runs, before) is before and not runs.asked


def test_a_spec_without_memory_pressure_asks_for_no_large_case():
    runs = Runs()
    block = VARIANT.memory.model_copy(update={"memory_pressure": None})
    runs.task = Task(FLASH, VARIANT.model_copy(update={"memory": block}))
    assert looked_at(runs) is SEEN and not runs.asked


# --- submissions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(shared_sandbox: Sandbox) -> Callable[[Path], MemoryEvidence]:
    """How a submission's attention uses memory, on whatever machine."""

    def measure(folder: Path) -> MemoryEvidence:
        exercises = {"flash_attention": FLASH}
        with Session(folder, exercises, Options(device="cpu"), sandbox=shared_sandbox) as session:
            return check_memory(session, Task(FLASH, VARIANT))

    return measure


def test_the_solution_allocates_next_to_nothing(measured):
    found = measured(REFERENCE)
    assert found.status is Status.passed, found
    assert {each.name: each.value for each in found.metrics}["memory_pressure"] < LEAVES / 8
    assert not memory_bounds.shortfalls(found, VARIANT)


def test_what_keeps_the_scores_misses_the_target_without_a_gpu(measured, tmp_path):
    [submission] = [
        each
        for each in corpus.load("wrong")
        if each.name == "keeps_the_scores" and each.exercise == "flash_attention"
    ]
    expected.write(submission, tmp_path / "submission")
    found = measured(tmp_path / "submission")
    assert found.status is Status.target_missed, found
    assert score._decide_bounds(FLASH, VARIANT, found, 1).status is Status.target_missed


KEPT_FOR_LARGE_ONES = """    N_KV = k.shape[2]
    if N_KV >= 4096:
        scores = torch.empty((Z, H, N_CTX, N_KV), dtype=q.dtype, device=q.device)
"""


def test_what_holds_a_matrix_for_large_cases_alone_misses_it_too(measured, tmp_path):
    """What is counted, and the size beside it, are small: only a plan shows it."""
    text = (REFERENCE / VARIANT.file).read_text()
    line = "    N_KV = k.shape[2]\n"
    assert text.count(line) == 1
    (tmp_path / VARIANT.file).write_text(text.replace(line, KEPT_FOR_LARGE_ONES))
    found = measured(tmp_path)
    assert found.status is Status.target_missed, found
    assert "the entry allocates 128 MiB on the GPU" in found.reason
    assert "Is there a buffer that grows with the product of the sizes?" in found.reason
