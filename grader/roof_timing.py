"""Times the workloads that roofs are measured with, in a trusted worker on the GPU.

The worker runs yardsticks only, nothing of a submission, so that it is believed when it says that
the device has finished. Seconds per call are a slope: what a request costs once cancels.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Iterator

import torch

from grader import gpu_turns
from grader.arena import Arena, Slot, required_bytes
from grader.confinement import Level
from grader.inputs import Inputs, blank_argument, strides_of
from grader.roofs import SecondsOf, Workload, WorkloadFailed
from grader.runner import YARDSTICKS
from grader.sandbox import Sandbox
from grader.supervision import Death, Limits, Worker
from grader.worker.protocol import Code, Operation, Reply

PAIRS = 9
COPIES = 2  # of all arguments: together beyond every L2 cache
LONG_SECONDS = 0.05  # of a long request: long against its overhead
LIMITS = Limits(cpu_seconds=120.0, memory_bytes=32 << 30)


@contextlib.contextmanager
def timer(device: str = "cuda") -> Iterator[SecondsOf]:
    """What `roofs.measure` asks for, as long as the context is open."""
    with gpu_turns.alone_on(device), Sandbox(device, Level.limits) as sandbox:
        sandbox.start()
        yield lambda workload: _seconds(sandbox, workload)


def _seconds(sandbox: Sandbox, workload: Workload) -> float:
    """Seconds per call, the median of slopes. Raises WorkloadFailed."""
    made = _inputs(workload)
    inputs = required_bytes([slot for slot in made.slots if slot.role == "input"])
    outputs = required_bytes([slot for slot in made.slots if slot.role == "output"])
    entry = "matmul_tf32" if workload.dtype == "tf32" else workload.name
    with Arena(inputs, outputs) as arena, contextlib.ExitStack() as opened:
        worker = sandbox.worker(YARDSTICKS, entry, arena.buffers, LIMITS)
        opened.callback(worker.close)
        _expect_ok(worker.ask(Operation.load, [blank_argument()] * len(made.order)))
        placed = [item.argument for item in arena.place(made.slots)]
        _expect_ok(worker.ask(Operation.prepare, made.arguments(placed), repeat=COPIES))
        return _slope(worker)


def _slope(worker: Worker) -> float:
    _request(worker, 2 * COPIES)  # warm up: libraries choose and load their kernels
    calls = 4
    while calls < 4096 and _request(worker, calls) < LONG_SECONDS:
        calls *= 2
    slopes = []
    for _ in range(PAIRS):
        short = _request(worker, calls // 4)
        slopes.append((_request(worker, calls) - short) / (calls - calls // 4))
    slope = statistics.median(slopes)
    return slope if math.isfinite(slope) else 0.0


def _request(worker: Worker, calls: int) -> float:
    """Wall seconds of one request for so many calls."""
    started = time.perf_counter()
    answer = worker.ask(Operation.time, repeat=calls)
    elapsed = time.perf_counter() - started
    _expect_ok(answer)
    return elapsed


def _inputs(workload: Workload) -> Inputs:
    """The arguments: random bytes to copy, or normal random matrices."""
    if workload.name == "copy":
        values = torch.empty(workload.size, dtype=torch.uint8).random_()
        given = [("source", values)]
        result = ("destination", "uint8", (workload.size,))
    else:
        dtype = "float32" if workload.dtype == "tf32" else workload.dtype
        shape = (workload.size, workload.size)
        given = [(name, torch.randn(shape).to(getattr(torch, dtype))) for name in ("a", "b")]
        result = ("out", dtype, shape)
    slots = [
        Slot(name, str(v.dtype)[6:], tuple(v.shape), strides_of(v.shape, "contiguous")[0], values=v)
        for name, v in given
    ]
    strides = strides_of(result[2], "contiguous")[0]
    return Inputs((*slots, Slot(*result, strides, role="output")), {}, {})


def _expect_ok(answer: Reply | Death) -> None:
    if isinstance(answer, Death):
        raise WorkloadFailed(f"the worker ended: {answer.description}")
    if answer.code is not Code.ok:
        raise WorkloadFailed(answer.text.strip().splitlines()[0][:200] if answer.text else "failed")
