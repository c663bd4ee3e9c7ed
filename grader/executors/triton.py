"""One Triton variant of one submission, without a GPU: planned, compiled and executed.

Each of the three is a process of its own (worker/plan_processes.py). The planner runs the host
code and has no data; the executor has the data and runs kernels that the compiler made from the
submission's text. What the planner says is a plan, which is held to the rules before it is run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from grader import plan
from grader.cases import Case
from grader.cases.arena import Placed
from grader.cases.compare import Verdict
from grader.executors import configurations, orders, refusals, triton_metrics, triton_report
from grader.executors.cubins import NoCubin
from grader.executors.execution import Execution, Manner, launched
from grader.executors.gpu_document import DeviceKernel
from grader.executors.kept import KeptBuilds
from grader.executors.kernels import Failure, Kernel, Kernels, PendingAssembly, facts
from grader.executors.planners import REORDERED, SECOND_CALL, notes_of
from grader.executors.runner import CaseResult, Compiled, Runner
from grader.executors.triton_planner import TritonPlanner
from grader.plan import Plan, Specialisation, Step
from grader.sandbox import Sandbox, untrusted
from grader.sandbox.worker_process import Cause, Death, Limits, Worker
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, Code, Operation, Reply

MAX_PRINTED = 2000  # characters of what kernels print in one case
_IN_IEEE = (
    "tl.dot rounds float32 inputs to TF32, 10 bits of mantissa, unless it gets "
    'input_precision="ieee". With that this case is right.'
)
_Shown = TypeVar("_Shown")
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
        made: dict[str, DeviceKernel | NoCubin] | None = None,
    ) -> None:
        """`watched`: the rules on plans are kept, but for what the spec allows.

        `kept`: what earlier runs have compiled; `made`: cubins of other runners of the submission.
        """
        super().__init__(sandbox, task, path)
        rules = task.rules
        shared = {} if made is None else made
        self._kernels = Kernels(self._spawn_compiler, path.parent, kept, shared)
        lifted = not watched or "torch" in rules.lifted
        self._planner = TritonPlanner(
            lambda: self._spawn_role("planner", self._limits),
            task,
            plan.Allowed(frozenset({"*"}) if lifted else rules.torch, task.exercise.moves_data),
            plan.Limits(device_bytes=self._limits.memory_bytes),
            explain=self,
            passed_over=self._kernels.passed_over,
        )
        self._known: set[str] = set()  # kernels that the executor at hand has
        self.plan: Plan | None = None  # of the last run
        self._repeats_plan = False  # whether the next run takes that plan
        self._manner: Manner | None = None  # of the next execution; None for a case's own
        self._configuration: int | None = None  # of the last run, where its kernels are tuned
        self._names: list[str] = []  # of the configurations there were
        self._suspect: int | None = None  # the first configuration with which a run has failed
        self._known_passed_over = 0  # configurations, when a run was last asked about
        self._ran_tuned: list[Specialisation] = []  # kernels of the last run that are tuned
        self._among: dict[str, tuple[Specialisation, ...]] = {}  # configurations, by each one's key
        self._tuned: set[str] = set()  # dtypes of which a case ran with every configuration
        self._launched: dict[str, Case] = {}  # the first case that launched each kernel
        self._met: set[str] = set()  # sets of constants, dtypes and options that were launched
        self._rounds_to_tf32 = False  # whether one of them rounds float32 inputs of tl.dot
        self._first_met: list[str] = []  # kernels that were the first with one of them
        # By kernel: in which case most is known of its arguments' alignment, and how much.
        self._aligned: dict[str, tuple[int, Case]] = {}
        self._names_of: dict[int, str] = {}  # the kernels of the last execution, by number
        self._atomics: Sequence[orders.Seen] = ()  # what it told of them
        self._reordered = orders.Reordered()

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
        follow run with that one, so that they show the same. One that fails counts only where a GPU
        has room for it. Raises as Runner.run does.
        """
        with_every = case.dtype not in self._tuned
        result = self._settled(lambda: self._run_configured(case, with_every))
        if result.verdict.passed or self._configuration is None:
            return result
        self._suspect = self._configuration
        label = configurations.label(self._configuration, self._names)
        verdict = replace(result.verdict, what=f"{result.verdict.what} It ran with {label}.")
        return replace(result, verdict=verdict)

    def _settled(self, work: Callable[[], _Shown]) -> _Shown:
        """What a piece of work shows without configurations that Triton's tuner passes over.

        Which those are is known once a compiler was asked, so it is begun again after a failure.
        """
        shown = work()
        for _ in range(configurations.MAX_TRIED):
            failed = isinstance(shown, CaseResult) and not shown.verdict.passed
            if not failed or not self.learns_what_is_passed_over():
                break
            shown = work()
        return shown

    def learns_what_is_passed_over(self) -> bool:
        """Ask the compilers for the last run's tuned kernels: whether a tuner passes over one.

        False where there is no news, so that the run would be the same if it were repeated.
        """
        before, self._known_passed_over = self._known_passed_over, len(self._kernels.passed_over)
        if before == self._known_passed_over:
            for each in self._ran_tuned:
                self._kernels.is_passed_over(each)
            self._known_passed_over = len(self._kernels.passed_over)
        return before < self._known_passed_over

    def standing(self) -> list[int]:
        """The last plan's configurations, by number, that nothing is known to keep from a GPU."""
        return configurations.standing(self.plan, self._kernels.passed_over)

    def _run_configured(self, case: Case, with_every: bool) -> CaseResult:
        self._configuration = None
        result = self._in_other_orders(case, super().run(case))
        if with_every and result.verdict.passed and self._configuration is not None:
            self._tuned.add(case.dtype)
            result = self._with_others(case, result)
        return self._with_other_ways(case, result) if result.verdict.passed else result

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

        def measured() -> triton_report.Report | CaseResult:
            result = self._run_with(case, manner)
            return reports[-1] if result.verdict.passed and reports else result

        try:
            return self._settled(measured)
        finally:
            self._on_report = None

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result."""
        manner = Manner(races=False, without=frozenset(places))
        return self._with_plan(case, manner).verdict.passed

    def advice(self, result: CaseResult) -> str:
        """That TF32 is what makes float32 wrong, where the case is right without it."""
        is_wrong = result.status is Status.wrong_values
        if not (is_wrong and self._rounds_to_tf32 and result.case.dtype == "float32"):
            return ""
        manner = Manner(races=False, in_ieee=True, configuration=self._suspect)
        return _IN_IEEE if self._run_with(result.case, manner).verdict.passed else ""

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
        """A case that passed, run in further ways: the first one that fails decides.

        Steps of streams that don't wait for each other run in another order; a second call that
        does other work runs on other values; and where the exercise is about moving data, the plan
        runs without its kernels, which has to fail.
        """
        manner = Manner(configuration=self._configuration)
        steps = manner.steps(self.plan, self._kernels.passed_over)
        if len(plan.streams(steps)) > 1 and plan.reorder(steps, memory_waits=False) != steps:
            manner = Manner(configuration=self._configuration, reordered=True, races=False)
            other = self._with_plan(case, manner)
            if not other.verdict.passed:
                what = REORDERED + other.verdict.what
                return replace(other, verdict=Verdict(Status.data_race, what, "streams"))
        self._configuration = None  # a second call runs with the planner's
        result = self._with_second_call(case, result)
        judged = plan.copies_to_arguments(self.plan) and self._planner.judges_copies
        if result.verdict.passed and judged:
            launches = [n for n, step in enumerate(self.plan.calls[0]) if step.do == "launch"]
            if self.is_right_without(case, launches):
                return refusals.from_violation(case, plan.copies_alone(self.plan))
        return result

    def _with_second_call(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, and whose second call does other work, with that call on new values.

        What the first call left is there; what it computed is of no use to the second one.
        """
        if plan.repeats(self.plan):
            return result
        again = replace(case, seed=case.seed + 1)
        second = self._with_plan(again, Manner(call=1, races=False))
        second = self._in_other_orders(again, second, call=1, before=case)
        if second.verdict.passed:
            return result
        what = SECOND_CALL + second.verdict.what
        verdict = Verdict(Status.nondeterministic, what, "second_call")
        return replace(second, case=case, verdict=verdict)

    def _with_others(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, run with the other configurations: the first result that fails."""
        done = self._configuration
        for number in self.standing()[: configurations.MAX_TRIED]:
            if number == done or not result.verdict.passed:
                continue
            self._configuration = number
            result = self._with_plan(case, Manner(configuration=number))
            result = self._in_other_orders(case, result)
        return result

    def _in_other_orders(
        self, case: Case, result: CaseResult, call: int = 0, before: Case | None = None
    ) -> CaseResult:
        """A case that passed, run with programs in other orders where atomics may tell the order.

        A second call comes after the first, of the case `before`.
        """
        if not result.verdict.passed:
            return result
        names = self._names_of
        seen = self._reordered.wanted(self._atomics, names)
        plain = Manner(races=False, configuration=None if call else self._configuration)
        for order in orders.others(case, seen):
            if before is not None:
                self._with_plan(before, plain)
            other = self._with_plan(case, replace(plain, call=call, order=order))
            if orders.shows_nothing(other):
                self._with_plan(before or case, plain)  # a process that has ended left nothing
                break
            if not other.verdict.passed:
                self._reordered.tried(seen, names, was_right=False)
                return orders.as_nondeterministic(other, self.variant.file, seen[0].line)
        self._reordered.tried(seen, names, was_right=True)
        return result

    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case before the rules are applied, or why there is none."""
        return self._planner.plan_of(case, arguments)

    def planned(
        self,
        case: Case,
        arguments: Sequence[Argument],
        buffers: Sequence[tuple[int, int, bool]] = (),
    ) -> Plan | CaseResult:
        """The plan of a case, held to the rules, or why there is none; it reads no buffers."""
        failure = self._planner.start(len(arguments))
        return self._planner.planned(case, arguments) if failure is None else failure

    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], dict[int, DeviceKernel]] | CaseResult:
        """The steps of a call and the compiled kernels that they launch, or why there are none.

        Tuned kernels are in the given configuration, else in the one that falls to the case.
        """
        if configuration is None and call == 0:
            configuration = self._configured(case, planned)
        for _ in range(configurations.MAX_TRIED):
            before = len(self._kernels.passed_over)
            steps = configurations.steps(
                planned, call, configuration, passed_over=self._kernels.passed_over
            )
            made = {n: self._kernels.cubin(planned.specialisations[n]) for n in launched(steps)}
            failed = [each for each in made.values() if isinstance(each, Failure)]
            if not failed:
                return steps, made
            if len(self._kernels.passed_over) == before:
                break
        return self._from_compiler(case, failed[0])

    def compile_view(self, ttir: str) -> DeviceKernel:
        """A kernel of ours that copies a strided view. Raises NotExecutable."""
        return self._kernels.cubin_of_ours(ttir)

    def configurations_of(self, planned: Plan) -> list[int]:
        """The configurations that a GPU has a choice of, by number; [] where nothing is tuned."""
        if not configurations.names_of(planned):
            return []
        return configurations.standing(planned, self._kernels.passed_over)

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
        self._ran_tuned = []
        planned = self.plan if self._repeats_plan else self._planner.planned(case, arguments)
        if isinstance(planned, CaseResult):
            return planned
        self.plan = planned
        manner = self._manner or Manner(configuration=self._configured(case, planned))
        steps = manner.steps(planned, self._kernels.passed_over)
        kernels = self._translated(case, planned, launched(steps))
        if isinstance(kernels, CaseResult):
            return kernels
        if in_gluon := refusals.of_gluon(case, map(planned.specialisations.__getitem__, kernels)):
            return in_gluon
        # Only what is counted depends on how the kernel is compiled.
        layouts = self._kernels.layouts(planned.specialisations, kernels) if manner.counts else {}
        if manner.in_ieee:
            kernels = {number: each.in_ieee() for number, each in kernels.items()}
        new = {each.name: each.ttir for each in kernels.values() if each.name not in self._known}
        execution = Execution(
            buffers=planned.buffers,
            steps=steps,
            kernels={number: each.name for number, each in kernels.items()},
            ttir=new,
            layouts=layouts,
            seed=orders.seed_of(case),
            again=manner.call > 0,
            count=manner.counts,
            wave=manner.wave,
            races=manner.races,
            order=manner.order,
        )
        self._names_of, self._atomics = execution.kernels, ()
        died = self._worker.post(Operation.execute, arguments, document=execution.to_json())
        self._planner.ask_ahead(case)
        answer = died or self._worker.wait_at_length()
        if isinstance(answer, Reply):
            self._known.update(new)
        return answer

    def _translated(
        self, case: Case, planned: Plan, numbers: Sequence[int]
    ) -> dict[int, Kernel] | CaseResult:
        """The kernels of a plan that are launched, or why there is one that can't be."""
        kernels: dict[int, Kernel] = {}
        tunings = configurations.tunings(planned)
        for number in numbers:
            wanted = planned.specialisations[number]
            kernel = self._kernels.translate(wanted)
            if (among := tunings.get(number)) is not None:
                self._ran_tuned.append(wanted)
                if configurations.key_of(wanted) not in self._among:
                    self._among.update((configurations.key_of(each), among) for each in among)
                if (refused := self._passed_over(case, wanted)) is not None:
                    return refused
            if isinstance(kernel, Failure):
                return self._from_compiler(case, kernel)
            self._note(case, kernel, wanted)
            self._rounds_to_tf32 |= kernel.rounds_to_tf32
            kernels[number] = kernel
        return kernels

    def _passed_over(self, case: Case, wanted: Specialisation) -> CaseResult | None:
        """What is said of a launch that a tuner passes over and that is in a plan all the same.

        That is because no configuration is left, or because it wasn't known when this was planned.
        """
        if configurations.key_of(wanted) not in self._kernels.passed_over:
            return None
        among = self._among[configurations.key_of(wanted)]
        for each in among:  # each would be tried
            self._kernels.translate(each)
        self._configuration = None  # the message names them
        return self._none_left(case, among)

    def _note(self, case: Case, kernel: Kernel, wanted: Specialisation) -> None:
        """Who launches a kernel: the first case, and the one whose arguments are aligned best."""
        known = len(wanted.attributes)
        if kernel.name not in self._launched:
            self._launched[kernel.name] = case
            told = facts(wanted)
            if not told <= self._met:
                self._first_met.append(kernel.name)
            self._met |= told
        if known > self._aligned.get(kernel.name, (-1, case))[0]:
            self._aligned[kernel.name] = known, case

    def take_first_met(self) -> list[Case]:
        """A case for each kernel that since the last time was first with constants, dtypes or
        options: the one whose cubin is the one that is compiled for all of them."""
        taken, self._first_met = self._first_met, []
        return list(dict.fromkeys(self._aligned[name][1] for name in taken))

    def _configured(self, case: Case, planned: Plan) -> int | None:
        """The configuration that a case is run with; None where its kernels aren't tuned."""
        self._names = configurations.names_of(planned)
        if self._names:
            standing = configurations.standing(planned, self._kernels.passed_over)
            suspect = None if self._suspect is None else self._suspect % len(self._names)
            if suspect in standing:
                self._configuration = suspect
            elif standing:
                self._configuration = standing[configurations.first_for(case, len(standing))]
        return self._configuration

    def _answered(self, case: Case, answer: Reply) -> CaseResult | None:
        if answer.code is Code.raised:
            return refusals.from_executor(case, untrusted.fields(answer))
        told = super()._answered(case, answer)
        if told is not None:
            return told
        fields = untrusted.fields(answer)
        try:
            self._atomics = orders.read(fields)
            if self._on_report is not None:
                self._on_report(triton_report.parse(fields.get("accesses")))
        except ValueError:
            return self._nonsense(case)
        return None

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what the executor found; and what kernels printed."""
        printed = untrusted.text(fields, "printed")[:MAX_PRINTED]
        result = self._explained(case, fields, verdict)
        returned = untrusted.clean(self.plan.returned)
        if result.status is Status.not_written and returned:
            result = self._returned_instead(case, returned)
        return replace(result, printed=printed, notes=notes_of(self.plan))

    def _explained(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs, or what the executor found where that explains more."""
        if "findings" not in fields:
            return CaseResult(case, verdict)
        try:
            worst = triton_metrics.worst_of(triton_report.parse_findings(fields["findings"]))
        except triton_report.ReportError:
            return self._nonsense(case)
        status = triton_metrics.status_of(worst)
        if _RANK[verdict.status] < _RANK[status]:
            return CaseResult(case, verdict)
        source = self.path.read_bytes().decode("utf-8", "replace").splitlines()
        names = triton_metrics.arguments(self.exercise, self.variant, case)
        what, hint = triton_report.message_of(worst, names, self.variant.file, source)
        explained = Verdict(status, untrusted.clean(what), worst.kind)
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
        told = [self._kernels.settled(each) for each in pending]
        for each, answer in zip(pending, told, strict=True):
            if answer is None:
                self._kernels.again(each)
        refused = [each for answer in told for each in answer or ()]
        failures = (self._from_backend(*each) for each in refused)
        failure = next((each for each in failures if each is not None), None)
        self.times.compiles += time.perf_counter() - started
        return Compiled(failure) if failure or None not in told else None

    def _from_backend(
        self, wanted: Specialisation, kernel: Kernel, failure: Failure
    ) -> CaseResult | None:
        """What it means that the backend refuses a kernel; nothing where a tuner has others."""
        case = self._launched.get(kernel.name)
        key = configurations.key_of(wanted)
        if key in self._kernels.passed_over and (among := self._among.get(key)) is not None:
            if not all(self._kernels.is_passed_over(each) for each in among):
                return None
            return self._none_left(case, among)
        if wanted.language == "gluon":
            return self._from_compiler(case, failure)
        what = f"the kernel runs, but the compiler for the GPU refuses it: {failure.message}"
        return refusals.of_compiler(case, what, failure.fields)

    def _none_left(self, case: Case | None, among: Sequence[Specialisation]) -> CaseResult:
        names = configurations.words_of(among)
        keys = [configurations.key_of(each) for each in among]
        refused = {
            configurations.label(number, names): self._kernels.passed_over[key]
            for number, key in enumerate(keys)
            if key in self._kernels.passed_over
        }
        return refusals.of_configurations(case, refused)

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
        result = self._from_death(case, death)
        if death.cause is not Cause.timed_out:
            return result
        what = (
            f"the launcher took longer than {self._limits.cpu_seconds:g} s of computing "
            f"({self._limits.wall_seconds:g} s in all); it runs without data."
        )
        hint = "Does each loop in it end? Its kernels' loops aren't run there."
        return replace(result, verdict=Verdict(Status.timed_out, what), hint=hint)

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
