"""What the planners of Triton and of CUDA C++ have in common."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from grader.cases import inputs
from grader.cases.compare import Verdict
from grader.executors.answers import Answers
from grader.executors.runner import CaseResult, Times
from grader.plan import ITEM_BYTES, Launch, Layout, Plan, Step
from grader.plan.model import DType
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death, Worker
from grader.status import Status
from grader.worker.protocol import Argument, Code, Kind, Operation, Reply

# Before what is wrong with a second call; the first one passed.
SECOND_CALL = "the first call is right, a second one on other values isn't: "
REORDERED = (
    "kernels on different streams wait for each other by luck alone: in another order that streams "
    "and events allow, "
)
_KEPT_STATE = "KeptState"


def layouts_of(arguments: Sequence[Argument]) -> dict[int, Layout]:
    """How the tensors among the entry's arguments lie in their buffers, by their places."""
    layouts = {}
    for place, each in enumerate(arguments):
        if each.kind is Kind.tensor:
            layouts[place] = Layout(each.shape, each.strides, first_of(each))
    return layouts


def dtype_of(argument: Argument) -> DType:
    """The element type of a tensor, as plans name it; every one of the protocol's has a name."""
    assert argument.dtype is not None
    return cast(DType, argument.dtype.name)


def first_of(argument: Argument) -> int:
    """The element of its allocation at which a tensor begins."""
    itemsize = ITEM_BYTES.get(dtype_of(argument), 1)
    return (argument.offset - argument.allocation[0]) // itemsize


def launched(steps: tuple[Step, ...]) -> list[int]:
    """The numbers of the specialisations that some steps launch, each once."""
    numbers = (each.specialisation for each in steps if isinstance(each, Launch))
    return list(dict.fromkeys(numbers))


def load(worker: Worker, count: int, answers: Answers, times: Times) -> CaseResult | None:
    """Have a worker load the submission: None where it has, else why it hasn't, and its end.

    `count` arguments are what its entry is to take.
    """
    started = time.perf_counter()
    times.workers += 1
    answer = worker.ask(Operation.load, [inputs.blank_argument()] * count)
    times.starts += time.perf_counter() - started
    if isinstance(answer, Death):
        result = answers.from_death(None, answer)
        if result.status is Status.crashed:
            what = f"loading the file ended the process ({answer.description})."
            result = replace(result, verdict=Verdict(Status.import_error, what))
        return result
    if answer.code is not Code.ok:
        worker.close()
        return answers.from_refusal(None, answer)
    return None


def notes_of(planned: Plan) -> tuple[str, ...]:
    """What the grader says of a plan's launcher: of what it asked that means nothing in a plan.

    The planner has printed it among what the launcher did (worker/planner/notes.py): only the
    operation's name is taken from there, for a launcher may print what it likes.
    """
    asked = dict.fromkeys(_NO_TIMES.findall(planned.printed))
    return tuple(
        f"{operation} gives no times here: nothing runs while the launcher says what to launch. "
        "To choose between configurations use triton.autotune."
        for operation in list(asked)[:MOST_NOTES]
    )


_NO_TIMES = re.compile(r"^\[grader\] ([\w.]{1,80}) gives no times here", re.ASCII | re.MULTILINE)
MOST_NOTES = 4  # of one plan


def relies_on_others(answer: Reply | Death) -> bool:
    """Whether a plan depends on what an earlier one left in the planner's process."""
    if isinstance(answer, Death) or answer.code is not Code.raised:
        return False
    return untrusted.text(untrusted.fields(answer), "type") == _KEPT_STATE
