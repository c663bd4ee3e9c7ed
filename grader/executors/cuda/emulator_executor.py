"""One case of a CUDA C++ variant, in the emulator: host code plans it, an executor runs the plan.

The executor runs kernels on data and has no host code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.cases.inputs import Inputs
from grader.emulator import report
from grader.executors.answers import nonsense
from grader.executors.cuda import emulator_encoding
from grader.executors.cuda.native_answers import UNSUPPORTED, read_report
from grader.executors.cuda.native_planner import (
    NO_RESULTS_ON_THE_HOST,
    NativePlanner,
    is_on_host,
)
from grader.executors.encoding import NotExecutable
from grader.executors.executor import Executor, Manner, hand_over
from grader.executors.planning import REORDERED, SECOND_CALL, dtype_of
from grader.executors.program_orders import Atomics
from grader.executors.runner import CaseResult, printed_by_host, shortened
from grader.executors.trace import Trace, TraceError
from grader.executors.trace import parse as parse_trace
from grader.plan import Plan, repeats, streams
from grader.plan.model import Readback
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Worker
from grader.spec import Tensor
from grader.status import Status
from grader.worker.protocol import Argument, Code, Operation, Reply

# What is left of its addresses behind those of cudaMalloc (emulator/runtime/device_memory.h).
MOST_ARENA_BYTES = 760 << 20
_NO_FUNCTIONS_FROM_THE_DEVICE = (
    "A function that a kernel calls through a pointer is one of them: take its address in the "
    "kernel, or pass an object whose operator() it calls."
)
_UNDEFINED = "shuffle_absent_lane"  # in the emulator's findings


@dataclass(frozen=True)
class OtherWay:
    """A manner in which a plan has to give the right result, too."""

    status: Status  # of a result that is wrong
    words: str  # before what is wrong
    manner: Manner
    repeats: bool = False  # whether it is the first call's work again: then only orders are tried


class EmulatorExecutor(Executor):
    """Runs cases of one CUDA C++ variant by plan, each in a given manner."""

    def __init__(self, plans: NativePlanner) -> None:
        """`plans` are those of a program for the emulator."""
        super().__init__(plans.answers.task, plans.path, plans.answers, plans.times)
        self._plans = plans
        self._readback: Readback | None = None  # the first of the last plan
        self.report: report.Report | None = None  # of the last run that ended well
        self.recorded: Trace | None = None  # of the last run, if it recorded its accesses
        self.other_ways: Sequence[OtherWay] = ()  # in which that plan must be right, too
        self.atomics: Sequence[Atomics] = ()  # of the last run
        self._is_taken_over = False  # whether the executor at hand last ran another entry
        self._has_undefined = False  # whether a shuffle has read from an absent lane

    def run(self, case: Case, manner: Manner | None = None) -> CaseResult:
        """As Executor.run. A shuffle from an absent lane is a fault only if its result is used.

        Its result is undefined: a kernel that doesn't use it is right whatever its value is.
        """
        if not self._has_undefined:
            result = super().run(case, manner)
            if result.status is not Status.barrier_error or self.report is None:
                return result
            self._has_undefined = {each.kind for each in self.report.findings} == {_UNDEFINED}
            if not self._has_undefined:
                return result
        for undefined in range(1, emulator_encoding.UNDEFINED + 1):
            result = super().run(case, replace(manner or Manner(), undefined=undefined))
            if not result.verdict.passed:
                return super().run(case, manner)
        return result

    def _end_users(self) -> None:
        self._plans.fresh_worker()  # a planner may read the arena's buffers
        self._drop_worker()

    def take_over(self, other: EmulatorExecutor) -> None:
        """Have the worker and the memory of another entry; its variables are set anew."""
        if self._worker is None:
            hand_over(other, self)
            self._is_taken_over = self._worker is not None

    def _start(self, count: int) -> CaseResult | None:
        """Start an executor; a planner starts with the case, whose arguments it may read."""
        buffers = self._memory.arena.buffers
        room = sum(length for _, length, _ in buffers)
        if room > MOST_ARENA_BYTES:
            what = (
                f"the emulator has {MOST_ARENA_BYTES >> 20} MiB for a case's tensors and their "
                f"surroundings, and this one takes {room >> 20}; {UNSUPPORTED}"
            )
            return CaseResult(None, Verdict(Status.not_measured, what))
        if self._plans.failure is None:
            self._worker = self._plans.start(self._plans.program.executor, buffers)
        return self._plans.failure

    def _ask(
        self, worker: Worker, case: Case, arguments: Sequence[Argument]
    ) -> Reply | Death | CaseResult:
        self.recorded = None
        made = self._plans.ask(case, arguments, self._memory.arena.buffers)
        if not isinstance(made, Plan):
            return made
        self.plan = made
        self._printed.append(printed_by_host(untrusted.clean(untrusted.of_bytes(made.printed))))
        self._readback = next((s for s in made.calls[0] if isinstance(s, Readback)), None)
        try:
            document = self._document(made, arguments)
        except NotExecutable as error:
            what = f"the emulator doesn't support {error}; {UNSUPPORTED}"
            return CaseResult(case, Verdict(Status.not_measured, what), observed_by="worker")
        died = worker.post(Operation.execute, arguments, document=document)
        self.inputs.make_next(case)
        answer = died or worker.wait()
        self.recorded = self._recorded(worker, answer)
        answer = self._combined(answer, made, arguments)
        is_sound = isinstance(answer, Reply) and answer.code is Code.ok
        return (self._plans.violation(case, made) if is_sound else None) or answer

    def _recorded(self, worker: Worker, answer: Reply | Death) -> Trace | None:
        """The accesses of an execution, where they were to be recorded and can be read."""
        ended = isinstance(answer, Reply) and answer.code in (Code.ok, Code.findings)
        if not ended or self._manner is None or not self._manner.records:
            return None
        records = worker.ask_at_length(Operation.more)
        if isinstance(records, Death) or records.code is not Code.ok:
            return None
        try:
            return parse_trace(records.text, self._plans.program.line_of)
        except TraceError:
            return None

    def _document(self, made: Plan, arguments: Sequence[Argument]) -> bytes:
        """The plan for the executor. Raises NotExecutable."""
        tensors = {
            place: each
            for place, each in enumerate(self.task.signature)
            if isinstance(each, Tensor)
        }
        manner = self._manner or Manner()
        is_first, self._is_taken_over = self._is_taken_over, False
        if not manner.reordered and manner.call == 0:
            inout = any(each.role == "inout" for each in tensors.values())
            self.other_ways = list(_ways(made, inout))
        return emulator_encoding.document(
            made,
            manner,
            # A kernel that keeps results in the device's variables gives old ones, and is seen to.
            fresh_variables=is_first,
            outputs=[place for place, each in tensors.items() if each.role == "output"],
            inputs=[
                place
                for place, each in tensors.items()
                if each.role == "input" and _is_dense_and_floating(arguments[place])
            ],
        )

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        if answer.code is Code.bad_request:
            self._drop_worker()  # before it is tried whether another one can be had
        self.report = read_report(answer) if answer.code in (Code.ok, Code.findings) else None
        if self.report is not None:
            self._printed.append(
                shortened(untrusted.clean(untrusted.of_bytes(self.report.printed)))
            )
        is_counted = self._manner is not None and self._manner.counts
        if answer.code is Code.ok and is_counted and self.report is None:
            self._drop_worker()
            return nonsense(case)
        is_sound = self.report is not None and self.report.findings and not self.report.lost
        if answer.code is Code.findings and not is_sound:
            self._drop_worker()
        return self._plans.answers.from_answer(case, answer)

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The result by the verdict; host code that computes with results gets a hint."""
        if verdict.passed or self._readback is None:
            return CaseResult(case, verdict)
        computed = self._plans.answers.computed_by_library(case, fields)
        return computed or CaseResult(case, verdict, hint=self._about_readback())

    def _result_of(self, case: Case, inputs: Inputs) -> CaseResult:
        """The result of a case; a crash by an address that host code read back gets a hint."""
        result = super()._result_of(case, inputs)
        if result.status is not Status.crashed or not result.signal or self._readback is None:
            return result
        return replace(result, hint=f"{self._about_readback()} {_NO_FUNCTIONS_FROM_THE_DEVICE}")

    def _about_readback(self) -> str:
        assert self._readback is not None
        return f"{self.task.variant.file}:{self._readback.line}: {NO_RESULTS_ON_THE_HOST}"

    def _combined(
        self, answer: Reply | Death, made: Plan, arguments: Sequence[Argument]
    ) -> Reply | Death:
        """The executor's answer, with the planner's findings and the copies in its report."""
        self.atomics = ()
        if isinstance(answer, Death) or answer.code not in (Code.ok, Code.findings):
            return answer
        executed = read_report(answer)
        if executed is None:
            return answer
        if place := executed.atomic_pc or executed.clock_pc:
            line = self._plans.program.line_of(place) or 0
            clock = not executed.atomic_pc
            self.atomics = [Atomics(line=line, programs=executed.atomic_blocks, clock=clock)]
        on_host = {i for i, each in enumerate(arguments) if is_on_host(each)}
        whole = emulator_encoding.combined(
            self._plans.planned_report, executed, emulator_encoding.copies(made, on_host)
        )
        code = Code.findings if whole.findings else Code.ok
        return Reply(answer.sequence, code, report.to_json(whole))


def _ways(made: Plan, inout: bool) -> Iterator[OtherWay]:
    """The other ways to execute a plan; after an `inout` argument there is no second call to make.

    Raises NotExecutable.
    """
    if not inout:
        yield OtherWay(Status.nondeterministic, SECOND_CALL, Manner(call=1), repeats(made))
    used = streams(made.calls[0])
    reordered = Manner(reordered=True)
    encode = emulator_encoding.document
    if len(used) > 1 and encode(made, Manner()) != encode(made, reordered):
        yield OtherWay(Status.data_race, REORDERED, reordered)


def _is_dense_and_floating(argument: Argument) -> bool:
    """Whether a tensor on the device is dense floats: its elements may be given in any order."""
    dense = [math.prod(argument.shape[place + 1 :]) for place in range(len(argument.shape))]
    is_dense = all(
        n == 1 or s == d for n, s, d in zip(argument.shape, argument.strides, dense, strict=True)
    )
    return is_dense and not is_on_host(argument) and "float" in dtype_of(argument)
