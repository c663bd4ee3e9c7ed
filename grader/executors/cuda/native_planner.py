"""The plans of one CUDA C++ variant's cases: its host code's, in a process that has no data.

The program is one for the backend "emulator" or "gpu" (cuda_build.py). For neither does its planner
need a GPU.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path

from grader import plan
from grader.cases import Case
from grader.cases.arena import INPUTS, Buffers
from grader.cases.compare import READS_RESULTS, Verdict
from grader.emulator import report
from grader.emulator.glue import Entry
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Backend, Program
from grader.executors.cuda.native_answers import NativeAnswers, read_report
from grader.executors.encoding import DeviceKernel
from grader.executors.executor import limits_of
from grader.executors.planning import Plans, dtype_of, key_of_call, launched, relies_on_others
from grader.executors.runner import CaseResult, Times
from grader.gpu import machine
from grader.plan import KernelName, Plan, Step
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.seccomp import FilterError, compile_emulator_filter
from grader.sandbox.worker_process import Death, Limits, SandboxError, Worker
from grader.spec import ITEMSIZE, Tensor
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, Code, DType, Kind, Operation, Reply, Space

NO_RESULTS_ON_THE_HOST = (
    "this copy to the host gives zeros: a launcher plans its kernels before they run. What the "
    "next kernel needs of the last one has to stay on the device."
)
_CHECK_ELSEWHERE = "A check of the results belongs into a program of its own."
# As a planner says it (emulator/runtime/planner/recording.cpp).
_HOST_READS = re.compile(r"line (\d{1,7}): host code reads nothing of what kernels write")
_KIND_OF_SCALAR = {"int": Kind.int64, "float": Kind.float64, "bool": Kind.boolean}


class NativePlanner(Plans):
    """Makes plans with a planner's process."""

    answers: NativeAnswers

    def __init__(
        self,
        sandbox: Sandbox,
        task: Task,
        path: Path,
        program: Program,
        watched: bool = True,
        kept: KeptBuilds | None = None,
    ) -> None:
        """`path` is the source, for its lines; `program` what was made of it; `watched`: computing
        on the host is a violation. `kept` has plans that this source led to before."""
        self.kept = kept or KeptBuilds(None)
        self.program = program
        self._sandbox = sandbox
        self._given = task
        self._limits = limits_of(task)
        # With an entry for each dtype, it is turned to that of the case: see `turn_to`.
        self.task = task.of_dtype(task.variant.dtypes[0])
        answers = NativeAnswers(
            self.task,
            path,
            self._limits,
            is_ours=self._serves_nobody,
            program=program,
            watched=watched and "library" not in task.rules.lifted,
        )
        super().__init__(answers, Times())
        self.failure = answers.from_program()
        self.planned_report: report.Report | None = None  # what host code did wrong, last time
        self.planner_is_fresh = True  # whether the last plan was its first
        # Whether copies that host code asks for are held to the rules.
        self.judges_copies = answers.watched and task.exercise.moves_data
        self._readable: Buffers = ()  # buffers that the planner may read

    def turn_to(self, dtype: str) -> None:
        """Plan calls of a dtype's entry from now on, where each dtype has one of its own."""
        task = self._given.of_dtype(dtype)
        if task.variant.entry != self.task.variant.entry:
            self.fresh_worker()
            self.task = task
            self.answers = replace(self.answers, task=self.task)
            self.failure = self.answers.from_program()

    def take_over(self, other: Plans) -> None:
        """Have the planner of another entry of the same program, unless one is at hand."""
        if self.planner is None and isinstance(other, NativePlanner):
            self._readable = other._readable
            super().take_over(other)

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        return self._explained(case, self.ask(case, arguments))

    def planned(
        self, case: Case, arguments: Sequence[Argument], buffers: Buffers = ()
    ) -> Plan | CaseResult:
        """The plan of a case, sound and held to the rules, or why there is none."""
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
        """The planner's plan of a case; else its answer, or the result that follows from it.

        What host code did wrong on the way to a plan is in `planned_report`.
        """
        self.turn_to(case.dtype)
        self.planned_report = None
        program = self.program.path.name if self.program.path else ""
        further = (program, self.program.backend, f"{bool(buffers)}")
        key = key_of_call(self.task.variant.entry, arguments, placed=True, further=further)
        if (text := self.kept.get(key)) is not None:
            self.planner_is_fresh = False
            return self._read(case, arguments, text)
        self.planner_is_fresh = self.planner is None
        if (failure := self._start(arguments, buffers)) is not None:
            return failure
        assert self.planner is not None
        answer = self.planner.ask_at_length(Operation.plan, arguments)
        if not self.planner_is_fresh and relies_on_others(answer):
            self.fresh_worker()
            return self.ask(case, arguments, buffers)
        if isinstance(answer, Reply) and answer.code is Code.findings:
            self.planned_report = read_report(answer)
            if self.planned_report is None or self.planned_report.lost:
                self.fresh_worker()
                return answer
            answer = self.planner.ask_at_length(Operation.more)
        if isinstance(answer, Death):
            self.planner = None
            read = _HOST_READS.search(untrusted.clean(answer.log))
            result = self.answers.from_death(case, answer)
            return _with_place(result, self.task, int(read[1]) if read else 0)
        fields = untrusted.fields(answer)
        if answer.code is Code.raised and fields.get("type") == "Plan":
            return self.answers.unplannable(case, untrusted.text(fields, "message"))
        read_at = fields.get("read_at")
        if answer.code is Code.raised and isinstance(read_at, int) and read_at != 0:
            return _with_place(self.answers.from_refusal(case, answer), self.task, read_at)
        if answer.code is not Code.ok:
            return answer
        made = self._read(case, arguments, answer.text)
        if isinstance(made, Plan) and self.planned_report is None and not self._readable:
            self.kept.put(key, answer.text)
        return made

    def _read(self, case: Case, arguments: Sequence[Argument], text: str) -> Plan | CaseResult:
        """The plan that an untrusted text holds, or why it is none."""
        try:
            return plan.read(text, [_bytes_of(each) for each in arguments])
        except plan.PlanError as error:
            reads = ", and it copies results to the host" * ('"do":"readback"' in text)
            return self.answers.unplannable(case, f"{error}{reads}", getattr(error, "instead", ""))

    def violation(self, case: Case, made: Plan) -> CaseResult | None:
        """The violation of a plan whose copies do the exercise's work, or None."""
        allowed = plan.Allowed(moves_data=True)
        for broken in plan.violations(made, allowed) if self.judges_copies else ():
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

    @cached_property
    def _cubin(self) -> bytes:
        assert self.program.executor is not None
        return self.program.executor.read_bytes()

    def _start(self, arguments: Sequence[Argument], buffers: Buffers) -> CaseResult | None:
        """Have a planner that may read the arguments in host memory; why there is none."""
        if self.failure is not None:
            return self.failure
        readable = buffers[: INPUTS + 1] if _only_host_inputs(arguments) else []
        if self.planner is not None and readable == self._readable:
            return self._turn(len(arguments))
        self.fresh_worker()
        self.planner_is_fresh = True
        self._readable = readable
        try:
            planner = self.start(self.program.path, readable)
        except SandboxError:
            if self._serves_nobody():
                raise
            what = "the program ended, or hung, before it could be asked for anything."
            hint = (
                "Nothing of it may run before the entry is called: no constructors outside of it."
            )
            verdict = Verdict(Status.import_error, what)
            self.failure = CaseResult(None, verdict, observed_by="worker", hint=hint)
            return self.failure
        return self._load(planner, len(arguments))

    # --- processes of the program -----------------------------------------------------------------

    def start(
        self, path: Path | None, buffers: Buffers, limits: Limits | None = None, entry: str = ""
    ) -> Worker:
        """Start a part of the program, which may read these buffers, with limits or the spec's.

        `entry` is the function that it calls, if not the task's.
        """
        assert path is not None  # who asks has seen that the program was built
        called = entry or self.task.variant.entry
        return self._sandbox.worker(path, called, buffers, limits or self._limits, self._options)

    def _serves_nobody(self) -> bool:
        """Whether even a program whose entry does nothing can't be had, or refuses to be called."""
        kinds = cuda_build.signature(self.task.exercise, self.task.variant)
        try:
            idle = _idle_program(self._sandbox, tuple(kinds), self.program.backend)
            worker = self.start(idle, (), entry=IDLE)
        except SandboxError:
            return True
        try:
            empty = [_empty_argument(kind) for kind in kinds]
            answers = (worker.ask(each, empty) for each in (Operation.load, Operation.plan))
            return any(isinstance(a, Death) or a.code is not Code.ok for a in answers)
        finally:
            worker.close()

    @cached_property
    def _options(self) -> list[str]:
        """The names of the program's arguments, and the system calls that it may make."""
        arguments = [
            f"{each.name}:{each.role if isinstance(each, Tensor) else 'input'}"
            for each in self.task.signature
        ]
        options = [f"--arguments={','.join(arguments)}", machine.seen_by_host_code().as_option()]
        if self.program.backend != "gpu":
            with contextlib.suppress(FilterError):  # then the sandbox has none either, and says so
                options.insert(0, f"--filter={compile_emulator_filter().hex()}")
        return options


