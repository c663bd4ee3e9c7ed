"""Runners run the cases of one variant and give a result for each.

Whatever a worker does, `run` returns a CaseResult and the next case meets a live worker.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch

from grader.cases import Case
from grader.cases.compare import Verdict
from grader.evidence import Picture
from grader.executors.trace import Trace
from grader.sandbox import Sandbox
from grader.spec.task import Task
from grader.status import Status

ACCESSES = ("load", "store", "atomic")  # their kinds
MAX_DETAIL = 4000  # characters
TRY_SECONDS = 1.0  # of computing, for one call of a changed text
MAX_PRINTED = 2000  # characters of what kernels print in one case
SHOWN_PRINTED = 1500  # of these; the rest tells that there were more
LINES_OF_HOST = 25  # that are shown of host code's, so that kernels' are seen behind them
_R = TypeVar("_R", bound="Runner")
Text = tuple[str, Sequence[str]]  # and the entries that it has
Without = Callable[[Sequence[int]], Text | None]  # the text that is left without these lines
_T = TypeVar("_T")


@dataclass(frozen=True)
class CaseResult:
    """The result of one run of one case."""

    case: Case | None  # None where the file could not even be loaded
    verdict: Verdict
    line: int | None = None  # in the submission's file
    detail: str = ""
    observed_by: Literal["grader", "worker"] = "grader"
    hint: str = ""
    signal: int | None = None  # that ended the worker
    refused_by_gpu: bool = False  # an access; perhaps a store to an input, which is read-only
    printed: str = ""  # by host code, then by kernels; clean text
    notes: tuple[str, ...] = ()  # the grader's own, on what the launcher asked for
    marks: tuple[tuple[int, str], ...] = ()  # lines, and who did what there; "" for nobody
    picture: Picture | None = None  # of a race or a stray access
    # What wrong outputs are, for hypotheses on them; of large cases nothing is kept.
    outputs: tuple[torch.Tensor, ...] = field(default=(), compare=False, repr=False)

    @property
    def status(self) -> Status:
        """The verdict's."""
        return self.verdict.status


def shortened(text: str, lines: int = MAX_PRINTED) -> str:
    """The first whole lines of printed text, and a line that says so where there were more."""
    first = text[:SHOWN_PRINTED].splitlines()
    if len(text) > SHOWN_PRINTED:
        first = first[:-1] or first
    if len(first) < len(text.splitlines()) or len(first) > lines:
        return "\n".join([*first[:lines], "... more was printed"])
    return text


def printed_by_host(text: str) -> str:
    """Clean text that a launcher printed, as it is shown, without the planner's notes."""
    own = [line for line in text.splitlines() if not line.startswith("[grader] ")]
    shown = shortened("\n".join(own), LINES_OF_HOST).splitlines()
    return "\n".join(f"launcher: {line}" for line in shown)


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
    """The result of compiling ahead of time: its first failure, and a note on what was left out."""

    failure: CaseResult | None = None
    note: str = ""


@dataclass(frozen=True)
class Traced:
    """The result of a run, and its accesses as far as they are known."""

    result: CaseResult
    trace: Trace | None


@dataclass(frozen=True)
class Coming(Generic[_T]):
    """A result that is made in the background. `take` waits for it, `close` gives it up.

    Its owner calls one of them, once.
    """

    take: Callable[[], _T]
    close: Callable[[], None] = lambda: None


class FirstMet(Protocol):
    """Knows which cases were the first to launch a kernel in some form.

    In Triton the form is a set of constants, dtypes and options; in CUDA C++ a size of blocks.
    """

    def take_first_met(self) -> list[Case]:
        """The cases since the last call, which are to run on a GPU too."""
        ...


class Runner(ABC):
    """Runs the cases of one variant. A context manager; the sandbox stays open after it."""

    on_gpu = False  # whether kernels run on a GPU
    queue = 0  # see side_by_side.py
    task: Task
    path: Path | None = None  # the submission's file
    times: Times
    launches: FirstMet | None = None  # of a runner by plan
    starts_in: Sandbox | None = None  # the sandbox of its processes, where they may be hurried

    def __enter__(self: _R) -> _R:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def run(self, case: Case) -> CaseResult:
        """Run one case, in the workers at hand or in fresh ones.

        Raises the grader's own trouble (SandboxError, OracleError), nothing of the submission's.
        """

    @abstractmethod
    def close(self) -> None:
        """End every worker and give the arena back."""

    @abstractmethod
    def fresh_worker(self) -> None:
        """Let the next case meet workers that have run nothing."""

    @cached_property
    def source(self) -> str:
        """The text of the submission's file; untrusted. "" where there is none."""
        if self.path is None:
            return ""
        with contextlib.suppress(OSError):
            return self.path.read_bytes().decode("utf-8", "replace")
        return ""

    def expect(self, cases: Sequence[Case]) -> None:  # noqa: B027  # few runners need to
        """Prepare for these cases, which are likely to be run from now on, in this order."""

    def advice(self, result: CaseResult) -> str:
        """Advice on wrong values, where another run of the case shows their cause, or ""."""
        return ""

    def once(self, case: Case) -> CaseResult:
        """Run one case in a single way, where `run` has several. Raises as `run` does."""
        return self.run(case)

    def will_be_refused(self) -> bool:
        """Whether a compiler that decides refuses the file, so that no result will count.

        It may wait for that compiler.
        """
        return False

    def altered(
        self, copies: Sequence[str], entries: Sequence[str]
    ) -> Coming[Sequence[Runner | None]]:
        """Runners of the submission's file with changed copies of its functions behind it.

        Each has an entry of its own, in the order of `entries`; None where it can't be had.
        """
        return Coming(lambda: [None] * len(entries))

    def behind(self, text: Text, seconds: float, without: Without) -> Coming[Sequence[Runner]]:
        """Runners of the entries of a text that is put behind the submission's; or none.

        A call of one has at most so many seconds. `without` is asked for the text that is tried
        next where lines don't compile. They are counted from the text's first, which is 1.
        """
        return Coming(tuple)

    def measure(self, case: Case) -> Any:
        """Run a case with every access counted: a report, or anything else where there is none."""
        return None

    def moved(self, case: Case, kinds: Container[str] = ACCESSES) -> int | None:
        """Bytes of global memory that a case's kernels access; None where nobody counts them."""
        counted = self.measure(case)
        sites = [
            site
            for each in getattr(counted, "launches", [counted])
            for site in getattr(each, "sites", ())
            if getattr(site, "space", "global") == "global" and site.kind in kinds
        ]
        return sum(site.useful_bytes for site in sites) if sites else None

    @property
    def programs(self) -> int:
        """The programs, or blocks, of the last run's launches; 0 where it had no plan."""
        plan = getattr(self, "plan", None)
        return sum(math.prod(each.grid) for each in plan.launches) if plan is not None else 0

    def trace(self, case: Case) -> Traced | None:
        """Run a case with every access recorded; None where nobody records them."""
        return None

    def compile_in_background(self) -> Any:
        """Start compiling what ran since the last time; None where that is no step of its own."""
        return None

    def compiled(self, pending: Any) -> Compiled | None:
        """Wait for a compilation. None when its process died or said nothing sensible."""
        raise NotImplementedError
