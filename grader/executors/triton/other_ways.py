"""A Triton case that passed, run in further ways: the first one that fails decides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from grader import plan
from grader.cases import Case
from grader.cases.compare import USED_MEMORY, Verdict
from grader.executors.compile.kernels import Kernels
from grader.executors.executor import Manner, last_plan
from grader.executors.planning import REORDERED, SECOND_CALL, copied_alone, left_running
from grader.executors.program_orders import Order, Reordered, shows_nothing
from grader.executors.runner import CaseResult
from grader.executors.triton.configurations import MAX_TRIED, Tuning, steps_in
from grader.executors.triton.ttir_executor import TritonExecutor
from grader.plan import Plan
from grader.status import Status

TUNING = (
    "@triton.autotune runs the kernel again and again on the same memory until it has chosen. "
    "After that, the first call is wrong: "
)
ON_USED_MEMORY = "where memory that nothing has written holds numbers instead of NaNs, "
HINT_FOR_USED_MEMORY = "Write an element before a kernel loads it, or allocate it with torch.zeros."
HINT_FOR_TUNING = (
    "Name what the kernel adds to in reset_to_zero=[...] of @triton.autotune, and what else it "
    "changes and reads in restore_value=[...]."
)


@dataclass
class OtherWays:
    """Runs the cases of one variant again, in the ways that may show what the first run doesn't.

    Programs run in other orders where atomics may tell the order. Kernels that are tuned run with
    their other configurations, and behind a trial on the same memory. Steps of streams that don't
    wait for each other run in another order; a second call that does other work runs on other
    values; and where the exercise is about moving data, the plan runs without its kernels, which
    has to fail.
    """

    executor: TritonExecutor
    kernels: Kernels
    tuning: Tuning
    judges_copies: bool  # whether a copy by PyTorch may be the exercise itself
    reordered: Reordered
    tuned: set[str] = field(default_factory=set)  # dtypes whose first case had every configuration
    is_wrong_while_tuning: bool = False  # once it is, every case is tried

    def result_of(self, case: Case, first: CaseResult, with_every: bool) -> CaseResult:
        """The result of a case whose first run showed `first`; with each configuration or one."""
        result = self._in_other_orders(case, first)
        if with_every and result.verdict.passed and self.tuning.chosen is not None:
            self.tuned.add(case.dtype)
            result = self._with_others(case, result)
        if not result.verdict.passed:
            return result
        asked = last_plan(self.executor)
        if self.executor.reads_own:
            result = self._on_used_memory(case) or result
        tunes = self.tuning.chosen is not None and (with_every or self.is_wrong_while_tuning)
        if result.verdict.passed and tunes:
            result = self._while_tuning(case) or result
        if result.verdict.passed:
            result = self._on_streams(case, asked) or result
        if result.verdict.passed:
            self.tuning.chosen = None  # a second call runs with the planner's
            result = self._with_second_call(case, result)
        if result.verdict.passed and self.judges_copies:
            return copied_alone(case, asked, self.is_right_without) or result
        return result

    def is_right_without(self, case: Case, places: Collection[int]) -> bool:
        """Whether the last run's plan, without some of its launches, gives the right result."""
        manner = Manner(races=False, without=frozenset(places))
        return self.executor.repeat(case, manner).verdict.passed

    def _on_used_memory(self, case: Case) -> CaseResult | None:
        """How a case fails where unwritten memory holds numbers; None where it passes."""
        manner = Manner(races=False, leftovers=True, configuration=self.tuning.chosen)
        other = self.executor.repeat(case, manner)
        if other.verdict.passed or shows_nothing(other):
            return None
        what = ON_USED_MEMORY + other.verdict.what
        verdict = Verdict(Status.uninitialised_read, what, USED_MEMORY)
        return replace(other, verdict=verdict, hint=HINT_FOR_USED_MEMORY)

    def _while_tuning(self, case: Case) -> CaseResult | None:
        """How a case fails as a GPU's first call, which tunes; None where it passes."""
        other = self.executor.repeat(case, Manner(races=False, tunes=True))
        if other.verdict.passed or shows_nothing(other):
            return None
        self.is_wrong_while_tuning = True
        return replace(
            other,
            verdict=Verdict(Status.nondeterministic, TUNING + other.verdict.what, "tuning"),
            hint=HINT_FOR_TUNING,
        )

    def _on_streams(self, case: Case, asked: Plan) -> CaseResult | None:
        """How a case fails in another order that streams and events allow; None where it passes."""
        manner = Manner(configuration=self.tuning.chosen)
        steps = steps_in(manner, asked, self.kernels.passed_over)
        if len(plan.streams(steps)) > 1 and plan.reorder(steps, memory_waits=False) != steps:
            other = self.executor.repeat(case, replace(manner, reordered=True, races=False))
            if not other.verdict.passed:
                what = REORDERED + other.verdict.what
                return replace(other, verdict=Verdict(Status.data_race, what, "streams"))
        return left_running(case, self.reordered.file, steps, memory_waits=False)

    def _with_second_call(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, and whose second call does other work, with that call on new values.

        What the first call left is there; what it computed is of no use to the second one.
        """
        if plan.repeats(last_plan(self.executor)):
            return result
        again = replace(case, seed=case.seed + 1)
        second = self.executor.repeat(again, Manner(call=1, races=False))
        second = self._in_other_orders(again, second, call=1, before=case)
        if second.verdict.passed:
            return result
        first = self.executor.repeat(again, Manner(races=False))
        if not first.verdict.passed:  # for the values, in whichever call
            return first
        what = SECOND_CALL + second.verdict.what
        verdict = Verdict(Status.nondeterministic, what, "second_call")
        return replace(second, case=case, verdict=verdict)

    def _with_others(self, case: Case, result: CaseResult) -> CaseResult:
        """A case that passed, run with the other configurations: the first result that fails."""
        done = self.tuning.chosen
        for number in self.tuning.standing(last_plan(self.executor))[:MAX_TRIED]:
            if number == done or not result.verdict.passed:
                continue
            self.tuning.chosen = number
            result = self.executor.repeat(case, Manner(configuration=number))
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
        repeat = self.executor.repeat
        plain = Manner(races=False, configuration=None if call else self.tuning.chosen)

        def run(order: Order) -> CaseResult | None:
            if before is not None:
                repeat(before, plain)
            other = repeat(case, replace(plain, call=call, order=order))
            if not shows_nothing(other):
                return other
            repeat(before or case, plain)  # an ended process has left nothing
            return None

        atomics, names = self.executor.atomics, self.executor.kernels
        return self.reordered.failure(case, atomics, names, run) or result
