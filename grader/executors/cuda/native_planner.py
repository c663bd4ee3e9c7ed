"""The plans of one CUDA C++ variant's cases: its host code's, in a process that has no data.

    plans = NativePlans(sandbox, task, path, program)
    plans.planned(case, arguments)    a Plan, or why there is none

The program is one of the backends "emulator" and "gpu" (cuda_build.py). Whichever it is for,
the planner needs no GPU: the sandbox is one where CUDA C++ runs without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from grader import plan
from grader.cases import Case
from grader.cases.arena import INPUTS, Buffers
from grader.cases.compare import Verdict
from grader.emulator import report
from grader.executors.cuda.cuda_build import Program
from grader.executors.cuda.native_answers import NativeAnswers, read_report
from grader.executors.cuda.native_processes import NativeProcesses
from grader.executors.encoding import NotExecutable
from grader.executors.executor import limits_of
from grader.executors.gpu.gpu_encoding import DeviceKernel
from grader.executors.planning import dtype_of, launched, load, relies_on_others
from grader.executors.runner import CaseResult, Times
from grader.plan import KernelName, Plan, Step
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.worker_process import Death, SandboxError, Worker
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply, Space


class NativePlans:
    """Makes plans with a planner's process. A context manager; the sandbox stays open after it."""

    def __init__(
        self, sandbox: Sandbox, task: Task, path: Path, program: Program, watched: bool = True
    ) -> None:
        """`path` is the source, for its lines; `program` what was made of it; `watched`: computing
        on the host is a violation."""
        self.path = path
        self.program = program
        self.times = Times()
        self.planned_report: report.Report | None = None  # what host code did wrong, last time
        self.planner: Worker | None = None
        self.planner_is_fresh = True  # whether the last plan was its first
        self.processes = NativeProcesses(sandbox, task, program, limits_of(task))
        self.answers = NativeAnswers(
            task,
            path,
            self.processes.limits,
            is_ours=self.processes.serves_nobody,
            program=program,
            watched=watched and "library" not in task.rules.lifted,
        )
        # Whether copies that host code asks for are held to the rules.
        self.judges_copies = self.answers.watched and task.exercise.moves_data
        self.failure = self.answers.from_program()  # why there is nothing to run, once it is known
        self._readable: Buffers = ()  # buffers that the planner may read

    def __enter__(self) -> NativePlans:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the planner."""
        self.fresh_worker()

    def fresh_worker(self) -> None:
        """Let the next plan be made by a process that has run nothing."""
        if self.planner is not None:
            self.planner.close()
            self.planner = None

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case before the rules are applied, or why there is none."""
        return self._explained(case, self.ask(case, arguments))

    def planned(
        self, case: Case, arguments: Sequence[Argument], buffers: Buffers = ()
    ) -> Plan | CaseResult:
        """The plan of a case that is sound and held to the rules, or why there is none.

        `buffers` hold the arguments, where host code may read those in host memory.
        """
        made = self._explained(case, self.ask(case, arguments, buffers))
        if isinstance(made, CaseResult):
            return made
        if self.planned_report is not None and self.planned_report.findings:
            return self.answers.from_report(case, self.planned_report)
        return self.violation(case, made) or made

    def _explained(self, case: Case, answer: Plan | Reply | CaseResult) -> Plan | CaseResult:
        if not isinstance(answer, Reply):
            return answer
        result = self.answers.from_answer(case, answer)
        return result or CaseResult(case, Verdict(Status.crashed, "it gave no plan."))

    def ask(
        self, case: Case, arguments: Sequence[Argument], buffers: Buffers = ()
    ) -> Plan | Reply | CaseResult:
        """The planner's plan of a case; its answer, where that is none, or what that means.

        What host code did wrong on the way to a plan is in `planned_report`.
        """
        self.planned_report = None
        self.planner_is_fresh = self.planner is None
        failure = self._start(arguments, buffers)
        if failure is not None:
            return failure
        assert self.planner is not None
        answer = self.planner.ask_at_length(Operation.plan, arguments)
        if not self.planner_is_fresh and relies_on_others(answer):
            self.fresh_worker()
            return self.ask(case, arguments, buffers)
        if isinstance(answer, Reply) and answer.code is Code.found:
            self.planned_report = read_report(answer)
            if self.planned_report is None or self.planned_report.lost:
                self.fresh_worker()
                return answer
            answer = self.planner.ask_at_length(Operation.more)
        if isinstance(answer, Death):
            self.planner = None
            return self.answers.from_death(case, answer)
        if answer.code is Code.raised and untrusted.fields(answer).get("type") == "Plan":
            return self.answers.unplannable(
                case, untrusted.text(untrusted.fields(answer), "message")
            )
        if answer.code is not Code.ok:
            return answer
        try:
            return plan.read(answer.text, [_bytes_of(each) for each in arguments])
        except plan.PlanError as error:
            reads = ", and it copies results to the host" * ('"do":"readback"' in answer.text)
            return self.answers.unplannable(case, f"{error}{reads}", getattr(error, "instead", ""))

    def violation(self, case: Case, made: Plan) -> CaseResult | None:
        """Whether copies that host code asks for do the exercise's work."""
        if not self.judges_copies:
            return None
        for broken in plan.violations(made, plan.Allowed(moves_data=True)):
            verdict = Verdict(Status.policy_violation, f"{broken.what}.", "computed")
            return CaseResult(case, verdict, broken.line or None, "", "worker", broken.instead)
        return None

    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], Mapping[int, DeviceKernel]] | CaseResult:
        """The steps of a call and the kernels that they launch, all of them in one cubin."""
        steps = planned.calls[call]
        kernels = {
            number: DeviceKernel(self._cubin, kernel.kernel)
            for number in launched(steps)
            if isinstance(kernel := planned.specialisations[number], KernelName)
        }
        return steps, kernels or {-1: DeviceKernel(self._cubin, "")}

    def compile_view(self, ttir: str) -> DeviceKernel:
        """Not asked for: CUDA's copies are of rows."""
        raise NotExecutable("a copy of a strided view")

    def configurations_of(self, planned: Plan) -> list[int]:
        """Nothing is tuned in CUDA C++."""
        return []

    @cached_property
    def _cubin(self) -> bytes:
        assert self.program.executor is not None
        return self.program.executor.read_bytes()

    def _start(self, arguments: Sequence[Argument], buffers: Buffers) -> CaseResult | None:
        """Have a planner that may read what it has to; why there is none."""
        if self.failure is not None:
            return self.failure
        readable = buffers[: INPUTS + 1] if _only_host_inputs(arguments) else []
        if self.planner is not None and readable == self._readable:
            return None
        self.fresh_worker()
        self.planner_is_fresh = True
        self._readable = readable
        try:
            planner = self.processes.planner(readable)
        except SandboxError:
            if self.processes.serves_nobody():
                raise
            self.failure = _ended_too_early()
            return self.failure
        self.failure = load(planner, len(arguments), self.answers, self.times)
        self.planner = planner if self.failure is None else None
        return self.failure


def _ended_too_early() -> CaseResult:
    """For a program that can't be started, though one that does nothing can."""
    what = "the program ended, or hung, before it could be asked for anything."
    hint = "Nothing of it may run before the entry is called: no constructors outside of it."
    return CaseResult(None, Verdict(Status.import_error, what), observed_by="worker", hint=hint)


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
    itemsize = plan.ITEM_BYTES.get(dtype_of(argument), 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize
