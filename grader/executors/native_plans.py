"""The plans of one CUDA C++ variant's cases: its host code's, in a process that has no data.

    runner = NativePlans(sandbox, task, path, program)
    runner.plan_of(case, arguments)    a Plan, or why there is none

The program is one of the backends "emulator" and "gpu" (native.build). Whichever it is for,
the planner needs no GPU: the sandbox is one where CUDA C++ runs without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from grader import plan
from grader.cases import Case
from grader.cases.arena import INPUTS
from grader.cases.compare import Verdict
from grader.emulator import report
from grader.executors.execution import launched
from grader.executors.gpu_document import DeviceKernel
from grader.executors.native_runner import NativeRunner
from grader.executors.planners import relies_on_others
from grader.executors.runner import CaseResult
from grader.executors.views import NotExecutable
from grader.plan import Plan, Step
from grader.policy.cuda.findings import instead_of
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, SandboxError, Worker
from grader.status import Status
from grader.worker.protocol import Argument, Code, DType, Kind, Operation, Reply, Space


class NativePlans(NativeRunner):
    """Makes plans; whoever runs them too derives from it."""

    _planner: Worker | None = None
    _planner_is_fresh = True  # whether the last plan was its first
    _readable: Sequence[tuple[int, int, bool]] = ()  # buffers that a planner may read
    _buffers: Sequence[tuple[int, int, bool]] = ()  # of whoever has the arguments, if not this one
    _planned_report: report.Report | None = None  # of the last plan

    def _start(self, count: int) -> CaseResult | None:
        raise NotImplementedError("it makes plans and runs none")

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        raise NotImplementedError("it makes plans and runs none")

    @property
    def planned_report(self) -> report.Report | None:
        """What host code did wrong on the way to the last plan; None: nothing."""
        return self._planned_report

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
        self._planner_is_fresh = self._planner is None
        failure = self._start_planner(arguments)
        if failure is not None:
            return failure
        answer = self._planner.ask_at_length(Operation.plan, arguments)
        if not self._planner_is_fresh and relies_on_others(answer):
            self._drop_planner()
            return self.plan_of(case, arguments)
        if isinstance(answer, Reply) and answer.code is Code.found:
            self._planned_report = self._read_report(answer)
            if self._planned_report is None or self._planned_report.lost:
                self._drop_planner()
                return answer
            answer = self._planner.ask_at_length(Operation.more)
        if isinstance(answer, Death):
            self._planner = None
            return self._from_death(case, answer)
        if answer.code is Code.raised and untrusted.fields(answer).get("type") == "Plan":
            return self._unplannable(case, untrusted.text(untrusted.fields(answer), "message"))
        if answer.code is not Code.ok:
            return answer
        try:
            return plan.read(answer.text, [_bytes_of(each) for each in arguments])
        except plan.PlanError as error:
            reads = ", and it copies results to the host" * ('"do":"readback"' in answer.text)
            return self._unplannable(case, f"{error}{reads}", getattr(error, "instead", ""))

    def _unplannable(self, case: Case, why: str, instead: str = "") -> CaseResult:
        """For a launcher that asks for too much, or for what makes no sense."""
        why = untrusted.brief(why)
        if self._watched and why.endswith("copies results to the host"):
            verdict = Verdict(Status.policy_violation, f"{why}.", "computed")
            return CaseResult(case, verdict, None, "", "worker", instead_of("library"))
        what = f"{why}." if instead else f"its launcher asks for what can't be planned: {why}."
        verdict = Verdict(Status.launch_error, what)
        return CaseResult(case, verdict, observed_by="worker", hint=instead)

    def planned(
        self,
        case: Case,
        arguments: Sequence[Argument],
        buffers: Sequence[tuple[int, int, bool]] = (),
    ) -> Plan | CaseResult:
        """The plan of a case that is sound and held to the rules, or why there is none.

        `buffers` hold the arguments, where host code may read those in host memory.
        """
        self._buffers = buffers
        made = self.failure_as_result(self.plan_of(case, arguments), case)
        if isinstance(made, CaseResult):
            return made
        told = self._planned_report
        if told is not None and told.findings:
            return self._from_report(case, Reply(0, Code.found, report.to_json(told)))
        return self._violation(case, made) or made

    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], Mapping[int, DeviceKernel]] | CaseResult:
        """The steps of a call and the kernels that they launch, all of them in one cubin."""
        steps = planned.calls[call]
        cubin = self._cubin
        names = {n: each.kernel for n, each in enumerate(planned.specialisations)}
        kernels = {n: DeviceKernel(cubin, names[n]) for n in launched(steps)}
        return steps, kernels or {-1: DeviceKernel(cubin, "")}

    def compile_view(self, ttir: str) -> DeviceKernel:
        """Not asked for: CUDA's copies are of rows."""
        raise NotExecutable("a copy of a strided view")

    def configurations_of(self, planned: Plan) -> list[int]:
        """Nothing is tuned in CUDA C++."""
        return []

    @cached_property
    def _cubin(self) -> bytes:
        return self.program.executor.read_bytes()

    def _violation(self, case: Case, made: Plan) -> CaseResult | None:
        """Whether copies that host code asks for do the exercise's work."""
        if not self._watched or not self.exercise.moves_data:
            return None
        for broken in plan.violations(made, plan.Allowed(moves_data=True)):
            verdict = Verdict(Status.policy_violation, f"{broken.what}.", "computed")
            return CaseResult(case, verdict, broken.line or None, "", "worker", broken.instead)
        return None

    def failure_as_result(
        self, planned: Plan | Reply | CaseResult, case: Case
    ) -> Plan | CaseResult:
        """What `plan_of` gave, a Reply as what it means for the case."""
        if not isinstance(planned, Reply):
            return planned
        result = self._answered(case, planned)
        return result or CaseResult(case, Verdict(Status.crashed, "it gave no plan."))

    def _start(self, count: int) -> CaseResult | None:
        raise NotImplementedError("plans are run by whoever derives from this")

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        raise NotImplementedError("plans are run by whoever derives from this")

    # --- the planner's process

    def _spawn_host(self, path: Path) -> Worker:
        return self._process(path, self._readable)

    def _start_planner(self, arguments: Sequence[Argument]) -> CaseResult | None:
        if self._load_failure is not None:
            return self._load_failure
        buffers = self._arena.buffers if self._arena is not None else self._buffers
        readable = buffers[: INPUTS + 1] if _only_host_inputs(arguments) else []
        if self._planner is not None and readable == self._readable:
            return None
        self._drop_planner()
        self._planner_is_fresh = True
        self._readable = readable
        try:
            planner = self._spawn_host(self.program.path)
        except SandboxError:
            if self._serves_nobody():
                raise
            return self._ended_too_early()
        self._load_failure = self._loaded(planner, len(arguments))
        self._planner = planner if self._load_failure is None else None
        return self._load_failure

    def _drop_arena(self) -> None:
        self._drop_planner()  # which may read the old one
        super()._drop_arena()

    def _drop_planner(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None


def is_on_host(argument: Argument) -> bool:
    """Whether an argument is a tensor in host memory."""
    return argument.kind is Kind.tensor and argument.space is Space.host


def _only_host_inputs(arguments: Sequence[Argument]) -> bool:
    """Whether there are tensors among the inputs, all of them in host memory: a planner may read
    these, and meets no data of the device's in their buffer."""
    inputs = [each for each in arguments if each.kind is Kind.tensor and each.buffer == INPUTS]
    return bool(inputs) and all(map(is_on_host, inputs))


def _bytes_of(argument: Argument) -> int | None:
    """The bytes of a tensor from its first element to its last; None for a scalar."""
    if argument.kind is not Kind.tensor:
        return None
    if 0 in argument.shape:
        return 0
    spans = zip(argument.shape, argument.strides, strict=True)
    itemsize = plan.ITEM_BYTES.get(DType(argument.dtype).name, 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize
