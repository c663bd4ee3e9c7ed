"""What a planner answers where it can't make a plan that is as if it were its first."""

from __future__ import annotations

from grader import hostile
from grader.supervision import Death
from grader.worker.protocol import Code, Reply

_KEPT_STATE = "KeptState"


def relies_on_others(answer: Reply | Death) -> bool:
    """Whether a plan depends on what an earlier one left in the planner's process."""
    if isinstance(answer, Death) or answer.code is not Code.raised:
        return False
    return hostile.text(hostile.fields(answer), "type") == _KEPT_STATE
