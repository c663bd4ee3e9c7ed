"""Running jobs side by side: what is finished goes to the store, what is lost is tried once more.

Where jobs run is an Executor's affair: processes of this machine, a cluster's workers, or this
process itself. There is no scheduler here: a few jobs are handed over ahead, no more than keep
every process busy.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from grader.batch.plan import Job
from grader.batch.tasks import Graded, HandinTask, Result, TaskError, given_up
from grader.gpu.locks import GpuError
from grader.grading import process_pool
from grader.sandbox.confinement import ConfinementError

TRIES = 2
LOOK_SECONDS = 0.5  # between looks at what is to be stopped, while nothing finishes
LOST = "the grader's own process was lost, twice"


class Stopped(Exception):
    """A person, or the machine, wanted it to end."""


class Executor(Protocol):
    """Where tasks run: `concurrent.futures`, as far as it is needed."""

    width: int  # tasks that run side by side
    lost: tuple[type[BaseException], ...]  # a future's exception where its process was lost

    def submit(self, task: HandinTask) -> Future[Graded]: ...


class InPool:
    """Processes of this machine."""

    lost: tuple[type[BaseException], ...] = (process_pool.Lost, TimeoutError, BrokenExecutor)

    def __init__(
        self,
        processes: process_pool.Pool,
        width: int,
        function: Callable[[HandinTask], Graded],
        told: Callable[[Any], None] = lambda what: None,
    ) -> None:
        self.width = width
        self._pool = processes
        self._function = function
        self._told = told

    def submit(self, task: HandinTask) -> Future[Graded]:
        return self._pool.submit(self._function, task, told=self._told)


@dataclass
class Finished:
    """A job that is done: with its results, where `trouble` is empty those of a grading."""

    job: Job
    results: tuple[Result, ...]
    environment: dict[str, Any]
    trouble: str = ""


@dataclass
class Lane:
    """Jobs for one executor, in their order."""

    executor: Executor
    queue: deque[tuple[Job, int]] = field(default_factory=deque)

    def add(self, jobs: Iterable[Job]) -> None:
        self.queue.extend((job, TRIES) for job in jobs)


@dataclass(frozen=True)
class _Running:
    lane: Lane
    job: Job
    task: HandinTask
    tries: int


def drive(
    lanes: Iterable[Lane],
    make_task: Callable[[Job], HandinTask],
    finished: Callable[[Finished], None],
    environment: dict[str, Any],
    stop: threading.Event,
) -> None:
    """Run every job of the lanes, and those that `finished` adds to them, until `stop` is set.

    A job whose process is lost is tried once more, a variant at a time, then given up: its results
    say that the grader failed, with the `environment` of this machine. Raises Stopped, what
    `finished` raises, TaskError and ConfinementError: nothing would come of the other jobs either.
    """
    lanes = list(lanes)
    running: dict[Future[Graded], _Running] = {}
    while running or any(lane.queue for lane in lanes):
        for lane in lanes:
            busy = sum(each.lane is lane for each in running.values())
            while lane.queue and busy < lane.executor.width and not stop.is_set():
                job, tries = lane.queue.popleft()
                task = make_task(job)
                running[lane.executor.submit(task)] = _Running(lane, job, task, tries)
                busy += 1
        done, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
        for future in done:
            _settle(future, running.pop(future), finished, environment)
        if stop.is_set():
            raise Stopped


def _settle(
    future: Future[Graded],
    ran: _Running,
    finished: Callable[[Finished], None],
    environment: dict[str, Any],
) -> None:
    try:
        graded = future.result()
    except (TaskError, ConfinementError, GpuError):
        raise
    except ran.lane.executor.lost as error:
        if ran.tries > 1:  # each variant on its own, so that one alone can be given up
            jobs = [replace(ran.job, wanted=(wanted,)) for wanted in ran.job.wanted]
            ran.lane.queue.extend((job, ran.tries - 1) for job in jobs)
            return
        reason = f"{LOST} ({type(error).__name__}): for want of memory?"
    except CancelledError:
        raise TaskError(
            "the tasks were cancelled: whoever hands them out is gone. What is graded is stored, "
            "and the same command goes on"
        ) from None
    except Exception as error:
        reason = "".join(traceback.format_exception(error, limit=-6))
    else:
        finished(Finished(ran.job, graded.results, graded.environment))
        return
    finished(Finished(ran.job, tuple(given_up(ran.task, reason)), environment, reason))
