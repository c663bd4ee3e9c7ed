"""A kernel under ballast: what holds a matrix runs out of memory, what doesn't passes."""

from __future__ import annotations

import pytest

from grader import ballast
from grader.calibration import corpus
from grader.cases import fixed_case
from grader.compare import Verdict
from grader.evidence import MemoryEvidence, Metric
from grader.grade import Session
from grader.runner import CaseResult
from grader.spec import load_all
from grader.status import Status

FLASH = load_all()["flash_attention"]
VARIANT = FLASH.variants["triton"]
SEEN = MemoryEvidence(Status.passed, case="counted", metrics=(Metric("growth.tile", 1.0),))


class Runner:
    """Answers with one status, and notes what it was asked."""

    def __init__(self, status, what=""):
        self.verdict = Verdict(status, what)

    def run_after(self, first, case, between):
        self.first, self.case = first, case
        between()
        return CaseResult(case, self.verdict)


@pytest.fixture
def taken(monkeypatch):
    sizes = []
    monkeypatch.setattr(ballast, "_take", lambda _, leaves, held: sizes.append(leaves))
    return sizes


def test_what_runs_under_ballast_keeps_what_was_counted(taken):
    runner = Runner(Status.passed)
    found = ballast.look(None, runner, FLASH, VARIANT, 7, SEEN)
    assert (found.status, found.case) == (Status.passed, "counted")
    assert [each.name for each in found.metrics] == ["growth.tile", "ballast"]
    assert taken == [8192 * 8192]
    assert runner.first == fixed_case(FLASH, VARIANT, VARIANT.memory.case, 7)
    assert runner.case == fixed_case(FLASH, VARIANT, VARIANT.memory.ballast.case, 7)


def test_the_memory_left_is_less_than_the_scores_would_take():
    case = VARIANT.memory.ballast.case
    leaves = VARIANT.memory.ballast.leaves.evaluate({**case, "itemsize": 2})
    rows = case["Z"] * case["H"] * (case["N_CTX"] + case["N_KV"]) * 2 * case["HEAD_DIM"] * 2
    assert 8 * rows < leaves < case["N_CTX"] * case["N_KV"] * 2


def test_running_out_of_memory_misses_the_target(taken):
    runner = Runner(Status.out_of_memory, "the GPU has no memory left.")
    found = ballast.look(None, runner, FLASH, VARIANT, 7, SEEN)
    assert found.status is Status.target_missed
    assert found.reason.startswith("on a GPU with 64 MiB free: the GPU has no memory left. ")


def test_another_failure_stays_what_it_is(taken):
    found = ballast.look(None, Runner(Status.wrong_values, "out is 1."), FLASH, VARIANT, 7, SEEN)
    assert found.status is Status.wrong_values


def under_ballast(folder):
    with Session(folder, {"flash_attention": FLASH}, device="cuda") as session:
        return session.memory(FLASH, VARIANT)


@pytest.mark.gpu
def test_on_a_gpu_the_solution_runs_under_ballast():
    found = under_ballast(corpus.REFERENCE)
    assert found.status in (Status.passed, Status.not_measured), found  # as counting went
    assert "ballast" in [each.name for each in found.metrics]


@pytest.mark.gpu
def test_on_a_gpu_what_keeps_the_scores_runs_out_of_memory(tmp_path):
    [submission] = [
        each
        for each in corpus.load("wrong")
        if each.name == "keeps_the_scores" and each.exercise == "flash_attention"
    ]
    submission.write(tmp_path / "submission")
    found = under_ballast(tmp_path / "submission")
    assert found.status is Status.target_missed, found
    assert "64 MiB free" in found.reason
