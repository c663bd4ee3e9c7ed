"""What the planners of Triton and of CUDA C++ have in common."""

from __future__ import annotations

from collections.abc import Sequence

from grader import hostile
from grader.plan import ITEM_BYTES, Layout
from grader.supervision import Death
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


def relies_on_others(answer: Reply | Death) -> bool:
    """Whether a plan depends on what an earlier one left in the planner's process."""
    if isinstance(answer, Death) or answer.code is not Code.raised:
        return False
    return hostile.text(hostile.fields(answer), "type") == _KEPT_STATE
