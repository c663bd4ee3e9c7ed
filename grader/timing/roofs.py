"""Times the workloads that roofs are measured with, by the clock that also times candidates.

Seconds per call are the median of replays (graph_replays.py). Each call of a replay has buffers of
its own, filled with normal random numbers on the device.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator

import torch

from grader.cases.arena import Slot
from grader.cases.inputs import Inputs
from grader.gpu import locks
from grader.gpu.devices import DeviceName
from grader.gpu.measured_roofs import SecondsOf, Workload, WorkloadFailed
from grader.sandbox import Sandbox
from grader.sandbox.confinement import Level
from grader.timing import contenders
from grader.timing.buffer_sets import Layout
from grader.timing.failures import TimingFailed, TooLittleMemory
from grader.timing.graph_replays import Replays
from grader.worker.gpu_mapping import GpuMemoryError

REPLAYS = 9
LETTERS = 200  # of the reason why a workload fails


@contextlib.contextmanager
def timer(device: DeviceName = "cuda") -> Iterator[SecondsOf]:
    """The timer of `measured_roofs.measure`, while the context is open. Raises SandboxError."""
    with (
        locks.exclusive_on(device),
        Sandbox(device, Level.limits) as sandbox,
        Sandbox(device, Level.limits, kind="native") as executors,
        _WorkloadTimer(sandbox, executors if device == "cuda" else None) as it,
    ):
        yield it.seconds_of


class _WorkloadTimer(contextlib.ExitStack):
    """Has a worker for one workload at a time, until another workload is timed."""

    def __init__(self, sandbox: Sandbox, executors: Sandbox | None = None) -> None:
        """`executors` is where plans run on a GPU; without one, a copy is Python's, too."""
        super().__init__()
        self._sandbox, self._executors = sandbox, executors
        self._workload: Workload | None = None
        self._replays: Replays | None = None

    def seconds_of(self, workload: Workload) -> float:
        """Seconds per call, the median of replays. Raises WorkloadFailed."""
        try:
            replays = self._settled(workload)
            return statistics.median(replays.seconds() for _ in range(REPLAYS))
        except (TimingFailed, TooLittleMemory, GpuMemoryError) as error:
            self._leave()
            first_line = (str(error).strip().splitlines() or ["failed"])[0]
            raise WorkloadFailed(first_line[:LETTERS]) from None
        except torch.cuda.OutOfMemoryError:  # of this process, which draws the inputs
            self._leave()
            raise WorkloadFailed("the GPU has too little memory for this size") from None

    def _settled(self, workload: Workload) -> Replays:
        if self._replays is None or workload != self._workload:
            self._leave()
            replays = self._started(workload)
            replays.settle()
            self._workload, self._replays = workload, replays
        return self._replays

    def _started(self, workload: Workload) -> Replays:
        layout = Layout.of_inputs(_inputs(workload))
        if workload.name == "copy" and self._executors is not None:
            executor = contenders.executor(self._executors, [layout], self)
            return contenders.copy(executor, layout)
        entry = "matmul_tf32" if workload.dtype == "tf32" else workload.name
        given = (self._sandbox, contenders.BASELINES, entry, [layout], self)
        return contenders.start(*given).ungraded(layout)

    def _leave(self) -> None:
        """End the worker and free its memory for the next one."""
        self._replays = None
        self.close()
        if self._sandbox.device == "cuda":
            torch.cuda.empty_cache()


def _inputs(workload: Workload) -> Inputs:
    """The arguments, without values."""
    if workload.name == "copy":
        return contenders.copied(workload.size)
    dtype = "float32" if workload.dtype == "tf32" else workload.dtype
    shape, strides = (workload.size, workload.size), (workload.size, 1)
    slots = [Slot(name, dtype, shape, strides) for name in ("a", "b")]
    return Inputs((*slots, Slot("out", dtype, shape, strides, role="output")), {}, {})
