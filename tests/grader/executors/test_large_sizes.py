"""Plans of large sizes that do nothing for the outputs, in either language."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors.cuda.large_sizes import CudaLargeSizes
from grader.executors.large_sizes import LargeSizes
from grader.executors.runner import CaseResult
from grader.executors.triton.large_sizes import TritonLargeSizes
from grader.plan import Plan, read
from grader.spec import load_all
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Code, Reply
from tests.grader.executors.triton.test_triton_memory import FINDING
from tests.grader.plan.plans import ARGUMENTS, launch, plan, view
from tests.support.planned import case

ALLOC = {"do": "alloc", "buffer": 2}
FILL = {"do": "fill", "to": view(1, 4), "value": 0}
TORCH = {"do": "foreign", "operation": "aten::mul.Tensor", "inputs": [], "line": 12}
CASE = case("float32", n=67108864)
SILU = load_all()["silu"]


class Given(LargeSizes):
    """Large sizes of a variant whose plan is given; no address of it is wrong."""

    def __init__(self, made: Plan, task: Task) -> None:
        super().__init__(task)
        self.made = made

    def _plan(self, case: Case) -> Plan:
        return self.made

    def _sampled(self, case: Case, made: Plan) -> CaseResult | None:
        return None


def found(*steps: dict, role: str = "output") -> list[CaseResult | None]:
    x, out, *more = SILU.arguments
    arguments = (x, out.model_copy(update={"role": role}), *more)
    exercise = SILU.model_copy(update={"arguments": arguments})
    made = read(plan(*steps, scratch=(4096,)), ARGUMENTS)
    sizes = Given(made, Task(exercise, exercise.variants["triton"]))
    return [sizes.refused(CASE), sizes.launch_fault(CASE), sizes.fault(CASE)]


@pytest.mark.parametrize(
    "steps",
    [(), (FILL,), (ALLOC, {"do": "copy", "to": view(2, 4), "from": view(0, 4)})],
    ids=["nothing", "zeros in the output", "a copy to memory of its own"],
)
def test_a_plan_that_does_nothing_for_the_outputs_is_told(steps) -> None:
    for result in found(*steps):
        assert result is not None and result.status is Status.not_written
        assert result.verdict.what.startswith("nothing is launched for n=67108864, ")


@pytest.mark.parametrize(
    "steps",
    [
        (launch(0, 1),),
        ({"do": "copy", "to": view(1, 4), "from": view(0, 4)},),
        (TORCH | {"outputs": [view(1, 4)]},),
    ],
    ids=["a launch", "a copy to an output", "an operation of torch"],
)
def test_a_plan_that_works_is_not(steps) -> None:
    assert found(*steps) == [None, None, None]


def test_what_is_input_and_output_may_be_left_as_it_is() -> None:
    assert found(role="inout") == [None, None, None]


@pytest.mark.parametrize("wraps_at", [2, 0])
def test_arithmetic_that_wraps_is_told_with_where_to_convert(wraps_at: int) -> None:
    found = {**FINDING, "offset": 1 << 40, "other_line": wraps_at}
    reply = Reply(1, Code.ok, json.dumps({"findings": [found]}))
    worker = SimpleNamespace(ask_at_length=lambda *_, **__: reply)
    task = Task(SILU, SILU.variants["triton"])
    plans = SimpleNamespace(answers=SimpleNamespace(task=task, source="\nx = tl.load(x_ptr + i)"))
    sizes = TritonLargeSizes(plans, None, lambda *_, **__: worker)  # type: ignore[arg-type]
    result = sizes._explained(CASE, b"")
    assert result is not None
    assert ("Convert a factor to int64 before it is multiplied" in result.hint) == bool(wraps_at)


@pytest.mark.parametrize("language", ["triton", "cuda"])
@pytest.mark.parametrize(
    ("status", "is_told"),
    [
        (Status.crashed, True),
        (Status.policy_violation, True),
        (Status.timed_out, False),
        (Status.out_of_memory, False),
        (Status.not_measured, False),
    ],
)
def test_host_code_that_gives_no_plan_is_told_unless_a_limit_may_be_why(
    language: str, status: Status, is_told: bool
) -> None:
    made = CaseResult(CASE, Verdict(status, "no plan"))
    answers = SimpleNamespace(task=Task(SILU, SILU.variants[language]))
    plans = SimpleNamespace(
        answers=answers,
        planned_report=None,
        plan_of=lambda *_: made,
        planned=lambda *_: made,
    )
    sizes: LargeSizes = (
        TritonLargeSizes(plans, None, None)  # type: ignore[arg-type]
        if language == "triton"
        else CudaLargeSizes(plans)  # type: ignore[arg-type]
    )
    assert sizes.refused(CASE) == (made if is_told else None)
