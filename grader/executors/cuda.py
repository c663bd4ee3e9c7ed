"""One CUDA C++ variant of one submission without a GPU: host code plans, kernels are executed.

Of the two programs that native.build makes of a file, the planner runs the host code where there is
no data, and the executor runs kernels on data and has no host code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from grader import hostile, native_plan, plan
from grader.arena import INPUTS
from grader.cases import Case
from grader.compare import Verdict
from grader.emulator import report
from grader.executors import refusals
from grader.executors.planners import REORDERED, SECOND_CALL, relies_on_others
from grader.native_runner import UNSUPPORTED, NativeRunner
from grader.plan import Plan
from grader.plan.model import Launch, Readback
from grader.policy.cuda.findings import instead_of
from grader.runner import CaseResult
from grader.spec import Tensor
from grader.status import Status
from grader.supervision import Death, SandboxError, Worker
from grader.worker.protocol import Argument, Code, DType, Kind, Operation, Reply, Space

# What is left of its addresses behind those of cudaMalloc (emulator/runtime/device_memory.h).
MOST_ARENA_BYTES = 760 << 20
_NO_RESULTS_ON_THE_HOST = (
    "this copy to the host gives zeros: a launcher plans its kernels before they run. What the "
    "next kernel needs of the last one has to stay on the device."
)

_AS_ASKED: Mapping[str, Any] = MappingProxyType({"calls": (0,)})


class PlannedNativeRunner(NativeRunner):
    """Runs the cases of one CUDA C++ variant by plan. Its program must be a planned one."""

    _call = Operation.plan
    _planner: Worker | None = None
    _planner_is_fresh = True  # whether the last plan was its first
    _readable: Sequence[tuple[int, int, bool]] = ()  # buffers that a planner may read
    _planned_report: report.Report | None = None
    _readback: Readback | None = None  # the first of the last plan
    _way = _AS_ASKED
    # In which the last plan must be right, too: the status where it isn't, words before what is
    # wrong, the way.
    _other_ways: Sequence[tuple[Status, str, Mapping[str, Any]]] = ()
    plan: Plan | None = None  # of the last run
    _counts = False  # whether the next run counts accesses
    _without: Collection[int] = ()  # places of launches among the first call's steps

    def close(self) -> None:
        """End every process and give the arena back."""
        super().close()
        self._drop_planner()

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        super().fresh_worker()
        self._drop_planner()

    def run(self, case: Case) -> CaseResult:
        """Run one case; one that passes also with its second call, and in another order.

        The second call is the one that is timed: where it isn't the first again, that one may have
        set something up. Of streams that don't wait for each other either may be first. Raises as
        Runner.run does.
        """
        first = super().run(case)
        if not first.verdict.passed and not self._planner_is_fresh:
            self._drop_planner()  # what it has kept where nobody looks is not to be held against it
            first = super().run(case)
        if not first.verdict.passed or self._counts:
            return first
        judged = self._watched and self.exercise.moves_data
        if judged and self.plan is not None and plan.copies_to_arguments(self.plan):
            asked = self.plan
            launches = [n for n, step in enumerate(asked.calls[0]) if isinstance(step, Launch)]
            if self.is_right_without(case, launches):
                return refusals.from_violation(case, plan.copies_alone(asked))
        for status, words, way in self._other_ways:
            self._way = way
            try:
                other = super().run(case)
            finally:
                self._way = _AS_ASKED
            if not other.verdict.passed:
                return replace(other, verdict=Verdict(status, words + other.verdict.what))
        return first

    def measure(self, case: Case, without: Collection[int] = ()) -> report.Report | CaseResult:
        """Run a case with every access counted: what the emulator saw, or how the run failed.

        Launches at the places `without` of the plan's first call are left out. Nothing is counted
        where nvcc may make other kernels of the file. Raises what `run` raises.
        """
        for each in self.program.conditions[:1]:
            what = (
                f"{self.variant.file}:{each.line} asks for {each.macro}, which nvcc may answer "
                "otherwise than the emulator's compiler. What is counted here need not be what "
                "runs on a GPU, so there are no points for memory."
            )
            hint = "Write the same code for every compiler."
            return CaseResult(case, Verdict(Status.target_missed, what), each.line, hint=hint)
        reports: list[report.Report] = []
        self._without, self._counts, self._on_report = without, True, reports.append
        self._drop_planner()
        try:
            result = self.run(case)
        finally:
            self._without, self._counts, self._on_report = (), False, None
        return reports[-1] if result.verdict.passed and reports else result

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result.

        The executor is a fresh one: in that of another run the results of a launch that is left
        out may still be in the device's memory. Raises as Runner.run does.
        """
        self._without = places
        self._drop_worker()
        try:
            return super().run(case).verdict.passed
        finally:
            self._without = ()
            self._drop_worker()

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
        if answer.code is Code.raised and hostile.fields(answer).get("type") == "Plan":
            return self._unplannable(case, hostile.text(hostile.fields(answer), "message"))
        if answer.code is not Code.ok:
            return answer
        try:
            return plan.read(answer.text, [_bytes_of(each) for each in arguments])
        except plan.PlanError as error:
            reads = ", and it copies results to the host" * ('"do":"readback"' in answer.text)
            return self._unplannable(case, f"{error}{reads}", getattr(error, "instead", ""))

    def _unplannable(self, case: Case, why: str, instead: str = "") -> CaseResult:
        """For a launcher that asks for too much, or for what makes no sense."""
        why = hostile.one_line(hostile.clean(why))
        if self._watched and why.endswith("copies results to the host"):
            verdict = Verdict(Status.policy_violation, f"{why}.", "computed")
            return CaseResult(case, verdict, None, "", "worker", instead_of("library"))
        what = f"{why}." if instead else f"its launcher asks for what can't be planned: {why}."
        verdict = Verdict(Status.launch_error, what)
        return CaseResult(case, verdict, observed_by="worker", hint=instead)

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
        room = sum(length for _, length, _ in self._arena.buffers)
        if room > MOST_ARENA_BYTES:
            what = (
                f"the emulator has {MOST_ARENA_BYTES >> 20} MiB for a case's tensors and their "
                f"surroundings, and this one takes {room >> 20}; {UNSUPPORTED}"
            )
            return CaseResult(None, Verdict(Status.not_measured, what))
        if self._load_failure is None:
            self._worker = self._process(self.program.executor, self._arena.buffers)
        return self._load_failure

    def _spawn_host(self, path: Path) -> Worker:
        return self._process(path, self._readable)

    def _start_planner(self, arguments: Sequence[Argument]) -> CaseResult | None:
        if self._load_failure is not None:
            return self._load_failure
        readable = self._arena.buffers[: INPUTS + 1] if _only_host_inputs(arguments) else []
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

    def _ask(self, case: Case, arguments: Sequence[Argument]) -> Reply | Death | CaseResult:
        made = self.plan_of(case, arguments)
        if not isinstance(made, Plan):
            return made
        self.plan = made
        self._readback = next((s for s in made.calls[0] if isinstance(s, Readback)), None)
        tensors = {
            place: each
            for place, each in enumerate(self.task.signature)
            if isinstance(each, Tensor)
        }
        outputs = [place for place, each in tensors.items() if each.role == "output"]
        inputs = [
            place
            for place, each in tensors.items()
            if each.role == "input" and _is_dense_and_floating(arguments[place])
        ]
        try:
            if self._way is _AS_ASKED:
                inout = any(each.role == "inout" for each in tensors.values())
                self._other_ways = list(_ways(made, inout))
            document = native_plan.document(
                made,
                counters=self._counts,
                # Whoever keeps results in the device's variables is to be seen giving old ones.
                fresh_variables=False,
                outputs=outputs,
                inputs=inputs,
                without=self._without,
                **self._way,
            )
        except native_plan.NotExecutable as error:
            what = f"the emulator doesn't support {error}; {UNSUPPORTED}"
            return CaseResult(case, Verdict(Status.not_measured, what), observed_by="worker")
        answer = self._worker.ask(Operation.execute, arguments, document=document)
        answer = self._combined(answer, made, arguments)
        is_sound = isinstance(answer, Reply) and answer.code is Code.ok
        return (self._violation(case, made) if is_sound else None) or answer

    def _violation(self, case: Case, made: Plan) -> CaseResult | None:
        """Whether copies that host code asks for do the exercise's work."""
        if not self._watched:
            return None
        if not self.exercise.moves_data:
            return None
        for broken in plan.violations(made, plan.Allowed(moves_data=True)):
            verdict = Verdict(Status.policy_violation, f"{broken.what}.", "computed")
            return CaseResult(case, verdict, broken.line or None, "", "worker", broken.instead)
        return None

    def _judged(self, case: Case, fields: dict[str, Any], verdict: Verdict) -> CaseResult:
        """The verdict on the outputs; a wrong one may come of results that host code asked for.

        What the host computed can't have been right: it has no data.
        """
        if verdict.passed or self._readback is None:
            return CaseResult(case, verdict)
        place = f"{self.variant.file}:{self._readback.line}"
        computed = self._computed_by_library(case, fields)
        return computed or CaseResult(case, verdict, hint=f"{place}: {_NO_RESULTS_ON_THE_HOST}")

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

    def _drop_arena(self) -> None:
        self._drop_planner()  # which may read the old one
        super()._drop_arena()

    def _drop_planner(self) -> None:
        if self._planner is not None:
            self._planner.close()
            self._planner = None


def _ways(made: Plan, inout: bool) -> Iterator[tuple[Status, str, Mapping[str, Any]]]:
    """The ways to execute a plan that may show what the first call, as asked, doesn't.

    `inout`: a call changes what it is given, so that a second one can't be given the same.
    """
    if not inout and not native_plan.repeats(made):
        yield Status.nondeterministic, SECOND_CALL, {"calls": (0, 1)}
    streams = {step.stream for step in made.calls[0] if isinstance(step, Launch)}
    if len(streams) > 1 and native_plan.document(made) != native_plan.document(
        made, reordered=True
    ):
        yield Status.data_race, REORDERED, {"calls": (0,), "reordered": True}


def _is_dense_and_floating(argument: Argument) -> bool:
    """Whether any order of a tensor's elements is a value that it could have, on the device."""
    dense = [math.prod(argument.shape[place + 1 :]) for place in range(len(argument.shape))]
    is_dense = all(
        n == 1 or s == d for n, s, d in zip(argument.shape, argument.strides, dense, strict=True)
    )
    return is_dense and not _is_on_host(argument) and "float" in DType(argument.dtype).name


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
