"""Plans of a variant's cases, made by a process that runs host code and has no data.

The planners of Triton and of CUDA C++ are subclasses of `Plans`.
"""

from __future__ import annotations

import hashlib
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from grader import plan
from grader.cases import Case, inputs
from grader.cases.arena import Buffers, described
from grader.cases.compare import LEFT_RUNNING, Verdict
from grader.executors.answers import Answers, from_violation
from grader.executors.encoding import DeviceKernel, NotExecutable
from grader.executors.runner import CaseResult, Times
from grader.plan import Launch, Layout, Plan, Step
from grader.plan.model import DType
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Worker
from grader.spec import ITEMSIZE
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply

# Before what is wrong with a second call; the first one passed.
SECOND_CALL = "the first call is right, a second one on other values isn't: "
REORDERED = (
    "kernels on different streams wait for each other by luck alone: in another order that streams "
    "and events allow, "
)
MOST_NOTES = 4  # of one plan
_NO_TIMES = re.compile(r"^\[grader\] ([\w.]{1,80}) gives no times here", re.ASCII | re.MULTILINE)


class Plans(ABC):
    """Plans and compiled kernels of one variant; the sandbox stays open."""

    def __init__(self, answers: Answers, times: Times) -> None:
        """`answers` explains the planner's answers; the time of its starts is added to `times`."""
        self.answers = answers
        self.times = times
        self.planner: Worker | None = None
        self._has_planned = False  # the planner at hand
        self._sent = 0  # how many configurations that are passed over it knows
        self._entry = answers.task.variant.entry  # that the planner at hand has found
        self.failure: CaseResult | None = None  # of loading the file, once it is known

    @property
    def path(self) -> Path:
        """The submission's file."""
        return self.answers.path

    def close(self) -> None:
        """End the planner."""
        self.fresh_worker()

    def fresh_worker(self) -> None:
        """Let the next plan be made by a process that has run nothing."""
        if self.planner is not None:
            self.planner.close()
            self.planner = None

    @abstractmethod
    def plan_of(self, case: Case, arguments: Sequence[Argument]) -> Plan | CaseResult:
        """The plan of a case before the rules are applied, or why there is none."""

    @abstractmethod
    def planned(
        self, case: Case, arguments: Sequence[Argument], buffers: Buffers = ()
    ) -> Plan | CaseResult:
        """The plan of a case, held to the rules, or why there is none.

        `buffers` hold the arguments, where host code may read those in host memory.
        """

    @abstractmethod
    def compiled_steps(
        self, case: Case, planned: Plan, call: int = 0, configuration: int | None = None
    ) -> tuple[Sequence[Step], Mapping[int, DeviceKernel]] | CaseResult:
        """The steps of a call and the compiled kernels that they launch, or why there are none."""

    def compile_view(self, ttir: str) -> DeviceKernel:
        """The grader's kernel that copies a strided view. Raises NotExecutable."""
        raise NotExecutable("a copy of a strided view")  # CUDA's copies are of rows

    def configurations_of(self, planned: Plan) -> list[int]:
        """The configurations that a GPU has a choice of, by number; [] where nothing is tuned."""
        return []

    def take_over(self, other: Plans) -> None:
        """Have the planner of another entry of the same file, unless one is at hand.

        It is turned to this entry when it is asked next.
        """
        if self.planner is None and other.planner is not None:
            self.planner, other.planner = other.planner, None
            self._has_planned, self._sent = other._has_planned, other._sent
            self._entry = other._entry

    def _turn(self, count: int) -> CaseResult | None:
        """Have a planner that was taken over find this entry; why it doesn't."""
        entry = self.answers.task.variant.entry
        if self.planner is None or self._entry == entry:
            return self.failure
        planner, self.planner = self.planner, None
        return self._load(planner, count, entry)

    def _load(self, planner: Worker, count: int, entry: str = "") -> CaseResult | None:
        """Take a planner if it loads the submission, whose entry takes `count` arguments.

        Returns why it doesn't. The entry is the one that the planner was started for, or `entry`.
        """
        started = time.perf_counter()
        self.times.workers += not entry
        arguments = [inputs.blank_argument()] * count
        answer = planner.ask(Operation.load, arguments, document=entry.encode())
        self.times.starts += time.perf_counter() - started
        if isinstance(answer, Death):
            self.failure = self.answers.from_death(None, answer)
            if self.failure.status is Status.crashed:
                what = f"loading the file ended the process ({answer.description})."
                self.failure = replace(self.failure, verdict=Verdict(Status.import_error, what))
        elif answer.code is not Code.ok:
            planner.close()
            self.failure = self.answers.from_refusal(None, answer)
        else:
            self.planner, self._entry = planner, self.answers.task.variant.entry
        return self.failure


