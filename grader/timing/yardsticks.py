"""The yardsticks' workers of one variant: who they are, and how long they live.

A worker on a GPU takes a second and more to start, and a variant may be timed on several cases. So
`copy` and `torch` serve them all, one after the other, with buffers for the largest. What
torch.compile makes depends on which sizes came before, and the staff's solution may keep something
too: they start anew for each case. After noise all do. One of these that fails ends the timing of
the variant, so that nobody asks it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from grader.cases import Case
from grader.sandbox import Sandbox
from grader.spec import Exercise, Variant
from grader.timing import lanes

CONTROL = "copy"
CONTROL_BYTES = 256 << 20  # moved by a control at least: some 90 us on an H100
KEPT = (CONTROL, "torch")


class Yardsticks(contextlib.AbstractContextManager["Yardsticks"]):
    """Starts them. Close it, or use it as a context manager."""

    def __init__(
        self, sandbox: Sandbox, exercise: Exercise, variant: Variant, cases: Sequence[Case]
    ) -> None:
        """They run in `sandbox`, where no submission may run, and serve `cases`."""
        self._sandbox, self._exercise, self._variant = sandbox, exercise, variant
        self._cases = cases
        self._opened = contextlib.ExitStack()
        self._kept: dict[str, lanes.Starting] = {}

    def __exit__(self, *_: object) -> None:
        self.renew()

    def renew(self) -> None:
        """End them all: who is asked for next is a new one."""
        self._kept.clear()
        self._opened.close()

    def begin(self, name: str, case: Case, opened: contextlib.ExitStack) -> lanes.Starting:
        """One by name, for a case. One that isn't kept lives as long as `opened`.

        Raises as lanes.yardstick does.
        """
        what = (name, self._exercise, self._variant)
        if name not in KEPT or len(self._cases) == 1:
            return lanes.yardstick(self._sandbox, *what, case, self.moved_by(name, case), opened)
        if name in self._kept:
            layout = lanes.layout_of(*what, case, self.moved_by(name, case))
            self._kept[name] = self._kept[name].again(layout)
        else:
            others = [(each, self.moved_by(name, each)) for each in self._cases if each != case]
            self._kept[name] = lanes.yardstick(
                self._sandbox, *what, case, self.moved_by(name, case), self._opened, others
            )
        return self._kept[name]

    @property
    def needed(self) -> set[str | None]:
        """Those that thresholds name."""
        return {each.speed_vs for each in self._variant.performance.steps}

    def moved_by(self, name: str, case: Case) -> int:
        """Bytes: as the case, but for a control that no threshold names, which has to be long."""
        moved = lanes.moved_bytes(self._variant, case)
        if name == CONTROL and CONTROL not in self.needed and self._sandbox.device == "cuda":
            return max(moved, CONTROL_BYTES)
        return moved
