"""Large sizes of a Triton variant.

Programs run on buffers that have addresses and no memory. Triton computes in int32 what no int64
reaches, and the message names the arithmetic that has wrapped.
"""

from __future__ import annotations

from collections.abc import Callable

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.emulator.report import ReportError
from grader.executors import program_orders
from grader.executors.compile.frontend import Kernel
from grader.executors.compile.kernels import Kernels
from grader.executors.large_sizes import OF_HOST_CODE, LargeSizes
from grader.executors.planning import blank_arguments, launched
from grader.executors.runner import CaseResult
from grader.executors.triton import configurations, triton_metrics, triton_report
from grader.executors.triton.triton_planner import GRID, TritonPlanner
from grader.executors.triton.ttir_executor import EXECUTION, Execution
from grader.plan import Plan
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Limits, Worker
from grader.worker.protocol import Operation, Reply

LIMITS = Limits(cpu_seconds=5.0)  # of the programs of one case
_FAR = ("out_of_bounds_read", "out_of_bounds_write")
_INSIDE = "Every index has to stay inside its tensor at this size, too."
_IN_64_BITS = (
    "An index that is computed in int32 wraps beyond 2,147,483,647. Convert a factor to int64 "
    "before it is multiplied, as in offs.to(tl.int64) * stride or tl.program_id(0).to(tl.int64)."
)


class TritonLargeSizes(LargeSizes):
    """Plans in the planner's process, and runs some programs of the TTIR."""

    def __init__(
        self, plans: TritonPlanner, kernels: Kernels, spawn: Callable[..., Worker]
    ) -> None:
        """`spawn` starts a process without buffers, with limits and in a `role`."""
        super().__init__(plans.answers.task)
        self._plans = plans
        self._kernels = kernels
        self._spawn = spawn

    def launch_fault(self, case: Case) -> CaseResult | None:
        made = self._working(case)
        if not isinstance(made, Plan):
            return made
        specialisations = configurations.kernels_of(made)
        for number in launched(configurations.steps(made)):
            failure = self._kernels.refusal_of(specialisations[number])
            if failure is not None:
                return failure.result(self._plans.answers, case)
        return None

    def _plan(self, case: Case) -> Plan | CaseResult | None:
        made = self._plans.plan_of(case, blank_arguments(self._plans.answers.task, case))
        if isinstance(made, CaseResult):
            is_refused = made.verdict.pattern == GRID or made.status in OF_HOST_CODE
            return made if is_refused else None
        return made

    def _sampled(self, case: Case, made: Plan) -> CaseResult | None:
        steps = configurations.steps(made)
        specialisations = configurations.kernels_of(made)
        kernels = {}
        for number in launched(steps):
            text = self._kernels.text_of(specialisations[number])
            if not isinstance(text, Kernel) or specialisations[number].language == "gluon":
                return None
            kernels[number] = text
        execution = Execution(
            buffers=made.buffers,
            steps=steps,
            kernels={number: each.name for number, each in kernels.items()},
            ttir={each.name: each.ttir for each in kernels.values()},
            seed=program_orders.seed_of(case),
            sampled=True,
        )
        return self._explained(case, EXECUTION.dump_json(execution, by_alias=True))

    def _explained(self, case: Case, document: bytes) -> CaseResult | None:
        """The gravest access far outside that an executor finds, or None."""
        if self._worker is None:
            self._worker = self._spawn(LIMITS, role="executor")
        answer = self._worker.ask_at_length(Operation.execute, (), document=document)
        if not isinstance(answer, Reply):
            self._worker = None
            return None
        fields = untrusted.fields(answer)
        try:
            findings = triton_report.parse_findings(fields.get("findings"))
        except ReportError:  # there are none
            return None
        far = [each for each in findings if each.kind in _FAR]
        if not far:
            return None
        worst = triton_metrics.worst_of(far)
        answers = self._plans.answers
        source = answers.source.splitlines()
        names = triton_metrics.arguments(answers.task, case)
        file = answers.task.variant.file
        sentence, _ = triton_report.message_of(worst, names, file, source)
        marks = triton_report.marks_of(worst)
        line = worst.other_line  # of arithmetic that has wrapped
        if line and line != worst.line:
            sentence = f"{sentence} Before that, int32 arithmetic wraps at {file}:{line}."
            marks = ((line, "wraps in int32"), *marks)
        verdict = Verdict(triton_metrics.status_of(worst), untrusted.clean(sentence), worst.kind)
        hint = _IN_64_BITS if line else _INSIDE
        return CaseResult(case, verdict, worst.line or None, "", "worker", hint, marks=marks)
