"""One Triton variant of one submission, without a GPU: planned, compiled and executed.

Each of the three is a process of its own (worker/plan_processes.py). The planner runs the host
code and has no data; the executor has the data and runs kernels that the compiler made from the
submission's text. What the planner says is a plan, which is held to the rules before it is run.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader import hostile, plan, triton_memory, triton_report
from grader.arena import Placed
from grader.cases import Case
from grader.compare import Verdict
from grader.executors import configurations, refusals
from grader.executors.execution import Execution, Manner, launched
from grader.executors.kept import KeptBuilds
from grader.executors.kernels import Failure, Kernel, Kernels, PendingAssembly, facts
from grader.executors.planners import REORDERED, SECOND_CALL, notes_of
from grader.executors.triton_planner import TritonPlanner
from grader.plan import Plan
from grader.runner import CaseResult, Compiled, Runner
from grader.sandbox import Sandbox
from grader.status import Status
from grader.supervision import Death, Limits, Worker
from grader.task import Task
from grader.worker.protocol import Argument, Code, Operation, Reply

MAX_PRINTED = 2000  # characters of what kernels print in one case
_RANK = {status: rank for rank, status in enumerate(Status)}  # in the order of precedence


class PlannedTritonRunner(Runner):
    """Runs the cases of one Triton variant by plan. A context manager; the sandbox stays open."""

    def __init__(
        self,
        sandbox: Sandbox,
        task: Task,
        path: Path,
        watched: bool = True,
        kept: KeptBuilds | None = None,
    ) -> None:
        """`watched`: the rules on plans are kept, but for what the spec allows.

        `kept`: what earlier runs have compiled.
        """
        super().__init__(sandbox, task, path, watched)
        rules = task.rules
        lifted = not watched or "torch" in rules.lifted
        self._planner = TritonPlanner(
            lambda: self._spawn_role("planner", self._limits),
            task,
            plan.Allowed(frozenset({"*"}) if lifted else rules.torch, task.exercise.moves_data),
            plan.Limits(device_bytes=self._limits.memory_bytes),
            explain=self,
        )
        self._kernels = Kernels(self._spawn_compiler, path.parent, kept)
        self._known: set[str] = set()  # kernels that the executor at hand has
        self.plan: Plan | None = None  # of the last run
        self._repeats_plan = False  # whether the next run takes that plan
        self._manner: Manner | None = None  # of the next execution; None for a case's own
        self._configuration: int | None = None  # of the last run, where its kernels are tuned
        self._names: list[str] = []  # of the configurations there were
        self._suspect: int | None = None  # the first configuration with which a run has failed
        self._tuned: set[str] = set()  # dtypes of which a case ran with every configuration
        self._launched: dict[str, Case] = {}  # the first case that launched each kernel
        self._met: set[str] = set()  # sets of constants, dtypes and options that were launched
        self._first_met: list[Case] = []  # cases that were the first with one of them

    def close(self) -> None:
        """End every process and give the arena back."""
        super().close()
        self._planner.drop()
        self._kernels.close()

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        super().fresh_worker()
        self._planner.drop()

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each of these planned while the one before it is executed."""
        self._planner.expect(cases)

    def run(self, case: Case) -> CaseResult:
        """Run one case; where kernels are tuned, with the configuration that falls to it.

        A dtype's first case runs with every configuration. Once one has failed, all cases that
        follow run with that one, so that they show the same. Raises as Runner.run does.
        """
        self._configuration = None
        result = super().run(case)
        if self._configuration is None:  # nothing was executed, or nothing is tuned
            return self._with_other_ways(case, result) if result.verdict.passed else result
        if result.verdict.passed and case.dtype not in self._tuned:
            self._tuned.add(case.dtype)
            result = self._with_others(case, result)
        if result.verdict.passed:
            return self._with_other_ways(case, result)
        self._suspect = self._configuration
        label = configurations.label(self._configuration, self._names)
        verdict = replace(result.verdict, what=f"{result.verdict.what} It ran with {label}.")
        return replace(result, verdict=verdict)

    def measure(
        self,
        case: Case,
        wave: int = 0,
        without: Collection[int] = (),
        configuration: int | None = None,
    ) -> triton_report.Report | CaseResult:
        """Run a case with every access counted: what was seen, or how the run failed.

        `wave` is how many programs run at once, 0 where it doesn't matter; launches at the places
        `without` of the plan are left out; `configuration` stands in for the one that a tuning
        chose. Raises what `run` raises.
        """
        reports: list[triton_report.Report] = []
        self._on_report = reports.append
        manner = Manner(
            counts=True, wave=wave, without=frozenset(without), configuration=configuration
        )
        try:
            result = self._run_with(case, manner)
        finally:
            self._on_report = None
        return reports[-1] if result.verdict.passed and reports else result

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result."""
        manner = Manner(races=False, without=frozenset(places))
        return self._with_plan(case, manner).verdict.passed

    def _with_plan(self, case: Case, manner: Manner) -> CaseResult:
        """Run a case by the last run's plan."""
        self._repeats_plan = True
        try:
            return self._run_with(case, manner)
        finally:
            self._repeats_plan = False

    def _run_with(self, case: Case, manner: Manner) -> CaseResult:
        self._manner = manner
        try:
            return super().run(case)
        finally:
            self._manner = None

    def _with_other_ways(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, in the ways that may show what the plan as it stands doesn't.

        Of streams that don't wait for each other either may be first. Where the exercise is about
        moving data, what PyTorch copies is not to be all that moves it.
        """
        steps = Manner(configuration=self._configuration).steps(self.plan)
        if len(plan.streams(steps)) > 1 and plan.reorder(steps, memory_waits=False) != steps:
            manner = Manner(configuration=self._configuration, reordered=True, races=False)
            other = self._with_plan(case, manner)
            if not other.verdict.passed:
                what = REORDERED + other.verdict.what
                return replace(other, verdict=Verdict(Status.data_race, what, "streams"))
        if plan.copies_to_arguments(self.plan) and self._planner.judges_copies:
            launches = [n for n, step in enumerate(self.plan.calls[0]) if step.do == "launch"]
            if self.is_right_without(case, launches):
                return refusals.from_violation(case, plan.copies_alone(self.plan))
        return self._with_second_call(case, result)

    def _with_second_call(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, and whose second call does other work, with that call on new values.

        What the first call left is there; what it computed is of no use to the second one.
        """
        if plan.repeats(self.plan):
            return result
        again = replace(case, seed=case.seed + 1)
        second = self._with_plan(again, Manner(call=1, races=False))
        if second.verdict.passed:
            return result
        what = SECOND_CALL + second.verdict.what
        verdict = Verdict(Status.nondeterministic, what, "second_call")
        return replace(second, case=case, verdict=verdict)

    def _with_others(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, run with the other configurations: the first result that fails."""
        done = self._configuration
        for number in range(min(len(self._names), configurations.MAX_TRIED)):
            if number == done or not result.verdict.passed:
                continue
            self._configuration = number
            result = self._with_plan(case, Manner(configuration=number))
        return result

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case before the rules are applied, or why there is none."""
        return self._planner.plan_of(case, arguments)

    def failure_as_result(self, planned: Plan | CaseResult, case: Case) -> Plan | CaseResult:
        """What `plan_of` gave: it is a result already where there is no plan."""
        return planned

    # --- one run ---------------------------------------------------------------------------------

    def _start(self, count: int) -> CaseResult | None:
        """A planner with the submission loaded and a fresh executor, or why there is none."""
        self._load_failure = self._planner.start(count)
        if self._load_failure is None:
            self._worker = self._spawn_role("executor", self._limits, self._arena.buffers)
            self.times.workers += 1
            self._known.clear()
        return self._load_failure

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        planned = self.plan if self._repeats_plan else self._planner.planned(case, arguments)
        if isinstance(planned, CaseResult):
            return planned
        self.plan = planned
        manner = self._manner or Manner(configuration=self._configured(case, planned))
        steps = manner.steps(planned)
        kernels: dict[int, Kernel] = {}
        for number in launched(steps):
            kernel = self._kernels.translate(planned.specialisations[number])
            if isinstance(kernel, Failure):
                return self._from_compiler(case, kernel)
            if kernel.name not in self._launched:
                self._note_first(case, kernel, planned.specialisations[number])
            kernels[number] = kernel
        # Only what is counted depends on how the kernel is compiled.
        layouts = self._kernels.layouts(planned.specialisations, kernels) if manner.counts else {}
        new = {each.name: each.ttir for each in kernels.values() if each.name not in self._known}
        execution = Execution(
            buffers=planned.buffers,
            steps=steps,
            kernels={number: each.name for number, each in kernels.items()},
            ttir=new,
            layouts=layouts,
            again=manner.call > 0,
            count=manner.counts,
            wave=manner.wave,
            races=manner.races,
        )
        died = self._worker.post(Operation.execute, arguments, document=execution.to_json())
        self._planner.ask_ahead(case)
        answer = died or self._worker.wait_at_length()
        if isinstance(answer, Reply):
            self._known.update(new)
        return answer

    def _note_first(self, case: Case, kernel: Kernel, wanted: plan.Specialisation) -> None:
        """A kernel that no case has launched before."""
        self._launched[kernel.name] = case
        told = facts(wanted)
        if not told <= self._met:
            self._first_met.append(case)
        self._met |= told

    def take_first_met(self) -> list[Case]:
        """The cases since the last time that were first with constants, dtypes and options."""
        taken, self._first_met = self._first_met, []
        return taken

    def _configured(self, case: Case, planned: Plan) -> int | None:
        """The configuration that a case is run with; None where its kernels aren't tuned."""
        self._names = configurations.names_of(planned)
        if self._names:
            mine = configurations.first_for(case, len(self._names))
            suspect = None if self._suspect is None else self._suspect % len(self._names)
            self._configuration = mine if suspect is None else suspect
        return self._configuration

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        if answer.code is Code.raised:
            return refusals.from_executor(case, hostile.fields(answer))
        told = super()._answered(case, answer)
        if told is not None or self._on_report is None:
            return told
        try:
            self._on_report(triton_report.parse(hostile.fields(answer).get("accesses")))
        except triton_report.ReportError:
            return self._nonsense(case)
        return None

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what the executor found; and what kernels printed."""
        printed = hostile.text(fields, "printed")[:MAX_PRINTED]
        result = self._explained(case, fields, verdict)
        returned = hostile.clean(self.plan.returned)
        if result.status is Status.not_written and returned:
            result = self._returned_instead(case, returned)
        return replace(result, printed=printed, notes=notes_of(self.plan))

    def _explained(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what the executor found where that explains more."""
        if "findings" not in fields:
            return CaseResult(case, verdict)
        try:
            worst = triton_memory.worst_of(triton_report.parse_findings(fields["findings"]))
        except triton_report.ReportError:
            return self._nonsense(case)
        status = triton_memory.status_of(worst)
        if _RANK[verdict.status] < _RANK[status]:
            return CaseResult(case, verdict)
        source = self.path.read_bytes().decode("utf-8", "replace").splitlines()
        names = triton_memory.arguments(self.exercise, self.variant, case)
        what, hint = triton_report.message_of(worst, names, self.variant.file, source)
        explained = Verdict(status, hostile.clean(what), worst.kind)
        return CaseResult(case, explained, worst.line or None, "", "worker", hint)

    def _modified(
        self, case: Case, placed: Sequence[Placed], inputs_writable: bool
    ) -> CaseResult | None:
        """Inputs are read-only to the executor, which is ours: nothing can have changed them."""
        return None

    # --- compiling -------------------------------------------------------------------------------

    def compile_in_background(self) -> list[PendingAssembly]:
        """Start compiling for the GPU what ran since the last time; nothing for nothing."""
        return self._kernels.assemble()

    def compiled(self, pending: Sequence[PendingAssembly]) -> Compiled | None:
        """Wait for a compilation. None when a process of it died or said nothing sensible."""
        started = time.perf_counter()
        told = [self._assembled(each) for each in pending]
        self.times.compiles += time.perf_counter() - started
        failures = [each for each in told if each is not None and each.failure is not None]
        return failures[0] if failures else None if None in told else Compiled()

    def _assembled(self, pending: PendingAssembly) -> Compiled | None:
        answer = pending.wait()
        told = {} if isinstance(answer, Death) else hostile.fields(answer)
        answers = hostile.dicts(told.get("kernels"))
        if len(answers) != len(pending.kernels):
            self._kernels.again(pending)
            return None
        for each, (_, kernel) in zip(answers, pending.kernels, strict=True):
            if isinstance(refused := each.get("error"), dict):
                message = hostile.one_line(hostile.text(refused, "message"))
                what = f"the kernel runs, but the compiler for the GPU refuses it: {message}"
                case = self._launched.get(kernel.name)
                return Compiled(refusals.of_compiler(case, what, refused))
        self._kernels.keep(pending, answers)
        return Compiled()

    # --- processes -------------------------------------------------------------------------------

    def _spawn_role(
        self, role: str, limits: Limits, buffers: Sequence[tuple[int, int, bool]] = ()
    ) -> Worker:
        return self._sandbox.worker(self.path, self.variant.entry, buffers, limits, role=role)

    def _spawn_compiler(self, limits: Limits) -> Worker:
        return self._spawn_role("compiler", limits)

    # --- what an answer means --------------------------------------------------------------------

    def loading(self, worker: Worker, count: int) -> CaseResult | None:
        """Load the submission in a planner; why that can't be done."""
        return self._loaded(worker, count)

    def death(self, case: Case, death: Death) -> CaseResult:
        """A planner that ended over a case."""
        return self._from_death(case, death)

    def refusal(self, case: Case, reply: Reply) -> CaseResult:
        """What a planner refused or the submission raised there."""
        return self._from_refusal(case, reply)

    def _serves_nobody(self) -> bool:
        """What the executor or the compiler can't be asked is our own trouble."""
        return True

    def _from_compiler(self, case: Case, failure: Failure) -> CaseResult:
        if isinstance(failure.answer, Death):
            died = self._from_death(case, failure.answer)
            what = f"compiling the kernel ended the compiler's process: {died.verdict.what}"
            return replace(died, verdict=Verdict(Status.compile_error, what))
        if failure.answer is not None and not failure.message:
            return self._from_refusal(case, failure.answer)
        what = f"the kernel can't be compiled: {failure.message}"
        return refusals.of_compiler(case, what, failure.fields)

    def _nonsense(self, case: Case) -> CaseResult:
        what = "its process gave the grader a report that makes no sense."
        return CaseResult(case, Verdict(Status.crashed, what))
