"""Large sizes of a CUDA C++ variant.

Blocks run in the emulator on tensors that have addresses, and no memory until they are touched.
"""

from __future__ import annotations

from dataclasses import replace

from grader.cases import Case
from grader.executors.answers import unanswered
from grader.executors.cuda import emulator_encoding
from grader.executors.cuda.native_answers import read_report
from grader.executors.cuda.native_planner import NativePlanner
from grader.executors.encoding import NotExecutable
from grader.executors.executor import Manner
from grader.executors.large_sizes import OF_HOST_CODE, LargeSizes
from grader.executors.planning import blank_arguments
from grader.executors.runner import CaseResult
from grader.plan import Buffer, Launch, Plan
from grader.sandbox.worker_process import Limits
from grader.status import Status
from grader.worker.protocol import Code, Operation, Reply

LIMITS = Limits(cpu_seconds=2.0)  # of the blocks of one case
_KINDS = ("far_read", "far_write", "race")  # of findings
# In the planner's findings, of a launch that CUDA refuses.
_LAUNCH = "launch_error"


class CudaLargeSizes(LargeSizes):
    """Plans in the planner's process, and runs some blocks in the emulator."""

    def __init__(self, plans: NativePlanner) -> None:
        super().__init__(plans.answers.task)
        self._plans = plans

    def loop_fault(self, case: Case) -> CaseResult | None:
        return self.fault(case)

    def _plan(self, case: Case) -> Plan | CaseResult | None:
        made = self._plans.planned(case, blank_arguments(self._plans.answers.task, case))
        if isinstance(made, CaseResult):
            is_refused = made.status is Status.launch_error and self._found_launch()
            return made if is_refused or made.status in OF_HOST_CODE else None
        return unanswered(case, made) or made

    def _found_launch(self) -> bool:
        report = self._plans.planned_report
        return report is not None and any(each.kind == _LAUNCH for each in report.findings)

    def _sampled(self, case: Case, made: Plan) -> CaseResult | None:
        if any(isinstance(step, Launch) and step.cooperative for step in made.calls[0]):
            return None  # its blocks wait for all others
        try:
            document = emulator_encoding.document(self._named(made), Manner(sampled=True))
        except NotExecutable:
            return None
        if self._worker is None:
            self._worker = self._plans.start(self._plans.program.executor, (), LIMITS)
        answer = self._worker.ask(Operation.execute, (), document=document)
        if not isinstance(answer, Reply) or answer.code is not Code.ok:
            self._end_worker()
        observed = read_report(answer) if isinstance(answer, Reply) else None
        findings = tuple(f for f in observed.findings if f.kind in _KINDS) if observed else ()
        if observed is None or not findings:
            return None
        return self._plans.answers.from_report(case, replace(observed, findings=findings[:1]))

    def _named(self, made: Plan) -> Plan:
        """The plan with the names of arguments, for messages."""
        names = [each.name for each in self._plans.answers.task.signature]

        def named(buffer: Buffer) -> Buffer:
            return (
                buffer if buffer.argument is None else replace(buffer, name=names[buffer.argument])
            )

        return replace(made, buffers=tuple(map(named, made.buffers)))
