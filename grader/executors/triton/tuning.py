"""The choice of configurations of tuned kernels with which a Triton variant's cases are run.

On a GPU timings choose one. Here each case has one that follows from its text, until a run fails
with one: then all later cases have that one, so that they show the same. Triton's tuner passes over
what doesn't compile, which shows only when a compiler is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from grader.cases import Case
from grader.executors.compile.frontend import key_of
from grader.executors.compile.kernels import Kernels
from grader.executors.runner import CaseResult
from grader.executors.triton import configurations
from grader.plan import Plan, Specialisation

MOST_NAMED = 16  # configurations, in one message
_Shown = TypeVar("_Shown")


class Tuning:
    """The configurations of one variant's tuned kernels."""

    def __init__(self, kernels: Kernels) -> None:
        self.chosen: int | None = None  # of the last run, by number; None: nothing is tuned
        self._kernels = kernels
        self._names: list[str] = []  # of the last plan's configurations
        self.suspect: int | None = None  # the first configuration with which a run has failed
        self._known = 0  # how many were passed over when a run was last asked about
        self._launched: list[Specialisation] = []  # tuned kernels of the last run
        self._among: dict[str, tuple[Specialisation, ...]] = {}  # configurations, by each one's key

    def standing(self, plan: Plan) -> list[int]:
        """A plan's configurations, by number, that nothing is known to keep from a GPU."""
        return configurations.standing(plan, self._kernels.passed_over)

    def choose(self, case: Case, plan: Plan) -> int | None:
        """The configuration that a case is run with; None where its kernels aren't tuned."""
        self._names = configurations.names_of(plan)
        if self._names:
            standing = self.standing(plan)
            suspect = None if self.suspect is None else self.suspect % len(self._names)
            if suspect in standing:
                self.chosen = suspect
            elif standing:
                self.chosen = standing[configurations.first_for(case, len(standing))]
        return self.chosen

    def named(self, result: CaseResult) -> CaseResult:
        """A result, and where it fails with which configuration: cases that follow take it, too."""
        if result.verdict.passed or self.chosen is None:
            return result
        self.suspect = self.chosen
        label = configurations.label(self.chosen, self._names)
        verdict = replace(result.verdict, what=f"{result.verdict.what} It ran with {label}.")
        return replace(result, verdict=verdict)

    def begin_run(self) -> None:
        """Forget which tuned kernels the run before this one had."""
        self._launched = []

    def launch(
        self, case: Case, kernel: Specialisation, among: tuple[Specialisation, ...]
    ) -> CaseResult | None:
        """Note a tuned kernel of the run and its configurations; the result where none compiles.

        A plan has a kernel that is passed over where no configuration is left, or where it was made
        before that was known.
        """
        self._launched.append(kernel)
        key = key_of(kernel)
        if key not in self._among:
            self._among.update((key_of(each), among) for each in among)
        if key not in self._kernels.passed_over:
            return None
        for each in self._among[key]:  # each would be tried
            self._kernels.translate(each)
        self.chosen = None  # the message names them
        return self._none_left(case, self._among[key])

    def refused(self, case: Case | None, kernel: Specialisation) -> tuple[bool, CaseResult | None]:
        """Whether a kernel that the backend refuses is passed over; the result where all are."""
        key = key_of(kernel)
        among = self._among.get(key)
        if key not in self._kernels.passed_over or among is None:
            return False, None
        if not all(self._kernels.is_passed_over(each) for each in among):
            return True, None
        return True, self._none_left(case, among)

    def _none_left(self, case: Case | None, among: Sequence[Specialisation]) -> CaseResult:
        """The result where no configuration of a tuned kernel compiles, with each one's reason."""
        names = configurations.words_of(among)
        refused = [
            (configurations.label(number, names), failure)
            for number, kernel in enumerate(among)
            if (failure := self._kernels.passed_over.get(key_of(kernel))) is not None
        ]
        reasons = [f"{name}: {failure.message}" for name, failure in refused]
        more = f"; and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
        what = f"no configuration compiles for the GPU: {'; '.join(reasons[:MOST_NAMED])}{more}."
        return refused[0][1].refusal(case, what)

    def learns(self) -> bool:
        """Ask the compilers for the last run's tuned kernels: whether a tuner passes over one.

        False where there is no news, so that the run would be the same if it were repeated.
        """
        before, self._known = self._known, len(self._kernels.passed_over)
        if before == self._known:
            for each in self._launched:
                self._kernels.is_passed_over(each)
            self._known = len(self._kernels.passed_over)
        return before < self._known

    def settled(self, work: Callable[[], _Shown]) -> _Shown:
        """The result of work without configurations that Triton's tuner passes over.

        The work is begun again after a failure, if the compilers then refuse some of them.
        """
        shown = work()
        for _ in range(configurations.MAX_TRIED):
            failed = isinstance(shown, CaseResult) and not shown.verdict.passed
            if not failed or not self.learns():
                break
            shown = work()
        return shown
