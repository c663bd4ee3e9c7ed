"""Large sizes of a variant: its launches are planned, and no kernel runs as a whole.

Some blocks or programs of a launch run on addresses without memory: an index that has wrapped at 32
bits is an access far from its tensor.
"""

from __future__ import annotations

import abc
import contextlib

from grader.cases import Case
from grader.executors.runner import CaseResult
from grader.plan import Plan
from grader.sandbox.worker_process import Worker


class LargeSizes(contextlib.AbstractContextManager["LargeSizes"], abc.ABC):
    """Plans one variant's cases of large sizes. A context manager: it ends its executor."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def __exit__(self, *_: object) -> None:
        self._end_worker()

    def refused(self, case: Case) -> CaseResult | None:
        """The launch of a case that CUDA refuses; None where none is known to be refused."""
        made = self._plan(case)
        return made if isinstance(made, CaseResult) else None

    def launch_fault(self, case: Case) -> CaseResult | None:
        """A refused launch of a case, or a kernel of it for which the GPU has too little room.

        Of CUDA C++ the same as `refused`: where nvcc compiles, a planner counts registers.
        """
        return self.refused(case)

    def fault(self, case: Case) -> CaseResult | None:
        """The refused launch of a case, or an access far outside its tensor; None for neither."""
        made = self._plan(case)
        return self._sampled(case, made) if isinstance(made, Plan) else made

    @abc.abstractmethod
    def _plan(self, case: Case) -> Plan | CaseResult | None:
        """The plan of a case; the refusal of a launch; None where planning fails otherwise."""

    @abc.abstractmethod
    def _sampled(self, case: Case, made: Plan) -> CaseResult | None:
        """An access far outside its tensor by some blocks or programs, or None."""

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
