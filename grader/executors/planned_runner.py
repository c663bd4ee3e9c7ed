"""The base of the two runners by plan: Triton's without a GPU, and the emulator's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grader.executors.executor import is_idle
from grader.executors.planning import Plans
from grader.executors.runner import Runner
from grader.executors.side_by_side import QUEUES
from grader.plan import Plan
from grader.sandbox import Sandbox
from grader.spec.task import Task


class PlannedRunner(Runner):
    """Runs the cases of one variant by plan: `plans` makes it, `_executor` executes it.

    The runners in the list `_sharing`, of one file's entries, hand on their processes.
    """

    plans: Plans
    _executor: Any  # an Executor that can take over another one's worker

    def __init__(self, sandbox: Sandbox, task: Task, path: Path, sharing: list[Any] | None) -> None:
        """`path` is the submission's file."""
        self.task = task
        self.path: Path = path
        self.starts_in = self._sandbox = sandbox
        self._sharing = sharing if sharing is not None else []
        self._sharing.append(self)

    @property
    def plan(self) -> Plan | None:
        """The plan of the last run, of which `is_right_without` leaves launches out."""
        made: Plan | None = self._executor.plan
        return made

    @plan.setter
    def plan(self, plan: Plan | None) -> None:
        self._executor.plan = plan

    def close(self) -> None:
        """End every process and give the arena back, unless another runner goes on with them."""
        if self in self._sharing:
            self._sharing.remove(self)
        idle = (each for each in self._sharing if is_idle(each._executor))
        for other in itertools.islice(idle, 1):
            other._executor.take_over(self._executor)
            other.plans.take_over(self.plans)
        self._executor.close()
        self.plans.close()

    def fresh_worker(self) -> None:
        """Let the next case meet processes that have run nothing."""
        self._executor.fresh_worker()
        self.plans.fresh_worker()


def in_queues(entries: Sequence[str], made: Callable[[str, list[Any]], Runner]) -> list[Runner]:
    """A runner of each entry of one file; those of one queue are in a list, to share processes."""
    sharing: list[list[Any]] = [[] for _ in range(QUEUES)]
    runners = []
    for number, entry in enumerate(entries):
        runner = made(entry, sharing[number % QUEUES])
        runner.queue = number % QUEUES
        runners.append(runner)
    return runners
