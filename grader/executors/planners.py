"""What the planners of Triton and of CUDA C++ have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.plan import ITEM_BYTES, Layout, Plan
from grader.sandbox import untrusted
from grader.sandbox.worker_process import Death
from grader.worker.protocol import Argument, Code, Kind, Reply

# Before what is wrong with a second call; the first one passed.
SECOND_CALL = "the first call is right, a second one on other values isn't: "
REORDERED = (
    "kernels on different streams wait for each other by luck alone: in another order that streams "
    "and events allow, "
)
_KEPT_STATE = "KeptState"


def layouts(arguments: Sequence[Argument]) -> dict[int, Layout]:
    """How the tensors among the entry's arguments lie in their buffers, by their places."""
    found = {}
    for place, each in enumerate(arguments):
        if each.kind is Kind.tensor:
            first = (each.offset - each.allocation[0]) // ITEM_BYTES[each.dtype.name]
            found[place] = Layout(each.shape, each.strides, first)
    return found


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
