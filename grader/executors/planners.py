"""What the planners of Triton and of CUDA C++ have in common."""

from __future__ import annotations

from grader import hostile
from grader.supervision import Death
from grader.worker.protocol import Code, Reply

# Before what is wrong with a second call; the first one passed.
SECOND_CALL = "the first call is right, a second one on other values isn't: "
_KEPT_STATE = "KeptState"


def relies_on_others(answer: Reply | Death) -> bool:
    """Whether a plan depends on what an earlier one left in the planner's process."""
    if isinstance(answer, Death) or answer.code is not Code.raised:
        return False
    return hostile.text(hostile.fields(answer), "type") == _KEPT_STATE
