"""One CUDA C++ variant of one submission without a GPU: host code plans, kernels are executed.

Of the two programs that native.build makes of a file, the planner runs the host code where there is
no data, and the executor runs kernels on data and has no host code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from grader import plan
from grader.cases import Case
from grader.cases.compare import Verdict
from grader.emulator import report
from grader.executors import emulator_plan, orders, refusals
from grader.executors.native_plans import NativePlans, is_on_host
from grader.executors.native_runner import UNSUPPORTED
from grader.executors.planners import REORDERED, SECOND_CALL
from grader.executors.runner import CaseResult
from grader.plan import Plan
from grader.plan.model import Launch, Readback
from grader.sandbox.worker_process import Death
from grader.spec import Tensor
from grader.status import Status
from grader.worker.protocol import Argument, Code, DType, Operation, Reply

# What is left of its addresses behind those of cudaMalloc (emulator/runtime/device_memory.h).
MOST_ARENA_BYTES = 760 << 20
_NO_RESULTS_ON_THE_HOST = (
    "this copy to the host gives zeros: a launcher plans its kernels before they run. What the "
    "next kernel needs of the last one has to stay on the device."
)

_AS_ASKED: Mapping[str, Any] = MappingProxyType({"calls": (0,)})


class PlannedNativeRunner(NativePlans):
    """Runs the cases of one CUDA C++ variant by plan. Its program must be one for the emulator."""

    _readback: Readback | None = None  # the first of the last plan
    _way = _AS_ASKED
    # In which the last plan must be right, too: the status where it isn't, words before what is
    # wrong, the way.
    _other_ways: Sequence[tuple[Status, str, Mapping[str, Any]]] = ()
    plan: Plan | None = None  # of the last run
    _counts = False  # whether the next run counts accesses
    _without: Collection[int] = ()  # places of launches among the first call's steps
    _order: orders.Order | None = None  # of the next run's blocks; None: by their numbers
    _atomics: Sequence[orders.Seen] = ()  # of the last run

    def __init__(self, *args: Any, **more: Any) -> None:
        """As NativePlans."""
        super().__init__(*args, **more)
        self._reordered = orders.Reordered()

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
        other_ways, atomics = self._other_ways, self._atomics
        judged = self._watched and self.exercise.moves_data
        if judged and self.plan is not None and plan.copies_to_arguments(self.plan):
            asked = self.plan
            launches = [n for n, step in enumerate(asked.calls[0]) if isinstance(step, Launch)]
            if self.is_right_without(case, launches):
                return refusals.from_violation(case, plan.copies_alone(asked))
        self._atomics = atomics
        if not (ordered := self._in_other_orders(case, first)).verdict.passed:
            return ordered
        for status, words, way in other_ways:
            self._way = way
            try:
                other = super().run(case)
                if not way.get("reordered"):
                    other = self._in_other_orders(case, other)
            finally:
                self._way = _AS_ASKED
            if not other.verdict.passed:
                return replace(other, verdict=Verdict(status, words + other.verdict.what))
        return first

    def _in_other_orders(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, run with blocks in other orders where atomics may tell the order.

        What an earlier run has left in the device's variables may be what a block waits for, so
        each has processes of its own.
        """
        if not result.verdict.passed:
            return result
        names = {0: f"{case.dtype} {_kernels_of(self.plan)}"}
        seen = self._reordered.wanted(self._atomics, names)
        for order in orders.others(case, seen):
            self._order = order
            self._drop_planner()
            self._drop_worker()
            try:
                other = super().run(case)
            finally:
                self._order = None
                self._drop_worker()
            if not other.verdict.passed and not orders.shows_nothing(other):
                self._reordered.tried(seen, names, was_right=False)
                line = seen[0].line
                return orders.as_nondeterministic(other, self.variant.file, line, "block")
        self._reordered.tried(seen, names, was_right=True)
        return result

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
            document = emulator_plan.document(
                made,
                counters=self._counts,
                # Whoever keeps results in the device's variables is to be seen giving old ones.
                fresh_variables=False,
                outputs=outputs,
                inputs=inputs,
                without=self._without,
                **self._way,
            )
        except emulator_plan.NotExecutable as error:
            what = f"the emulator doesn't support {error}; {UNSUPPORTED}"
            return CaseResult(case, Verdict(Status.not_measured, what), observed_by="worker")
        if self._order is not None:
            document = emulator_plan.in_block_order(
                document, self._order.seed, self._order.backwards
            )
        answer = self._worker.ask(Operation.execute, arguments, document=document)
        answer = self._combined(answer, made, arguments)
        is_sound = isinstance(answer, Reply) and answer.code is Code.ok
        return (self._violation(case, made) if is_sound else None) or answer

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
        self._atomics = ()
        if isinstance(answer, Death) or answer.code not in (Code.ok, Code.found):
            return answer
        seen = self._read_report(answer)
        if seen is None:
            return answer
        if seen.atomic_pc:
            line = self.program.line_of(seen.atomic_pc) or 0
            self._atomics = [orders.Seen(line=line, programs=seen.atomic_blocks)]
        on_host = {i for i, each in enumerate(arguments) if is_on_host(each)}
        whole = emulator_plan.combined(
            self._planned_report, seen, emulator_plan.copies(made, 0, on_host)
        )
        code = Code.found if whole.findings else Code.ok
        return Reply(answer.sequence, code, report.to_json(whole))


def _ways(made: Plan, inout: bool) -> Iterator[tuple[Status, str, Mapping[str, Any]]]:
    """The ways to execute a plan that may show what the first call, as asked, doesn't.

    `inout`: a call changes what it is given, so that a second one can't be given the same.
    """
    if not inout and not emulator_plan.repeats(made):
        yield Status.nondeterministic, SECOND_CALL, {"calls": (0, 1)}
    streams = {step.stream for step in made.calls[0] if isinstance(step, Launch)}
    if len(streams) > 1 and emulator_plan.document(made) != emulator_plan.document(
        made, reordered=True
    ):
        yield Status.data_race, REORDERED, {"calls": (0,), "reordered": True}


def _kernels_of(made: Plan) -> str:
    """The kernels that a plan launches, by name."""
    steps = (step for call in made.calls for step in call if isinstance(step, Launch))
    return " ".join(sorted({made.specialisations[step.specialisation].kernel for step in steps}))


def _is_dense_and_floating(argument: Argument) -> bool:
    """Whether any order of a tensor's elements is a value that it could have, on the device."""
    dense = [math.prod(argument.shape[place + 1 :]) for place in range(len(argument.shape))]
    is_dense = all(
        n == 1 or s == d for n, s, d in zip(argument.shape, argument.strides, dense, strict=True)
    )
    return is_dense and not is_on_host(argument) and "float" in DType(argument.dtype).name
