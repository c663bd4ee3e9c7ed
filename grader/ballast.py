"""A kernel under ballast: it has to do with the GPU memory that is left.

Another process takes GPU memory until less is free than a matrix would need that a kernel must not
hold. The case then runs in a worker that had its context and its code on the device before.
Counting what the entry allocates shows as much on a machine without a GPU (triton_memory.py); this
sees memory that isn't counted there.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

import torch

from grader.arena import Arena
from grader.cases import fixed_case
from grader.evidence import MemoryEvidence, Metric
from grader.runner import YARDSTICKS, Runner
from grader.sandbox import Sandbox
from grader.spec import ITEMSIZE, Exercise, Variant
from grader.status import Status
from grader.supervision import Death, Limits, SandboxError
from grader.worker.protocol import Argument, Code, Kind, Operation

LIMITS = Limits(cpu_seconds=60.0, memory_bytes=16 << 30)
MEBIBYTE = 1 << 20


def look(
    trusted: Sandbox,
    runner: Runner,
    exercise: Exercise,
    variant: Variant,
    seed: int,
    seen: MemoryEvidence,
) -> MemoryEvidence:
    """What was seen of a variant's memory, and how it fares under the ballast its spec names.

    `runner` runs the variant on a GPU; who takes the rest runs in `trusted`, which is started if it
    isn't yet. Raises SandboxError where no ballast can be taken.
    """
    ballast = variant.memory.ballast
    small = fixed_case(exercise, variant, variant.memory.case, seed)
    case = fixed_case(exercise, variant, ballast.case, seed)
    leaves = int(ballast.leaves.evaluate({**dict(case.sizes), "itemsize": ITEMSIZE[case.dtype]}))
    with contextlib.ExitStack() as held:
        held.enter_context(_every_core())
        result = runner.run_after(small, case, lambda: _take(trusted, leaves, held))
    if result.verdict.passed:
        taken = Metric("ballast", leaves, f"bytes that were free on the GPU, for {case}")
        return replace(seen, metrics=(*seen.metrics, taken))
    told = (
        f"on a GPU with {leaves / MEBIBYTE:.0f} MiB free: {result.verdict.what or result.status} "
        "Is there a buffer that grows with the product of the sizes?"
    )
    out_of_memory = result.status is Status.out_of_memory
    return MemoryEvidence(Status.target_missed if out_of_memory else result.status, told, str(case))


@contextlib.contextmanager
def _every_core() -> Iterator[None]:
    """Let torch use them all: nothing runs beside this, and on one the definition took 19 s."""
    before = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _take(sandbox: Sandbox, leaves: int, held: contextlib.ExitStack) -> None:
    """Let a process of our own take the GPU's memory, but for so many bytes, while `held` is."""
    sandbox.start()
    arena = held.enter_context(Arena(MEBIBYTE, MEBIBYTE))
    worker = sandbox.worker(YARDSTICKS, "ballast", arena.buffers, LIMITS)
    held.callback(worker.close)
    for operation in (Operation.load, Operation.run):
        answer = worker.ask(operation, [Argument(kind=Kind.int64, scalar=leaves)])
        if isinstance(answer, Death) or answer.code is not Code.ok:
            told = answer.description if isinstance(answer, Death) else answer.text
            raise SandboxError(f"the GPU's memory could not be taken: {told[:200]}")
