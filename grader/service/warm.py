"""One request in a process of the pool, which stays for the next ones.

What no submission can have touched is kept from one request to the next: imports, specs, oracles,
and sandboxes as kept_sandboxes.py says. Plans and builds are kept for requests with the
same source, spec and GPU (kept_builds.py). No verdict is kept.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil

from grader.executors.compile.kept_builds import Store
from grader.executors.cuda import cuda_build
from grader.gpu import locks
from grader.gpu.devices import DeviceName
from grader.grading import kept_sandboxes
from grader.grading.session import Lent, Options
from grader.sandbox import processes
from grader.sandbox.sandbox import end_this_process
from grader.service.results import CheckResult
from grader.service.single import EFFORTS, EffortName, check_source
from grader.spec.task import Task

TIME_LIMIT_EXIT = 76  # of a process whose request ran out of time
_POLL_SECONDS = 0.2
_WALL_PER_CPU = 6.0  # for what waits or sleeps; more than a busy machine needs

STORE = Store(64 << 20)

_is_used: list[bool] = []  # whether this process has had a request


@dataclass(frozen=True)
class Work:
    """A request as a pool process gets it."""

    task: Task
    source: str
    seed: int
    effort: EffortName
    timed: bool
    limit_s: float
    device: DeviceName
    require_sandbox: bool


def answer(work: Work) -> CheckResult:
    """Check one source. The process ends itself where that takes longer than the limit."""
    if not _is_used:
        _is_used.append(True)
        gc.freeze()  # what was imported lives to the end: collections would only take time
    language = work.task.variant.language
    if work.device == locks.ON_GPU:
        locks.settle(False)
    options = Options(
        seed=work.seed,
        device=work.device,
        effort=EFFORTS[work.effort],
        require_sandbox=work.require_sandbox,
        keeps_builds=False,  # a neighbour's compiler may have written them
    )
    with kept_sandboxes.of_a_submission(work.device, work.require_sandbox) as (sandbox, native):
        # What it imports, and what all programs share, is no request's.
        if language == "cuda":
            with contextlib.suppress(cuda_build.BuildError):  # the request tells it
                cuda_build.prepare()
        (sandbox if language == "triton" else native["emulator"]).start()
        with _limited(work.limit_s):
            is_timed = work.timed and work.device == locks.ON_GPU
            trusted = kept_sandboxes.baselines() if is_timed else None
            lent = Lent(native, trusted, STORE)
            return check_source(
                work.task, work.source, options, timed=work.timed, sandbox=sandbox, lent=lent
            )


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End this process where the block takes more CPU time, or _WALL_PER_CPU times as much time.

    CPU time counts, so that busy neighbours don't decide. Waiting for the GPU's lock doesn't count.
    """
    done = threading.Event()
    began, waited, used = time.monotonic(), locks.seconds_waited(), cpu_seconds()

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            wall = time.monotonic() - began - (locks.seconds_waited() - waited)
            if wall > _WALL_PER_CPU * seconds or (
                wall > seconds and cpu_seconds() - used > seconds
            ):
                end_this_process(TIME_LIMIT_EXIT)

    watch = threading.Thread(target=poll, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


def cpu_seconds() -> float:
    """The CPU time of this process, of all below it, and of what ended there."""
    total = sum(os.times()[:4])
    for each in processes.below(os.getpid()):
        with contextlib.suppress(psutil.Error):
            total += sum(each.cpu_times()[:4])  # with that of children that have ended
    return total
