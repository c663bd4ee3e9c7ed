"""Which configurations of its tuned kernels a Triton variant's cases are run with.

A GPU's clock chooses one there. Here each case has one that follows from its text, until a run has
failed with one: then all cases that follow have that one, so that they show the same. What Triton's
tuner passes over, since it doesn't compile, is no choice: that shows once a compiler was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from grader.cases import Case
from grader.executors.compile.frontend import key_of
from grader.executors.compile.kernels import Kernels
from grader.executors.runner import CaseResult
from grader.executors.triton import configurations, refusals
from grader.plan import Plan, Specialisation

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

        A kernel that is passed over is in a plan all the same where no configuration is left, or
        where it wasn't known when that was planned.
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
        names = configurations.words_of(among)
        keys = [key_of(each) for each in among]
        refused = {
            configurations.label(number, names): self._kernels.passed_over[key]
            for number, key in enumerate(keys)
            if key in self._kernels.passed_over
        }
        return refusals.of_configurations(case, refused)

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
        """What a piece of work shows without configurations that Triton's tuner passes over.

        Which those are is known once a compiler was asked, so it is begun again after a failure.
        """
        shown = work()
        for _ in range(configurations.MAX_TRIED):
            failed = isinstance(shown, CaseResult) and not shown.verdict.passed
            if not failed or not self.learns():
                break
            shown = work()
        return shown
