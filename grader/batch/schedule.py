"""Running jobs side by side: what is finished goes to the store, what is lost is tried once more.

Where jobs run is an Executor's affair: processes of this machine, a cluster's workers, or this
process itself. There is no scheduler here: a few jobs are handed over ahead, no more than keep
every process busy.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from grader import pool
from grader.batch.plan import Job
from grader.batch.tasks import Graded, Result, Task, TaskError, given_up
from grader.confinement import ConfinementError

TRIES = 2
LOOK_SECONDS = 0.5  # between looks at what is to be stopped, while nothing finishes
LOST = "the grader's own process was lost, twice"


class Executor(Protocol):
    """Where tasks run: `concurrent.futures`, as far as it is needed."""

    width: int  # tasks that run side by side
    lost: tuple[type[BaseException], ...]  # a future's exception where its process was lost

    def submit(self, task: Task) -> Future[Graded]: ...


class InThisProcess:
    """One task after the other, here."""

    width = 1
    lost: tuple[type[BaseException], ...] = ()

    def __init__(self, function: Callable[[Task], Graded]) -> None:
        self._function = function

    def submit(self, task: Task) -> Future[Graded]:
        future: Future[Graded] = Future()
        try:
            future.set_result(self._function(task))
        except Exception as error:
            future.set_exception(error)
        return future


class InPool:
    """Processes of this machine."""

    lost: tuple[type[BaseException], ...] = (pool.Lost, TimeoutError, BrokenExecutor)

    def __init__(
        self,
        processes: pool.Pool,
        width: int,
        function: Callable[[Task], Graded],
        told: Callable[[Any], None] = lambda what: None,
    ) -> None:
        self.width = width
        self._pool = processes
        self._function = function
        self._told = told

    def submit(self, task: Task) -> Future[Graded]:
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


def drive(
    lanes: Iterable[Lane],
    make_task: Callable[[Job], Task],
    finished: Callable[[Finished], None],
    environment: dict[str, Any],
) -> None:
    """Run every job of the lanes, and those that `finished` adds to them.

    A job whose process is lost is tried once more, then given up: its results say that the grader
    failed, with the `environment` of this machine. Raises what `finished` raises, TaskError and
    ConfinementError: nothing would come of the other jobs either.
    """
    lanes = list(lanes)
    running: dict[Future[Graded], tuple[Lane, Job, Task, int]] = {}
    while running or any(lane.queue for lane in lanes):
        for lane in lanes:
            busy = sum(each is lane for each, *_ in running.values())
            while lane.queue and busy < lane.executor.width:
                job, tries = lane.queue.popleft()
                task = make_task(job)
                running[lane.executor.submit(task)] = (lane, job, task, tries)
                busy += 1
        done, _ = wait(running, LOOK_SECONDS, FIRST_COMPLETED)
        for future in done:
            lane, job, task, tries = running.pop(future)
            try:
                graded = future.result()
            except (TaskError, ConfinementError):
                raise
            except lane.executor.lost as error:
                if tries > 1:
                    lane.queue.append((job, tries - 1))
                    continue
                reason = f"{LOST} ({type(error).__name__}): for want of memory?"
                finished(Finished(job, tuple(given_up(task, reason)), environment, reason))
            except (Exception, CancelledError) as error:
                reason = "".join(traceback.format_exception(error, limit=-6))
                finished(Finished(job, tuple(given_up(task, reason)), environment, reason))
            else:
                finished(Finished(job, graded.results, graded.environment))