IDLE = "idle"  # an entry that does nothing


@lru_cache(maxsize=8)
def _idle_program(sandbox: Sandbox, kinds: tuple[str, ...], backend: Backend) -> Path:
    """A program whose entry does nothing. Raises SandboxError where there can't be one."""
    types = ", ".join(Entry(IDLE, kinds).types())
    headers = "#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
    source = f'{headers}extern "C" void {IDLE}({types}) {{}}\n'.encode()
    made = cuda_build.build(sandbox, "idle.cu", source, [(IDLE, kinds)], backend)
    if made.path is None:
        raise SandboxError("a program that does nothing can't be compiled")
    return made.path


def is_on_host(argument: Argument) -> bool:
    """Whether an argument is a tensor in host memory."""
    return argument.kind is Kind.tensor and argument.space is Space.host


def _only_host_inputs(arguments: Sequence[Argument]) -> bool:
    """Whether the buffer of inputs holds tensors in host memory only: a planner may read those."""
    inputs = [each for each in arguments if each.kind is Kind.tensor and each.buffer == INPUTS]
    return bool(inputs) and all(map(is_on_host, inputs))


def _bytes_of(argument: Argument) -> int | None:
    """The bytes of a tensor from its first element to its last; None for a scalar."""
    if argument.kind is not Kind.tensor:
        return None
    if 0 in argument.shape:
        return 0
    spans = zip(argument.shape, argument.strides, strict=True)
    itemsize = ITEMSIZE.get(dtype_of(argument), 1)
    return (sum((n - 1) * s for n, s in spans) + 1) * itemsize


def _empty_argument(kind: str) -> Argument:
    """A tensor without elements, or zero."""
    if kind.startswith("pointer"):
        return Argument(Kind.tensor, DType.float32, shape=(0,), strides=(1,))
    return Argument(_KIND_OF_SCALAR[kind], scalar=0)


def _with_place(result: CaseResult, task: Task, read_at: int) -> CaseResult:
    """The result of host code that gave no plan, with the line at which it read results."""
    if not 0 < read_at < 10**7 or result.status is not Status.crashed:
        return result
    hint = f"{task.variant.file}:{read_at}: {NO_RESULTS_ON_THE_HOST} {_CHECK_ELSEWHERE}"
    return replace(result, verdict=replace(result.verdict, pattern=READS_RESULTS), hint=hint)
