"""A case's inputs, made while a worker runs the case before it.

Making them takes about as long as a small case takes its worker. What outputs are judged by is
computed once a worker has answered.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

from grader.cases import Case, inputs
from grader.cases.inputs import Inputs
from grader.cases.oracle import OracleError
from grader.spec.task import Task


class InputsAhead:
    """The inputs of a variant's cases, one case after another."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._following: dict[Case, Case] = {}  # the case that is likely to come after each
        self._next: tuple[Case, Inputs] | None = None

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each one's inputs made while the one before it runs."""
        self._following = dict(itertools.pairwise(cases))

    def of(self, case: Case) -> Inputs:
        """The inputs of a case. Raises OracleError where the exercise's own function fails."""
        ahead, self._next = self._next, None
        return ahead[1] if ahead is not None and ahead[0] == case else self._made(case)

    def make_next(self, case: Case) -> None:
        """Make the inputs of the case that is likely to follow, while a worker is busy.

        A function that fails does so again when they are needed.
        """
        following = self._following.pop(case, None)
        if following is not None:
            with contextlib.suppress(OracleError):
                self._next = following, self._made(following)

    def _made(self, case: Case) -> Inputs:
        return inputs.make(self._task.exercise, self._task.variant, case)
