"""The baselines of one variant or of several, each started once for all cases."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

from grader.cases import Case
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import SandboxError
from grader.spec.task import Task
from grader.timing import contenders
from grader.timing.buffer_sets import Layout
from grader.timing.contenders import Planned, Standing
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.graph_replays import Replays
from grader.worker.gpu_mapping import GpuMemoryError

CONTROL = "copy"
CONTROL_BYTES = 256 << 20  # that a control moves at least
REFERENCE = "reference"
_IN_THE_WAY = (TimingFailed, TooLittleMemory, SandboxError, GpuMemoryError)


class Baselines(contextlib.AbstractContextManager["Baselines"]):
    """Starts baselines by name. A context manager, which ends them.

    Starting a worker takes long, and a variant may be timed on several cases. So one worker per
    baseline serves all cases in turn, with buffers for the largest. It can serve several variants
    whose baselines are the same Python: see `turn_to`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        executors: Sandbox,
        task: Task,
        cases: Sequence[Case],
        reference: Callable[[], Planned] | None,
        later: Sequence[tuple[Task, Sequence[Case]]] = (),
    ) -> None:
        """`sandbox` runs the baselines in Python and no submission; `executors` runs our plans, of
        a copy and of the staff's solution, which `reference` makes. `later` are timed after this
        task."""
        self._sandbox, self._executors, self._task = sandbox, executors, task
        self._every, self._reference = [(task, cases), *later], reference
        self._opened = contextlib.ExitStack()
        self._kept: dict[str, Standing] = {}

    def __exit__(self, *_: object) -> None:
        self.renew()

    def renew(self) -> None:
        """End all baselines; each is started anew when it is next asked for."""
        for each in self._kept.values():
            each.worker.begin_to_close()  # all at once: a process on a GPU takes long to end
        self._kept.clear()
        self._opened.close()

    def turn_to(self, task: Task, reference: Callable[[], Planned] | None) -> None:
        """Time one of the later tasks from now on.

        All baselines end where one is other Python for this task, has too little memory for it, or
        has failed.
        """
        [cases] = [cases for each, cases in self._every if each is task]
        for name, standing in [*self._kept.items()]:
            layouts = [self._layout(name, case, task) for case in cases]
            if not (self._is_the_same(name, task) and standing.can_serve(layouts)):
                self.renew()
        self._task, self._reference = task, reference

    def expect(self, names: Collection[str]) -> None:
        """Start the workers of baselines, without waiting for them.

        A failure is suppressed here: `begin` raises it again.
        """
        for name in names:
            if name != REFERENCE or (self.has_reference and self._is_by_plan(name)):
                with contextlib.suppress(*_IN_THE_WAY):
                    self._standing(name)

    def begin(self, name: str, case: Case, opened: contextlib.ExitStack) -> Replays:
        """A baseline's replays of a case. Without a GPU the reference's worker ends with `opened`.

        Raises as contenders.start and contenders.layout_of do.
        """
        if name == REFERENCE:
            assert self._reference is not None  # by has_reference
            executor = self._standing(name) if self._is_by_plan(name) else None
            return self._reference().begin(case, opened, graded=False, executor=executor)
        standing, layout = self._standing(name), self._layout(name, case, self._task)
        if self._is_by_plan(name):
            return contenders.copy(standing, layout)
        return standing.ungraded(layout)

    def _standing(self, name: str) -> Standing:
        """The one worker of a baseline, started with its first use."""
        if name not in self._kept:
            own = [pair for pair in self._every if pair[0] is self._task]
            try:
                started = self._started(name, self._every)
            except (TooLittleMemory, ValueError):  # because of a later task
                started = self._started(name, own)
            self._kept[name] = started
        return self._kept[name]

    def _started(self, name: str, tasks: Sequence[tuple[Task, Sequence[Case]]]) -> Standing:
        """A worker with room for the cases of those tasks for which the baseline is the same."""
        layouts = [
            self._layout(name, case, task)
            for task, cases in tasks
            if self._is_the_same(name, task)
            for case in cases
        ]
        if self._is_by_plan(name):
            return contenders.executor(self._executors, layouts, self._opened)
        return contenders.baseline(self._sandbox, name, self._task, layouts, self._opened)

    def _is_by_plan(self, name: str) -> bool:
        """Whether a baseline is a plan that the GPU executor runs; the others are Python."""
        return name in (CONTROL, REFERENCE) and self._sandbox.device == "cuda"

    def _is_the_same(self, name: str, task: Task) -> bool:
        """Whether a baseline's worker starts alike for a task and for the one being timed."""
        if name in (CONTROL, REFERENCE):  # an executor has no plan at first
            return True
        return contenders.source_of(name, task) == contenders.source_of(name, self._task)

    def _layout(self, name: str, case: Case, task: Task) -> Layout:
        return contenders.layout_of(name, task, case, self.moved_by(name, case, task))

    @property
    def has_reference(self) -> bool:
        """Whether the staff's solution can be timed."""
        return self._reference is not None and contenders.has_reference(self._task)

    @property
    def needed(self) -> set[str]:
        """The baselines that thresholds name."""
        return _needed(self._task)

    def moved_by(self, name: str, case: Case, task: Task | None = None) -> int:
        """Bytes that a baseline moves: the case's, or more for a control without a threshold."""
        task = task or self._task
        moved = contenders.moved_bytes(task.variant, case)
        if name == CONTROL and CONTROL not in _needed(task) and self._sandbox.device == "cuda":
            return max(moved, CONTROL_BYTES)
        return moved


def _needed(task: Task) -> set[str]:
    return {each.speed_vs for each in task.variant.timed.steps if each.speed_vs}
