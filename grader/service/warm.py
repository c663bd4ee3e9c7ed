"""One request in a process of the pool, which stays for the next ones.

What no submission can have touched is kept from one request to the next: imports, specs, oracles,
and the sandbox of baselines. A submission has a sandbox of its own. No verdict is kept.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from grader.gpu import locks
from grader.gpu.devices import DeviceName
from grader.grading import process_pool
from grader.grading.session import Options
from grader.grading.watchdog import end_this_process
from grader.sandbox import Sandbox
from grader.service.results import CheckResult
from grader.service.single import EFFORTS, EffortName, check_source
from grader.spec.task import Task
from grader.timing.timed_variant import trusted_sandbox

TIME_LIMIT_EXIT = 76  # of a process whose request ran out of time
_POLL_SECONDS = 0.1


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
    if work.device == locks.ON_GPU:
        locks.settle(False)
    options = Options(
        seed=work.seed,
        device=work.device,
        effort=EFFORTS[work.effort],
        require_sandbox=work.require_sandbox,
        keeps_builds=False,  # a neighbour's compiler may have written them
    )
    with _limited(work.limit_s):
        trusted = _baselines() if work.timed and work.device == locks.ON_GPU else None
        return check_source(work.task, work.source, options, timed=work.timed, trusted=trusted)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """End this process where the block takes longer; waiting for the GPU's lock doesn't count."""
    done = threading.Event()
    began, waited = time.monotonic(), locks.seconds_waited()

    def poll() -> None:
        while not done.wait(_POLL_SECONDS):
            if time.monotonic() - began - (locks.seconds_waited() - waited) > seconds:
                end_this_process(TIME_LIMIT_EXIT)

    watch = threading.Thread(target=poll, daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()
        watch.join()


_kept: list[Sandbox] = []  # of baselines, in a process that times


def _baselines() -> Sandbox:
    """The sandbox of baselines: no submission runs in it, and it imports torch."""
    if not _kept:
        _kept.append(trusted_sandbox("cuda"))
        process_pool.at_end(_kept[0].close)
    return _kept[0]
