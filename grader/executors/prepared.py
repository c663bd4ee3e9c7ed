"""What the grader itself computes of a case: its inputs, and the truths of its outputs.

Both take about as long as a small case takes its worker, so they are computed while one is busy:
the truths of the case that runs, and the inputs of the next one.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence

from grader.cases import Case, inputs, oracle
from grader.cases.inputs import Inputs
from grader.cases.oracle import Checker, OracleError, Truth
from grader.spec.task import Task


class Prepared:
    """The inputs and truths of a variant's cases, one case after another."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._oracle = oracle.of(task.exercise)
        self._following: dict[Case, Case] = {}  # the case that is likely to come after each
        self._running: tuple[Case, Inputs] | None = None
        self._truths: list[Truth] | None = None  # of the case that runs
        self._next: tuple[Case, Inputs] | None = None

    def expect(self, cases: Sequence[Case]) -> None:
        """Have each one's inputs made while the one before it runs."""
        self._following = dict(itertools.pairwise(cases))

    def inputs(self, case: Case) -> Inputs:
        """The inputs of the case that runs now. Raises OracleError."""
        ahead, self._next = self._next, None
        made = ahead[1] if ahead is not None and ahead[0] == case else self._made(case)
        self._running, self._truths = (case, made), None
        return made

    def truths(self) -> list[Truth]:
        """The expected outputs of the case that runs. Raises OracleError."""
        assert self._running is not None
        _, given = self._running
        if self._truths is None:
            magnitude = self._task.magnitude
            self._truths = self._oracle.truths(given.tensors, given.numbers, magnitude)
        return self._truths

    def checker(self) -> Checker | None:
        """What judges the outputs of the case that runs beside its truths, if anything does."""
        assert self._running is not None
        _, given = self._running
        return self._oracle.checker(given.tensors, given.numbers)

    def work_ahead(self) -> None:
        """Compute the truths, and the next case's inputs, while a worker is busy.

        An oracle that fails does so again when its result is needed.
        """
        assert self._running is not None
        case, _ = self._running
        with contextlib.suppress(OracleError):
            self.truths()
            if (following := self._following.pop(case, None)) is not None:
                self._next = following, self._made(following)

    def let_go(self) -> None:
        """Keep nothing of the case that ran."""
        self._running = self._truths = None

    def _made(self, case: Case) -> Inputs:
        return inputs.make(self._task.exercise, self._task.variant, case)
