"""One Triton variant of one submission, without a GPU: planned, compiled and executed.

Each of the three is a process of its own (worker/plan_processes.py). The planner runs the host
code and has no data; the executor has the data and runs kernels that the compiler made from the
submission's text. What the planner says is a plan, which is held to the rules before it is run.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader import hostile, inputs, plan, triton_memory, triton_report
from grader.arena import Placed, described
from grader.cases import Case
from grader.compare import Verdict
from grader.executors import configurations, refusals
from grader.executors.execution import Execution, Manner, launched
from grader.executors.kept import KeptBuilds
from grader.executors.kernels import Failure, Kernel, Kernels, PendingAssembly, facts
from grader.executors.planners import SECOND_CALL, relies_on_others
from grader.plan import Plan
from grader.runner import CaseResult, Compiled, Runner
from grader.sandbox import Sandbox
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.supervision import Death, Limits, Worker
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply

_LACKS_DATA = "NeedsData"
_FOREIGN_KERNEL = "ForeignKernel"
MAX_PRINTED = 2000  # characters of what kernels print in one case
_RANK = {status: rank for rank, status in enumerate(Status)}  # in the order of precedence


class PlannedTritonRunner(Runner):
    """Runs the cases of one Triton variant by plan. A context manager; the sandbox stays open."""

    def __init__(
        self,
        sandbox: Sandbox,
        exercise: Exercise,
        variant: Variant,
        path: Path,
        watched: bool = True,
        kept: KeptBuilds | None = None,
    ) -> None:
        """`watched`: the rules on plans are kept, but for what the spec allows.

        `kept`: what earlier runs have compiled.
        """
        super().__init__(sandbox, exercise, variant, path, watched)
        rules = exercise.rules_of(variant)
        lifted = not watched or "torch" in rules.lifted
        self._allowed = plan.Allowed(
            frozenset({"*"}) if lifted else rules.torch, exercise.moves_data
        )
        self._plan_limits = plan.Limits(device_bytes=self._limits.memory_bytes)
        self._planner: Worker | None = None
        self._planned_already = False  # whether the planner at hand has made a plan
        self._fitting: set[str] = set()  # configurations that planners have found to fit a GPU
        self._keeps_state = False  # whether each plan takes a planner of its own
        self._kernels = Kernels(self._spawn_compiler, path.parent, kept)
        self._known: set[str] = set()  # kernels that the executor at hand has
        self.plan: Plan | None = None  # of the last run
        self._repeats_plan = False  # whether the next run takes that plan
        self._manner: Manner | None = None  # of the next execution; None for a case's own
        self._configuration: int | None = None  # of the last run, where its kernels are tuned
        self._names: list[str] = []  # of the configurations there were
        self._suspect: int | None = None  # the first configuration with which a run has failed
        self._tuned: set[str] = set()  # dtypes of which a case ran with every configuration
        self._compared: set[str] = set()  # dtypes for which two planners were compared
        self._launched: dict[str, Case] = {}  # the first case that launched each kernel
        self._next: dict[Case, Case] = {}  # the case that is likely to follow each; used once
        self._asked_ahead: Case | None = None  # of which the planner was asked for the plan
        self._met: set[str] = set()  # sets of constants, dtypes and options that were launched
        self._first_met: list[Case] = []  # cases that were the first with one of them

    def close(self) -> None:
        """End every process and give the arena back."""
        super().close()
        self._drop_planner()
        self._kernels.close()

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        super().fresh_worker()
        self._drop_planner()

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each of these planned while the one before it is executed."""
        self._next = dict(itertools.pairwise(cases))

    def run(self, case: Case) -> CaseResult:
        """Run one case; where kernels are tuned, with the configuration that falls to it.

        A dtype's first case runs with every configuration. Once one has failed, all cases that
        follow run with that one, so that they show the same. Raises as Runner.run does.
        """
        self._configuration = None
        result = super().run(case)
        if self._configuration is None:  # nothing was executed, or nothing is tuned
            return self._with_second_call(case, result) if result.verdict.passed else result
        if result.verdict.passed and case.dtype not in self._tuned:
            self._tuned.add(case.dtype)
            result = self._with_others(case, result)
        if result.verdict.passed:
            return self._with_second_call(case, result)
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
        """The plan of a case before the rules are applied, or why there is none.

        A planner that has made other plans makes this one too, unless it depends on them.
        """
        if self._keeps_state:
            self._drop_planner()
        answer = self._answered_ahead(case)
        was_fresh = False
        if answer is None:
            failure = self._start_planner(len(arguments))
            if failure is not None:
                return replace(failure, case=case)
            was_fresh = not self._planned_already
            self._planned_already = True
            known = {"fitting": sorted(self._fitting)}
            document = json.dumps(known).encode() if was_fresh else b""
            answer = self._planner.ask_at_length(Operation.plan, arguments, document=document)
        if not was_fresh and relies_on_others(answer):
            self._keeps_state = True
            return self.plan_of(case, arguments)
        if isinstance(answer, Death):
            self._planner = None
            return self._from_death(case, answer)
        if answer.code is not Code.ok:
            return self._from_planners_refusal(case, answer)
        try:
            made = plan.read(answer.text, _bytes_of(arguments), self._plan_limits)
            self._fitting |= configurations.fitting(made)
            return made
        except plan.PlanError as error:
            what = f"its launcher asks for what can't be planned: {hostile.clean(str(error))}."
            return CaseResult(case, Verdict(Status.launch_error, what), observed_by="worker")

    def _answered_ahead(self, case: Case) -> Reply | Death | None:
        """What the planner answers of a case that it was asked for ahead; None where it wasn't.

        A planner that ends over another case has nothing to do with this one.
        """
        asked, self._asked_ahead = self._asked_ahead, None
        if asked is None:
            return None
        answer = self._planner.wait_at_length()
        if asked == case:
            return answer
        if isinstance(answer, Death):
            self._planner = None
        return None

    def _ask_ahead(self, case: Case) -> None:
        """Ask for the plan of the case that is likely to follow, where no fresh planner is due."""
        following = self._next.pop(case, None)
        if following is None or self._planner is None or self._asked_ahead is not None:
            return
        if self._keeps_state or following.dtype not in self._compared:
            return
        blank = inputs.blank(self.exercise, self.variant, following)
        if self._planner.post(Operation.plan, blank.arguments(described(blank.slots))) is None:
            self._asked_ahead = following
        else:
            self._planner = None

    def failure_as_result(self, planned: Plan | CaseResult, case: Case) -> Plan | CaseResult:
        """What `plan_of` gave: it is a result already where there is no plan."""
        return planned

    # --- one run ---------------------------------------------------------------------------------

    def _start(self, count: int) -> CaseResult | None:
        """A planner with the submission loaded and a fresh executor, or why there is none."""
        failure = self._start_planner(count)
        if failure is None:
            self._worker = self._spawn_role("executor", self._limits, self._arena.buffers)
            self.times.workers += 1
            self._known.clear()
        return failure

    def _start_planner(self, count: int) -> CaseResult | None:
        if self._load_failure is None and self._planner is None:
            planner = self._spawn_role("planner", self._limits)
            self._load_failure = self._loaded(planner, count)
            self._planner = planner if self._load_failure is None else None
            self._planned_already = False
        return self._load_failure

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        planned = self.plan if self._repeats_plan else self._planned(case, arguments)
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
        new = {each.name: each.ttir for each in kernels.values() if each.name not in self._known}
        execution = Execution(
            buffers=planned.buffers,
            steps=steps,
            kernels={number: each.name for number, each in kernels.items()},
            ttir=new,
            again=manner.call > 0,
            count=manner.counts,
            wave=manner.wave,
            races=manner.races,
        )
        died = self._worker.post(Operation.execute, arguments, document=execution.to_json())
        self._ask_ahead(case)
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

    def _planned(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case, held to the rules."""
        is_first = case.dtype not in self._compared
        if is_first and self._planned_already:
            self._drop_planner()
        made = self.plan_of(case, arguments)
        if isinstance(made, CaseResult):
            return made
        if is_first:
            self._compared.add(case.dtype)
            if (differs := self._compare_planners(case, arguments, made)) is not None:
                return differs
        if broken := plan.violations(plan.allow(made, self._allowed), self._allowed):
            return refusals.from_violation(case, broken[0])
        return plan.allow(made, self._allowed)

    def _compare_planners(
        self, case: Case, arguments: Sequence[Argument], made: Plan
    ) -> CaseResult | None:
        """Whether another fresh planner gives another plan for the same case."""
        self._drop_planner()
        again = self.plan_of(case, arguments)
        if isinstance(again, CaseResult):
            return again
        differs = plan.difference(made, again)
        if not differs:
            return None
        what = f"planned twice for the same case, the entry asks for different things: {differs}."
        hint = "What a launcher does may depend on shapes, strides and dtypes, on nothing else."
        verdict = Verdict(Status.nondeterministic, what, "plans")
        return CaseResult(case, verdict, hint=hint)

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
        return replace(self._explained(case, fields, verdict), printed=printed)

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
        self._kernels.keep(pending)
        return Compiled()

    # --- processes -------------------------------------------------------------------------------

    def _spawn_role(
        self, role: str, limits: Limits, buffers: Sequence[tuple[int, int, bool]] = ()
    ) -> Worker:
        return self._sandbox.worker(self.path, self.variant.entry, buffers, limits, role=role)

    def _spawn_compiler(self, limits: Limits) -> Worker:
        return self._spawn_role("compiler", limits)

    def _drop_planner(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None
        self._asked_ahead = None

    # --- what an answer means --------------------------------------------------------------------

    def _serves_nobody(self) -> bool:
        """What the executor or the compiler can't be asked is our own trouble."""
        return True

    def _from_planners_refusal(self, case: Case, reply: Reply) -> CaseResult:
        if reply.code is Code.bad_request:  # the submission's Python shares that process
            told = hostile.one_line(hostile.text(hostile.fields(reply), "message"))
            what = f"its planner could not serve a request: {told}"
            return CaseResult(case, Verdict(Status.crashed, what), observed_by="worker")
        result = self._from_refusal(case, reply)
        fields = hostile.fields(reply)
        if hostile.text(fields, "type") in (_LACKS_DATA, _FOREIGN_KERNEL):
            what = hostile.one_line(hostile.text(fields, "message"))
            hint = hostile.one_line(hostile.text(fields, "instead"))
            verdict = Verdict(Status.policy_violation, what, "data")
            return replace(result, verdict=verdict, hint=hint)
        return result

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


def _bytes_of(arguments: Sequence[Argument]) -> list[int | None]:
    """The bytes of each tensor's allocation, guard zones included; None for scalars."""
    return [each.allocation[1] if each.kind is Kind.tensor else None for each in arguments]
