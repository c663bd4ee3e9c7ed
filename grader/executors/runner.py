"""Runners: what runs the cases of one variant and says what came of each.

Whatever a worker does, `run` answers with a CaseResult and the next case meets a live worker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from grader.cases import Case
from grader.executors.results import CaseResult, Compiled, Times
from grader.spec.task import Task

__all__ = ["CaseResult", "Compiled", "Runner", "Times"]

_R = TypeVar("_R", bound="Runner")


class Runner(ABC):
    """Runs the cases of one variant. A context manager; the sandbox stays open after it."""

    on_gpu = False  # whether kernels run on a GPU
    task: Task
    times: Times

    def __enter__(self: _R) -> _R:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def run(self, case: Case) -> CaseResult:
        """Run one case, in the workers at hand or in fresh ones.

        Raises what is the grader's own trouble (SandboxError, OracleError), nothing of the
        submission's.
        """

    @abstractmethod
    def close(self) -> None:
        """End every worker and give the arena back."""

    @abstractmethod
    def fresh_worker(self) -> None:
        """Let the next case meet workers that have run nothing."""

    def expect(self, cases: Sequence[Case]) -> None:  # noqa: B027  # few runners need to
        """Prepare for these cases, which are likely to be run from now on, in this order."""

    def advice(self, result: CaseResult) -> str:
        """What to try about wrong values, where running the case otherwise shows it, or ""."""
        return ""

    def compile_in_background(self) -> Any:
        """Start compiling what ran since the last time; None where that is no step of its own."""
        return None

    def compiled(self, pending: Any) -> Compiled | None:
        """Wait for a compilation. None when its process died or said nothing sensible."""
        raise NotImplementedError
