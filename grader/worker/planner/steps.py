"""The steps of a plan's current call, each with the submission's line that asks for it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from .errors import PlanLimit, TooManyLaunches

# The grader's reader has the same limits (grader/plan/) and would refuse larger plans.
MAX_STEPS = 20_000  # of one call
MAX_LAUNCHES = 4096  # of one call
MAX_UPLOAD_BYTES = 64 << 10  # of one call

_A_GRID = "Give the kernel a grid instead of looping over launches."

Step = dict[str, Any]  # as in plans, with Buffers in place of their numbers


@dataclass(eq=False)
class Steps:
    """Collects steps, and counts what one call may have a limited amount of."""

    path: str  # of the submission's file
    stream: int = 0  # the current one
    noted: list[Step] = field(default_factory=list)
    _launches: int = 0
    _uploaded: int = 0

    def copy(self) -> Steps:
        """A copy to which other steps can be added."""
        return replace(self, noted=[*self.noted])

    def add(self, do: str, **fields: Any) -> Step:
        """Note a step. Raises PlanLimit."""
        if len(self.noted) >= MAX_STEPS:
            message = f"the launcher asks for more than {MAX_STEPS:,} launches, copies and fills"
            raise PlanLimit(f"{message} in one call", _A_GRID)
        step = {"do": do, **fields, "line": self.caller()}
        if do in ("fill", "copy"):
            step["stream"] = self.stream
        self.noted.append(step)
        self._launches += do == "launch"
        if self._launches > MAX_LAUNCHES:
            message = f"the launcher makes more than {MAX_LAUNCHES:,} launches in one call"
            raise TooManyLaunches(message, _A_GRID)
        return step

    def check_upload(self, size: int) -> None:
        """Raises PlanLimit where so many more bytes are too many for one call."""
        if self._uploaded + size > MAX_UPLOAD_BYTES:
            raise PlanLimit(
                f"{self._uploaded + size:,} bytes go from the launcher to the device in one call; "
                f"at most {MAX_UPLOAD_BYTES:,} may",
                "Compute them in a kernel.",
            )

    def count_upload(self, size: int) -> None:
        """Count bytes that are uploaded. Raises PlanLimit."""
        self.check_upload(size)
        self._uploaded += size

    def end_call(self) -> list[Step]:
        """End a call and return its steps; the next call begins with none."""
        steps, self.noted = self.noted, []
        self._launches = self._uploaded = 0
        return steps

    def caller(self) -> int:
        """The current line of the submission's file, or 0."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.path:
                return frame.f_lineno
            frame = frame.f_back
        return 0
