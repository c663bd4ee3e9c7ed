"""While a worker runs a case, the grader makes the next case's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grader.cases import inputs, oracle
from grader.cases.arena import Arena
from grader.cases.oracle import OracleError
from grader.grading.session import Options, Session
from grader.sandbox.worker_process import Worker
from grader.spec import load_all
from grader.spec.task import Task
from grader.worker.protocol import Operation
from tests.support.planned import case

EXERCISES = load_all()
REFERENCE = Path(__file__).resolve().parents[3] / "reference"
CASES = [case("float32", n=n) for n in (100, 257, 3)]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, in order."""
    seen: list[str] = []

    def noted(owner: Any, name: str, word: Any) -> None:
        original = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            if said := word(*given):
                seen.append(said)
            return original(*given, **named)

        monkeypatch.setattr(owner, name, call)

    def posted(worker: Worker, operation: Operation, *_: Any) -> str:
        return "posted" if operation is Operation.execute else ""

    noted(Worker, "post", posted)
    noted(Arena, "collect", lambda *_: "answered")
    noted(oracle.Oracle, "truths", lambda *_: "truths")
    noted(inputs, "make", lambda task, case: f"inputs of {dict(case.sizes)['n']}")
    return seen


@pytest.mark.parametrize("variant", ["triton", "cuda"])
def test_they_are_made_while_the_worker_is_busy(events: list[str], variant: str) -> None:
    task = Task(EXERCISES["silu"], EXERCISES["silu"].variants[variant])
    with Session(REFERENCE, EXERCISES, Options(device="cpu")) as session:
        [runner] = session.runners.of(task)
        runner.once(CASES[-1])  # starts processes
        runner.expect(CASES)
        events.clear()
        for each in CASES:
            assert runner.once(each).verdict.passed
    judged = ["answered", "truths"]  # in this order: nothing expected exists while a kernel runs
    assert events == [
        *("inputs of 100", "posted", "inputs of 257", *judged),
        *("posted", "inputs of 3", *judged),
        *("posted", *judged),
    ]


def test_another_case_than_the_expected_one_has_its_own_inputs(events: list[str]) -> None:
    task = Task(EXERCISES["silu"], EXERCISES["silu"].variants["triton"])
    with Session(REFERENCE, EXERCISES, Options(device="cpu")) as session:
        [runner] = session.runners.of(task)
        runner.expect(CASES)
        for each in (CASES[0], CASES[2]):
            assert runner.once(each).verdict.passed
    assert [each for each in events if each.startswith("inputs")] == [
        *("inputs of 100", "inputs of 257", "inputs of 3")
    ]


def test_inputs_that_cannot_be_made_are_reported_with_their_own_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = inputs.make

    def failing(task: Any, case: Any) -> Any:
        if dict(case.sizes)["n"] == 257:
            raise OracleError("it fails")
        return make(task, case)

    monkeypatch.setattr(inputs, "make", failing)
    task = Task(EXERCISES["silu"], EXERCISES["silu"].variants["triton"])
    with Session(REFERENCE, EXERCISES, Options(device="cpu")) as session:
        [runner] = session.runners.of(task)
        runner.expect(CASES)
        assert runner.once(CASES[0]).verdict.passed
        with pytest.raises(OracleError, match="it fails"):
            runner.once(CASES[1])
        assert runner.once(CASES[2]).verdict.passed
