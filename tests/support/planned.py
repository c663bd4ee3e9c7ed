"""Single cases of a Triton variant, by plan and without a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from grader import spec
from grader.cases import Case
from grader.executors.runner import CaseResult
from grader.executors.triton.triton_runner import PlannedTritonRunner
from grader.sandbox import Sandbox
from grader.spec.task import Task

SPECS = spec.load_all()


def results(
    sandbox: Sandbox, exercise: str, text: str, cases: Sequence[Case], variant: str = "triton"
) -> list[CaseResult]:
    """What each case of a variant shows of a submission's file with this text."""
    wanted = SPECS[exercise].variants[variant]
    path = sandbox.hold(wanted.file, text.encode())
    with PlannedTritonRunner(sandbox, Task(SPECS[exercise], wanted), path) as runner:
        return [runner.run(case) for case in cases]


def case(dtype: str, layouts: Sequence[tuple[str, str]] = (), **sizes: int) -> Case:
    """A case of normally distributed data, of any size."""
    return Case(tuple(sizes.items()), dtype, seed=5, layouts=tuple(layouts))