def blank_arguments(task: Task, case: Case) -> list[Argument]:
    """An entry's arguments in a case, described as a planner gets them: without memory."""
    blank = inputs.blank(task, case)
    return blank.arguments(described(blank.slots))


def layouts_of(arguments: Sequence[Argument]) -> dict[int, Layout]:
    """How the tensors among the entry's arguments lie in their buffers, by their places."""
    return {
        place: Layout(each.shape, each.strides, first_of(each))
        for place, each in enumerate(arguments)
        if each.kind is Kind.tensor
    }


def key_of_call(
    entry: str, arguments: Sequence[Argument], placed: bool, further: Sequence[str]
) -> str:
    """A digest of a call of an entry, and of what else its plan depends on besides the source.

    Where tensors are `placed` in the buffers may be a part of it.
    """
    given = [
        (
            *(each.kind, each.dtype, each.space, each.shape, each.strides, repr(each.scalar)),
            *(each.offset - each.allocation[0], each.allocation[1]),
            *((each.buffer, each.offset) if placed else ()),
        )
        for each in arguments
    ]
    return hashlib.sha256(repr(("plan", entry, given, *further)).encode()).hexdigest()


def dtype_of(argument: Argument) -> DType:
    """The element type of a tensor, as plans name it; every one of the protocol's has a name."""
    assert argument.dtype is not None
    return cast(DType, argument.dtype.name)


def first_of(argument: Argument) -> int:
    """The element of its allocation at which a tensor begins."""
    itemsize = ITEMSIZE.get(dtype_of(argument), 1)
    return (argument.offset - argument.allocation[0]) // itemsize


def launched(steps: Sequence[Step]) -> list[int]:
    """The numbers of the specialisations that some steps launch, each once."""
    numbers = (each.specialisation for each in steps if isinstance(each, Launch))
    return list(dict.fromkeys(numbers))


_DRAWS = 3  # of values, on which copies alone have to be right


def copied_alone(
    case: Case, asked: Plan, is_right_without: Callable[[Case, Collection[int]], bool]
) -> CaseResult | None:
    """The violation of a plan whose copies give the right result without its kernels.

    They have to on other values too: a case's only element may be NaN, as unwritten memory is.
    """
    if not plan.copies_to_arguments(asked):
        return None
    launches = [place for place, step in enumerate(asked.calls[0]) if isinstance(step, Launch)]
    drawn = (replace(case, seed=case.seed + n) for n in range(_DRAWS))
    is_right = all(is_right_without(each, launches) for each in drawn)
    return from_violation(case, plan.copies_alone(asked)) if is_right else None


def left_running(
    case: Case, file: str, steps: Sequence[Step], memory_waits: bool = True
) -> CaseResult | None:
    """The data race of a case whose entry returns while its work may still be running."""
    step = plan.left_running(steps, memory_waits)
    if step is None:
        return None
    what = (
        f"what {file}:{step.line} starts may still be running when the entry has returned: nobody "
        "waits for its stream."
    )
    hint = (
        "Let the caller's stream wait for an event behind that (cudaStreamWaitEvent, "
        "torch.cuda.current_stream().wait_stream), or synchronise the stream."
    )
    verdict = Verdict(Status.data_race, what, LEFT_RUNNING)
    return CaseResult(case, verdict, step.line or None, hint=hint)


def notes_of(planned: Plan) -> tuple[str, ...]:
    """Notes on operations of a launcher that mean nothing in a plan.

    The planner prints their names (worker/planner/notes.py). Nothing else is taken from there: a
    launcher may print what it likes.
    """
    asked = dict.fromkeys(_NO_TIMES.findall(planned.printed))
    return tuple(
        f"{operation} gives no times here: nothing runs while the launcher says what to launch. "
        "To choose between configurations use triton.autotune."
        for operation in list(asked)[:MOST_NOTES]
    )


def relies_on_others(answer: Reply | Death) -> bool:
    """Whether a plan depends on what an earlier one left in the planner's process."""
    if isinstance(answer, Death) or answer.code is not Code.raised:
        return False
    return untrusted.text(untrusted.fields(answer), "type") == "KeptState"
