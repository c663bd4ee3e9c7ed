"""One variant of one submission on a GPU: a program of ours launches the cubins of its plan.

No host code of the submission is there: a planner, which has neither data nor a GPU, has recorded
what it asks for (triton.py, cuda.py). The executor maps the case's buffers and the plan's own, and
nothing else. It is as untrusted as the kernels that it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from grader import plan
from grader.cases import Case
from grader.cases.compare import Verdict
from grader.executors import gpu_document, gpu_program, views
from grader.executors.gpu_document import DeviceKernel
from grader.executors.planners import notes_of
from grader.executors.runner import CaseResult, Runner
from grader.plan import Buffer, Plan, Step
from grader.plan.model import Copy, View
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.worker_process import Death, Worker
from grader.spec.task import Task
from grader.status import Status
from grader.worker.compile.cubin import variables
from grader.worker.protocol import Argument, Code, Operation, Reply


class Plans(Protocol):
    """Where plans and compiled kernels of a variant come from: a runner without a GPU."""

    def planned(
        self,
        case: Case,
        arguments: Sequence[Argument],
        buffers: Sequence[tuple[int, int, bool]] = (),
    ) -> Plan | CaseResult: ...
    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], Mapping[int, DeviceKernel]] | CaseResult: ...
    def compile_view(self, ttir: str) -> DeviceKernel: ...
    def configurations_of(self, planned: Plan) -> list[int]: ...
    def fresh_worker(self) -> None: ...


def held_program(sandbox: Sandbox) -> Path:
    """The executor's program, where the sandbox can start it. Raises as gpu_program.program."""
    return sandbox.hold("gpu-executor", gpu_program.program(), program=True)


def document(
    plans: Plans, case: Case, planned: Plan, timed: bool = False, configuration: int | None = None
) -> bytes | CaseResult:
    """A plan as the executor takes it, or why it can't run on a GPU.

    `timed`: with the second call behind the first where that does other work: it is what is timed.
    """
    calls = (0, 1) if timed and len(planned.calls) > 1 and not plan.repeats(planned) else (0,)
    steps: list[Sequence[Step]] = []
    kernels: dict[int, DeviceKernel] = {}
    for call in calls:
        made = plans.compiled_steps(case, planned, call, configuration)
        if isinstance(made, CaseResult):
            return made
        steps.append(made[0])
        kernels.update(made[1])
    try:
        return gpu_document.encode(planned, steps, kernels, plans.compile_view, variables)
    except views.NotExecutable as error:
        what = f"its plan was executed without a GPU only: {error} isn't run on one."
        return CaseResult(case, Verdict(Status.not_measured, what))


def copy_document(source: Argument, to: Argument) -> bytes:
    """A plan of our own: one copy from a contiguous tensor to another of its dtype and shape."""
    views = [
        View(number, each.dtype.name, each.shape, each.strides, _first(each))
        for number, each in enumerate((source, to))
    ]
    buffers = [
        Buffer(each.allocation[1], "argument", number) for number, each in enumerate((source, to))
    ]
    steps = (Copy("copy", views[1], views[0]),)
    return gpu_document.encode(Plan(1, "triton", tuple(buffers), (), (steps,)), [steps], {})


def _first(argument: Argument) -> int:
    """The element of its allocation at which a tensor begins."""
    itemsize = plan.ITEM_BYTES.get(argument.dtype.name, 1)
    return (argument.offset - argument.allocation[0]) // itemsize


class GpuRunner(Runner):
    """Runs the cases of one variant on a GPU. A context manager; sandbox and plans stay open."""

    def __init__(self, sandbox: Sandbox, task: Task, path: Path, plans: Plans | None) -> None:
        """`sandbox` is a native one with the GPU's device files, `path` the submission's file;
        `plans` is None for who has documents already."""
        super().__init__(sandbox, task, path)
        self._plans = plans
        self._plan: Plan | None = None  # of the last run

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        super().fresh_worker()
        if self._plans is not None:
            self._plans.fresh_worker()

    def _start(self, count: int) -> CaseResult | None:
        self._worker = self._spawn()
        self.times.workers += 1
        return None

    def _spawn(self) -> Worker:
        program, arena = held_program(self._sandbox), self._arena
        on_gpu = arena.on_gpu
        return self._sandbox.worker(program, "", arena.buffers, self._limits, on_gpu=on_gpu)

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        asked = self._document(case, arguments)
        if isinstance(asked, CaseResult):
            return asked
        return self._worker.ask(Operation.execute, arguments, document=asked)

    def _document(self, case: Case, arguments: Sequence[Argument]) -> bytes | CaseResult:
        """What the executor is to do, or why there is nothing."""
        planned = self._plans.planned(case, arguments, self._arena.buffers)
        if isinstance(planned, CaseResult):
            return planned
        self._plan = planned
        return document(self._plans, case, planned)

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        if self._plan is None:
            return CaseResult(case, verdict)
        returned = untrusted.clean(self._plan.returned)
        if verdict.status is Status.not_written and returned:
            return self._returned_instead(case, returned)
        return CaseResult(case, verdict, notes=notes_of(self._plan))

    def _from_refusal(self, case: Case | None, reply: Reply) -> CaseResult:
        if reply.code is not Code.raised:
            return super()._from_refusal(case, reply)
        fields = untrusted.fields(reply)
        message = untrusted.brief(untrusted.text(fields, "message"))
        kind = untrusted.brief(untrusted.text(fields, "type"), 80)
        what = f"the GPU's driver refuses what the launcher asks for: {message}, {kind}."
        return CaseResult(case, Verdict(Status.launch_error, what), observed_by="worker")

    def _drop_arena(self) -> None:
        if self._arena is not None and self._plans is not None:
            self._plans.fresh_worker()  # a planner may read the old one's buffers
        super()._drop_arena()

    def _serves_nobody(self) -> bool:
        return True  # no code of the submission answers there
