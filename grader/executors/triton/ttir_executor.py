"""One case of a Triton variant, without a GPU: planned, its kernels compiled, and executed.

Planner, compiler and executor are processes of their own (worker/plan_processes.py). The planner
runs the host code and has no data. The executor has the data, and runs the kernels that the
compiler made from the submission's text (worker/ttir/plans.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pydantic

from grader.cases import Case
from grader.cases.arena import Buffers, Placed
from grader.cases.compare import Verdict
from grader.emulator.report import ReportError
from grader.executors import program_orders, trace
from grader.executors.answers import IN_LOOP, nonsense
from grader.executors.compile.frontend import Failure, Kernel
from grader.executors.compile.kernels import Kernels
from grader.executors.compile.warp_layouts import Layouts
from grader.executors.executor import Executor, Manner, hand_over, last_plan
from grader.executors.planning import launched, notes_of
from grader.executors.program_orders import Atomics, Order
from grader.executors.runner import MAX_PRINTED, CaseResult, printed_by_host, shortened
from grader.executors.trace import Trace
from grader.executors.triton import configurations, triton_metrics, triton_report
from grader.executors.triton.configurations import Tuning
from grader.executors.triton.triton_planner import TritonPlanner
from grader.plan import Buffer, Plan, Specialisation, Step
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Worker
from grader.status import Status
from grader.worker.protocol import Argument, Code, Operation, Reply

_RANK = {status: rank for rank, status in enumerate(Status)}  # in the order of precedence


@dataclass(frozen=True)
class Execution:
    """One request to an executor, as it goes there in JSON."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    kernels: dict[int, str]  # names, by the number of the specialisation
    ttir: Mapping[str, str]  # by name, of those that the executor hasn't met
    seed: int  # draws where buffers lie
    # Of the compiled kernels, as far as they're known, by number.
    layouts: Mapping[int, Layouts] = field(default_factory=dict)
    one_warp: tuple[int, ...] = ()  # kernels whose programs have one warp each, by number
    again: bool = False  # in the memory that the execution before this one has left behind
    count: bool = False
    record: bool = False  # each access that is counted
    wave: int = 0
    races: bool = False
    order: Order | None = None
    leftovers: bool = False  # unwritten memory holds finite numbers
    sampled: bool = False  # a few programs of each launch run, on buffers without data


EXECUTION = pydantic.TypeAdapter(Execution)


