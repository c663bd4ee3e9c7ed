"""The processes of a Triton variant in its sandbox: planner, compilers, executor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.cases.arena import Buffers
from grader.sandbox import Sandbox
from grader.sandbox.worker_process import Limits, Worker


@dataclass(frozen=True)
class TritonProcesses:
    """Starts them. `path` is the submission's file, `entry` the function that is called.

    What each of them may see and do is up to worker/plan_processes.py.
    """

    sandbox: Sandbox
    path: Path
    entry: str
    limits: Limits  # of planner and executor

    def planner(self) -> Worker:
        """A process that has loaded nothing yet and gets no data."""
        return self._of("planner", self.limits)

    def compiler(self, limits: Limits) -> Worker:
        """A process that gets the submission's text, or TTIR."""
        return self._of("compiler", limits)

    def executor(self, buffers: Buffers) -> Worker:
        """A process that has the data in these buffers."""
        return self._of("executor", self.limits, buffers)

    def _of(self, role: str, limits: Limits, buffers: Buffers = ()) -> Worker:
        return self.sandbox.worker(self.path, self.entry, buffers, limits, role=role)
