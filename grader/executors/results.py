"""What running a case shows, where the time of it went, and what compiling ahead shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.status import Status

MAX_DETAIL = 4000  # characters


@dataclass(frozen=True)
class CaseResult:
    """What one run of one case shows."""

    case: Case | None  # None where the file could not even be loaded
    verdict: Verdict
    line: int | None = None  # in the submission's file
    detail: str = ""
    observed_by: Literal["grader", "worker"] = "grader"
    hint: str = ""
    signal: int | None = None  # that ended the worker
    refused_by_gpu: bool = False  # an access; perhaps a store to an input, which is read-only
    printed: str = ""  # by kernels; clean text
    notes: tuple[str, ...] = ()  # the grader's own, on what the launcher asked for

    @property
    def status(self) -> Status:
        """The verdict's."""
        return self.verdict.status


@dataclass
class Times:
    """Where a runner's time went, in seconds."""

    starts: float = 0.0  # of workers, loading included
    cases: float = 0.0  # whole runs of cases: worker starts, inputs, answers, verdicts
    waiting: float = 0.0  # for answers: the kernel itself, and the way there and back
    compiles: float = 0.0  # waiting for cubins
    runs: int = 0
    workers: int = 0


@dataclass(frozen=True)
class Compiled:
    """What compiling ahead of time shows: the first failure, and what could not be compiled."""

    failure: CaseResult | None = None
    note: str = ""