class TritonExecutor(Executor):
    """Runs cases of one Triton variant by plan, each in a given manner."""

    def __init__(
        self,
        spawn: Callable[[Buffers], Worker],
        plans: TritonPlanner,
        kernels: Kernels,
        tuning: Tuning,
        on_launch: Callable[[Case, Kernel, Specialisation], None],
    ) -> None:
        """`spawn` starts a process that has the data in some buffers.

        `tuning` notes tuned kernels that are launched, `on_launch` all of them.
        """
        super().__init__(plans.answers.task, plans.path, plans.answers, plans.times)
        self._spawn = spawn
        self._plans = plans
        self._kernels = kernels
        self._tuning = tuning
        self._on_launch = on_launch
        self.report: triton_report.Report | None = None  # of the last run that counted accesses
        self.recorded: Trace | None = None  # of the last run, if it recorded its accesses
        self.kernels: dict[int, str] = {}  # those of the last run, by number
        self.atomics: Sequence[Atomics] = ()  # that it used
        self.reads_own = False  # whether a kernel loaded from an output or allocated memory
        self.rounds_to_tf32 = False  # whether a kernel rounds float32 inputs of tl.dot
        self._known: set[str] = set()  # kernels that the executor at hand has
        self._repeats_plan = False  # whether the run takes the last one's plan

    def repeat(self, case: Case, manner: Manner) -> CaseResult:
        """Run a case in a manner by the plan of the last run. Raises as Runner.run does."""
        self._repeats_plan = True
        try:
            return self.run(case, manner)
        finally:
            self._repeats_plan = False

    def take_over(self, other: TritonExecutor) -> None:
        """Have the worker and the memory of another entry, and the kernels that it has."""
        if self._worker is None:
            self._known, other._known = other._known, set()
            hand_over(other, self)

    # --- one run ---------------------------------------------------------------------------------

    def _start(self, count: int) -> CaseResult | None:
        """Start an executor, and a planner with the submission loaded; why there is none."""
        failure = self._plans.start(count)
        if failure is None:
            self._worker = self._spawn(self._memory.arena.buffers)
            self.times.workers += 1
            self._known.clear()
        return failure

    def _ask(
        self, worker: Worker, case: Case, arguments: Sequence[Argument]
    ) -> Reply | Death | CaseResult:
        self.recorded, self.atomics = None, ()
        self._tuning.begin_run()
        plan = (self.plan if self._repeats_plan else None) or self._plans.planned(case, arguments)
        if isinstance(plan, CaseResult):
            return plan
        self.plan = plan
        self._printed.append(printed_by_host(untrusted.clean(plan.printed)))
        manner = self._manner or Manner(configuration=self._tuning.choose(case, plan))
        steps = configurations.steps_in(manner, plan, self._kernels.passed_over)
        specialisations = configurations.kernels_of(plan)
        kernels = self._translated(case, plan, launched(steps))
        if isinstance(kernels, CaseResult):
            return kernels
        for wanted in map(specialisations.__getitem__, kernels):
            if wanted.language == "gluon":
                what = f"{wanted.function} is written in Gluon: it runs on a GPU only."
                return CaseResult(case, Verdict(Status.not_measured, what), wanted.line)
        # Only what is counted depends on how the kernel is compiled.
        layouts = self._kernels.layouts(specialisations, kernels) if manner.counts else {}
        if manner.in_ieee:
            kernels = {number: each.in_ieee() for number, each in kernels.items()}
        new = {each.name: each.ttir for each in kernels.values() if each.name not in self._known}
        self.kernels = {number: each.name for number, each in kernels.items()}
        execution = Execution(
            buffers=plan.buffers,
            steps=steps,
            kernels=self.kernels,
            ttir=new,
            layouts=layouts,
            one_warp=tuple(n for n in kernels if specialisations[n].options.get("num_warps") == 1),
            seed=program_orders.seed_of(case),
            again=manner.call > 0,
            count=manner.counts,
            record=manner.records,
            wave=manner.wave,
            races=manner.races,
            order=manner.order,
            leftovers=manner.leftovers,
        )
        document = EXECUTION.dump_json(execution, by_alias=True)
        died = worker.post(Operation.execute, arguments, document=document)
        self._plans.ask_ahead(case)
        self.inputs.make_next(case)
        answer = died or worker.wait_at_length()
        if isinstance(answer, Reply) and answer.code is Code.ok:
            self._known.update(new)  # a text that is refused isn't kept
        return answer

    def _translated(
        self, case: Case, plan: Plan, numbers: Sequence[int]
    ) -> dict[int, Kernel] | CaseResult:
        """The kernels of a plan that are launched, or why there is one that can't be."""
        kernels: dict[int, Kernel] = {}
        tunings = configurations.tunings(plan)
        specialisations = configurations.kernels_of(plan)
        for number in numbers:
            wanted = specialisations[number]
            kernel = self._kernels.translate(wanted)
            among = tunings.get(number)
            if among and (refused := self._tuning.launch(case, wanted, among)) is not None:
                return refused
            if isinstance(kernel, Failure):
                return kernel.result(self._answers, case)
            self._on_launch(case, kernel, wanted)
            self.rounds_to_tf32 |= kernel.rounds_to_tf32
            kernels[number] = kernel
        return kernels

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        if answer.code is Code.raised:
            return _refused(case, untrusted.fields(answer))
        if (result := super()._answered(case, answer)) is not None:
            return result
        fields = untrusted.fields(answer)
        try:
            self.atomics = program_orders.read(fields)
            self.reads_own = fields.get("reads_own") is True
            if self._manner is not None and self._manner.counts:
                self.report = triton_report.parse(fields.get("accesses"))
            if self._manner is not None and self._manner.records:
                self.recorded = trace.parse(json.dumps(fields.get("trace")))
        except ValueError:
            return nonsense(case)
        return None

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what the executor found."""
        self._printed.append(shortened(untrusted.text(fields, "printed")[:MAX_PRINTED]))
        result = self._explained(case, fields, verdict)
        returned = untrusted.clean(last_plan(self).returned)
        if result.status is Status.not_written and returned:
            result = self._answers.returned_instead(case, returned)
        return replace(result, notes=notes_of(last_plan(self)))

    def _explained(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what the executor found where that explains more."""
        if "findings" not in fields:
            return CaseResult(case, verdict)
        try:
            worst = triton_metrics.worst_of(triton_report.parse_findings(fields["findings"]))
        except ReportError:
            return nonsense(case)
        status = triton_metrics.status_of(worst)
        if _RANK[verdict.status] < _RANK[status]:
            return CaseResult(case, verdict)
        source = self._answers.source.splitlines()
        names = triton_metrics.arguments(self.task, case)
        what, hint = triton_report.message_of(worst, names, self.task.variant.file, source)
        explained = Verdict(status, untrusted.clean(what), worst.kind)
        marks = triton_report.marks_of(worst)
        result = CaseResult(case, explained, worst.line or None, "", "worker", hint, marks=marks)
        return replace(result, picture=triton_report.picture_of(worst, names))

    def _modified(
        self, case: Case, placed: Sequence[Placed], inputs_writable: bool
    ) -> CaseResult | None:
        """None: the executor is the grader's, and its inputs are read-only."""
        return None


def _refused(case: Case, fields: dict[str, Any]) -> CaseResult:
    """The result of a plan that was read and held to the rules, and that the executor ended."""
    message = untrusted.brief(untrusted.text(fields, "message"))
    status, what = Status.crashed, f"its plan can't be executed: {message}."
    if untrusted.text(fields, "kind") == "limit":
        status = Status.timed_out
        what = f"its kernels ask for more than is executed without a GPU: {message}."
    line, pattern = untrusted.line(fields), ""
    endless, hint = _ENDLESS.get(untrusted.text(fields, "kind"), ("", ""))
    if endless:
        status, what, pattern = Status.timed_out, endless, IN_LOOP if line else ""
    return CaseResult(case, Verdict(status, what, pattern), line, "", "worker", hint)


# Loops without an end, by kind: what happens, and what to look for.
_ENDLESS = {
    "endless": ("a loop of the kernel never ends: in its turns nothing changes.", ""),
    "waits": (
        "programs wait in a loop, and none of them changes what they wait for.",
        "Is the memory that the loop reads set before the launch, and who changes it then?",
    ),
}
