"""One CUDA C++ variant of one submission without a GPU: host code plans, kernels are emulated.

cuda_build.py makes two programs of a file: a planner with host code and no data, and an executor
with kernels and data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.emulator import report
from grader.executors.compile.kept_builds import KeptBuilds
from grader.executors.cuda import cuda_build
from grader.executors.cuda.cuda_build import Program
from grader.executors.cuda.emulator_executor import EmulatorExecutor
from grader.executors.cuda.large_sizes import CudaLargeSizes
from grader.executors.cuda.native_planner import NativePlanner
from grader.executors.cuda.rebuilding import Rebuilding
from grader.executors.executor import Manner, last_plan
from grader.executors.planned_runner import PlannedRunner, in_queues
from grader.executors.planning import copied_alone, left_running
from grader.executors.program_orders import Atomics, Order, Reordered, shows_nothing
from grader.executors.runner import TRY_SECONDS, CaseResult, Coming, Runner, Text, Traced, Without
from grader.plan import KernelName, Plan
from grader.plan.model import Launch
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status

_LEFT_BEHIND = (
    "What one call leaves in memory that stays, such as a flag or a counter in a `__device__` "
    "variable, is there when the next call begins. Set it back at the end of the kernel, or by "
    "cudaMemset in the launcher."
)


class Launches:
    """The cases that were first to launch a kernel with a size of its blocks."""

    def __init__(self) -> None:
        self._met: set[tuple[Any, ...]] = set()
        self._first_met: list[Case] = []

    def note(self, case: Case, plan: Plan) -> None:
        """Note a case if a launch of its plan is new."""
        launched = {
            (plan.specialisations[each.specialisation], each.block, each.shared, each.cluster)
            for each in plan.launches
        }
        if not launched <= self._met:
            self._first_met.append(case)
            self._met |= launched

    def take_first_met(self) -> list[Case]:
        """The cases that were noted since the last time."""
        taken, self._first_met = self._first_met, []
        return taken


class PlannedNativeRunner(PlannedRunner):
    """Runs the cases of one CUDA C++ variant by plan. Its program must be one for the emulator."""

    def __init__(
        self,
        sandbox: Sandbox,
        task: Task,
        path: Path,
        program: Program,
        watched: bool = True,
        kept: KeptBuilds | None = None,
        sharing: list[Any] | None = None,
    ) -> None:
        """The arguments are those of NativePlanner.

        The runners in the list `sharing`, of one program's entries, hand on their processes.
        """
        super().__init__(sandbox, task, path, sharing)
        self.program = program
        self._watched = watched
        self.plans: NativePlanner = NativePlanner(sandbox, task, path, program, watched, kept)
        self.times = self.plans.times
        # Plans cases of large sizes, on processes of its own; a context manager.
        self.large_sizes = lambda: CudaLargeSizes(self.plans)
        self._executor: EmulatorExecutor = EmulatorExecutor(self.plans)
        self._reordered = Reordered(task.variant.file, "block")
        self.launches: Launches = Launches()
        self.refused: Callable[[], bool] = bool  # whether nvcc refuses the file
        self._rebuilding: list[Rebuilding] = []
        # With a planner that had planned nothing before:
        self._failed_afresh: set[tuple[Case, Manner]] = set()

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each one's inputs made while the one before it runs."""
        self._executor.inputs.expect(cases)

    def run(self, case: Case) -> CaseResult:
        """Run one case; one that passes also with its second call, and in other orders.

        The second call is the one that is timed. Of streams that don't wait for each other either
        may be first. Raises as Runner.run does.
        """
        first = self._first(Manner(), case)
        if not first.verdict.passed:
            return first
        made = last_plan(self._executor)
        self.launches.note(case, made)
        other_ways, atomics = self._executor.other_ways, self._executor.atomics
        if self.plans.judges_copies:
            copied = copied_alone(case, made, self.is_right_without)
            if copied is not None:
                return copied
        ordered = self._in_other_orders(case, first, Manner(), atomics)
        if not ordered.verdict.passed:
            return ordered
        for way in other_ways:
            other = first
            if not way.repeats:
                other, atomics = self._executor.run(case, way.manner), self._executor.atomics
            if not way.manner.reordered:
                other = self._in_other_orders(case, other, way.manner, atomics)
            if not other.verdict.passed:
                verdict = Verdict(way.status, way.words + other.verdict.what)
                hint = _LEFT_BEHIND if way.repeats else other.hint
                return replace(other, verdict=verdict, hint=hint)
        return left_running(case, self._reordered.file, made.calls[0]) or first

    def once(self, case: Case) -> CaseResult:
        """Run one case's first call with blocks in one order. Raises as Runner.run does."""
        self.plans.turn_to(case.dtype)
        return self._executor.run(case, Manner())

    def will_be_refused(self) -> bool:
        """Whether nvcc refuses the file, whose word is waited for."""
        return self.refused()

    def altered(
        self, copies: Sequence[str], entries: Sequence[str]
    ) -> Coming[Sequence[Runner | None]]:
        """Runners of the submission's file with changed copies of its functions behind it.

        All are one program. Copies that don't compile are left out.
        """
        kept = list(range(len(copies)))

        def text() -> Text:
            return "\n\n".join(copies[each] for each in kept), [entries[each] for each in kept]

        def without(lines: Sequence[int]) -> Text | None:
            parts = [copies[each] for each in kept]
            wrong = {_part_of(line, parts) for line in lines} - {-1}
            kept[:] = [each for place, each in enumerate(kept) if place not in wrong]
            return text() if wrong else None

        coming = self.behind(text(), TRY_SECONDS, without)

        def taken() -> list[Runner | None]:
            of_place = dict(zip(kept, coming.take(), strict=False))  # no runner, or one for each
            return [of_place.get(each) for each in range(len(entries))]

        return Coming(taken, coming.close)

    def behind(self, text: Text, seconds: float, without: Without) -> Coming[Sequence[Runner]]:
        """As Runner.behind; all are one program, which is compiled meanwhile."""
        if not text[1]:
            return Coming(tuple)
        of_dtype = self.plans.task
        kinds = cuda_build.signature(of_dtype.exercise, of_dtype.variant)
        begun = self.source.count("\n") + 2  # lines before the text

        def order(text: str, entries: Sequence[str]) -> cuda_build.Order:
            data = f"{self.source}\n\n{text}".encode()
            name = f"{self.path.stem}_{hashlib.sha256(data).hexdigest()[:12]}.cu"
            return cuda_build.Order(name, data, [(each, kinds) for each in entries])

        rebuilding = Rebuilding(
            self._sandbox,
            order,
            text,
            lambda lines: without([line - begun for line in lines]),
            self._rebuilding,
        )

        def made() -> Sequence[Runner]:
            program = rebuilding.take()
            if program is None:
                return ()

            def runner(entry: str, sharing: list[Any]) -> Runner:
                task = of_dtype.with_entry(entry, seconds)
                given = self._sandbox, task, self.path, program, self._watched
                return PlannedNativeRunner(*given, sharing=sharing)

            return in_queues(rebuilding.entries, runner)

        return Coming(made, rebuilding.close)

    def measure(self, case: Case, without: Collection[int] = ()) -> report.Report | CaseResult:
        """Run a case with every access counted: the emulator's report, or how the run failed.

        Launches at the places `without` of the plan's first call are left out. Nothing is counted
        where nvcc may make other kernels of the file. Raises what `run` raises.
        """
        for each in self.program.conditions[:1]:
            what = (
                f"{self.task.variant.file}:{each.line} asks for {each.macro}, which nvcc may "
                "answer otherwise than the emulator's compiler. What is counted here need not be "
                "what runs on a GPU, so there are no points for memory."
            )
            hint = "Write the same code for every compiler."
            return CaseResult(case, Verdict(Status.target_missed, what), each.line, hint=hint)
        self.plans.fresh_worker()
        result = self._first(Manner(counts=True, without=frozenset(without)), case)
        counted = self._executor.report
        if not result.verdict.passed or counted is None:
            return result
        return counted

    def trace(self, case: Case) -> Traced:
        """Run a case with every access recorded. Raises what `run` raises."""
        self.plans.fresh_worker()
        result = self._first(Manner(counts=True, records=True), case)
        return Traced(result, self._executor.recorded)

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result.

        The executor is a fresh one, whose memory has no results of the launches that are left out.
        """
        self._executor.fresh_worker()
        try:
            manner = Manner(without=frozenset(places))
            return self._executor.run(case, manner).verdict.passed
        finally:
            self._executor.fresh_worker()

    def _first(self, manner: Manner, case: Case) -> CaseResult:
        """Run a case; where it fails with a planner that has planned others, with a fresh one.

        A case that has failed with a fresh planner before isn't run with another one. If the fresh
        planner's plan is the same, host code has no part in the failure, which then counts.
        """
        self.plans.turn_to(case.dtype)
        self._executor.plan = None
        result = self._executor.run(case, manner)
        is_fresh, key = self.plans.planner_is_fresh, (case, manner)
        if not result.verdict.passed and not is_fresh and key not in self._failed_afresh:
            failed, planned = result, self._executor.plan
            self.plans.fresh_worker()
            self.plans.kept = KeptBuilds(None)
            result = self._executor.run(case, manner)
            if (
                result.verdict.passed
                and planned == self._executor.plan
                and not shows_nothing(failed)
            ):
                result = replace(failed, hint=_LEFT_BEHIND)
        if not result.verdict.passed:
            self._failed_afresh.add(key)
        return result

    def _in_other_orders(
        self, case: Case, result: CaseResult, manner: Manner, atomics: Sequence[Atomics]
    ) -> CaseResult:
        """A case that passed, run with blocks in other orders where atomics may tell the order.

        Each run has processes of its own: a block may wait for what an earlier run has left.
        """
        if not result.verdict.passed:
            return result

        def run(order: Order) -> CaseResult:
            self.fresh_worker()
            try:
                return self._executor.run(case, replace(manner, order=order))
            finally:
                self._executor.fresh_worker()

        names = {0: f"{case.dtype} {manner.call} {_kernels_of(last_plan(self._executor))}"}
        return self._reordered.failure(case, atomics, names, run) or result


def _part_of(line: int, parts: Sequence[str]) -> int:
    """Which of the parts of a text, joined by empty lines, has a line; -1 for none."""
    begun = 1
    if line < begun:
        return -1
    for place, part in enumerate(parts):
        begun += part.count("\n") + 2
        if line < begun:
            return place
    return -1


def _kernels_of(made: Plan) -> str:
    """The kernels that a plan launches, by name."""
    launches = (step for call in made.calls for step in call if isinstance(step, Launch))
    kernels = (made.specialisations[step.specialisation] for step in launches)
    return " ".join(sorted({each.kernel for each in kernels if isinstance(each, KernelName)}))
