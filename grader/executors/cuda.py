"""One CUDA C++ variant of one submission without a GPU: host code plans, kernels are executed.

Of the two programs that native.build makes of a file, the planner runs the host code where there is
no data, and the executor runs kernels on data and has no host code.
"""

from __future__ import annotations

from collections.abc import Sequence

from grader import hostile, native_plan, plan
from grader.arena import INPUTS
from grader.cases import Case
from grader.compare import Verdict
from grader.emulator import report
from grader.native_runner import NativeRunner
from grader.plan import Plan
from grader.plan.model import Readback
from grader.runner import CaseResult
from grader.status import Status
from grader.supervision import Death, Worker
from grader.worker.protocol import Argument, Code, DType, Kind, Operation, Reply, Space


class PlannedNativeRunner(NativeRunner):
    """Runs the cases of one CUDA C++ variant by plan. Its program must be a planned one."""

    _planner: Worker | None = None
    _planned_report: report.Report | None = None

    def close(self) -> None:
        """End every process and give the arena back."""
        super().close()
        self._drop_planner()

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        super().fresh_worker()
        self._drop_planner()

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | Reply | CaseResult:
        """The plan of a case, or why there is none; what host code did wrong is noted for later.

        A Reply is one of those that a program which runs at once gives too.
        """
        self._planned_report = None
        self._drop_planner()  # each plan is that of a first call and the one after it
        failure = self._start_planner(arguments)
        if failure is not None:
            return failure
        answer = self._planner.ask_at_length(Operation.plan, arguments)
        if isinstance(answer, Reply) and answer.code is Code.found:
            self._planned_report = self._read_report(answer)
            if self._planned_report is None or self._planned_report.lost:
                self._drop_planner()
                return answer
            answer = self._planner.ask_at_length(Operation.more)
        if isinstance(answer, Death):
            self._planner = None
            return self._from_death(case, answer)
        if answer.code is not Code.ok:
            return answer
        try:
            return plan.read(answer.text, [_bytes_of(each) for each in arguments])
        except plan.PlanError as error:
            what = f"its launcher asks for what can't be planned: {hostile.clean(str(error))}."
            return CaseResult(case, Verdict(Status.launch_error, what), observed_by="worker")

    def failure_as_result(
        self, planned: Plan | Reply | CaseResult, case: Case
    ) -> Plan | CaseResult:
        """What `plan_of` gave, a Reply as what it means for the case."""
        if not isinstance(planned, Reply):
            return planned
        result = self._answered(case, planned)
        return result or CaseResult(case, Verdict(Status.crashed, "it gave no plan."))

    # --- one run ---------------------------------------------------------------------------------

    def _start(self, count: int) -> CaseResult | None:
        """A fresh executor; the planner comes with the case, which knows what it is to be given."""
        if self._load_failure is None:
            self._worker = self._spawn(self.program.executor)
        return self._load_failure

    def _start_planner(self, arguments: Sequence[Argument]) -> CaseResult | None:
        if self._load_failure is not None:
            return self._load_failure
        buffers = self._arena.buffers[: INPUTS + 1] if _only_host_inputs(arguments) else []
        planner = self._sandbox.worker(
            self.program.path, self.variant.entry, buffers, self._limits, self._options
        )
        self._load_failure = self._loaded(planner, len(arguments))
        self._planner = planner if self._load_failure is None else None
        return self._load_failure

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        made = self.plan_of(case, arguments)
        if not isinstance(made, Plan):
            return made
        counters = self._operation is Operation.measure
        try:
            # Whoever keeps results in the device's variables is to be seen giving old ones.
            document = native_plan.document(made, counters=counters, fresh_variables=False)
        except native_plan.NotExecutable as error:
            what = f"the emulator doesn't support {error}; this part runs on a GPU."
            return CaseResult(case, Verdict(Status.not_measured, what), observed_by="worker")
        answer = self._worker.ask(Operation.execute, arguments, document=document)
        answer = self._combined(answer, made, arguments)
        is_sound = isinstance(answer, Reply) and answer.code is Code.ok
        return (self._violation(case, made) if is_sound else None) or answer

    def _violation(self, case: Case, made: Plan) -> CaseResult | None:
        """Whether host code asked for the device's data, or its copies do the exercise's work."""
        if not self._watched:
            return None
        if self.exercise.moves_data:
            for broken in plan.violations(made, plan.Allowed(moves_data=True)):
                verdict = Verdict(Status.policy_violation, f"{broken.what}.", "computed")
                return CaseResult(case, verdict, broken.line or None, "", "worker", broken.instead)
        for step in made.calls[0]:
            if isinstance(step, Readback):
                what = (
                    f"host code copies {step.bytes:,} bytes from the device to look at them; a "
                    "launcher plans its kernels without their results."
                )
                verdict = Verdict(Status.policy_violation, what, "computed")
                return CaseResult(case, verdict, step.line or None, "", "worker")
        return None

    def _combined(
        self, answer: Reply | Death, made: Plan, arguments: Sequence[Argument]
    ) -> Reply | Death:
        """The executor's answer with what the planner found and what was copied."""
        if isinstance(answer, Death) or answer.code not in (Code.ok, Code.found):
            return answer
        seen = self._read_report(answer)
        if seen is None:
            return answer
        on_host = {i for i, each in enumerate(arguments) if _is_on_host(each)}
        whole = native_plan.combined(
            self._planned_report, seen, native_plan.copies(made, 0, on_host)
        )
        code = Code.found if whole.findings else Code.ok
        return Reply(answer.sequence, code, report.to_json(whole))

    def _drop_planner(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None


def _is_on_host(argument: Argument) -> bool:
    return argument.kind is Kind.tensor and argument.space is Space.host


def _only_host_inputs(arguments: Sequence[Argument]) -> bool:
    """Whether there are tensors among the inputs, all of them in host memory: a planner may read
    these, and meets no data of the device's in their buffer."""
    inputs = [each for each in arguments if each.kind is Kind.tensor and each.buffer == INPUTS]
    return bool(inputs) and all(map(_is_on_host, inputs))


def _bytes_of(argument: Argument) -> int | None:
    """The bytes of a tensor from its first element to its last; None for a scalar."""
    if argument.kind is not Kind.tensor:
        return None
    if 0 in argument.shape:
        return 0
    spans = zip(argument.shape, argument.strides, strict=True)
    itemsize = plan.ITEM_BYTES.get(DType(argument.dtype).name, 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize
