"""Jobs run in parallel by executors; a job whose process was lost is retried once, in pieces.

A grade's executor is a pool of this machine's processes, which work on one submission. A class's is
such a pool or a cluster's workers, which work on hand-ins. Jobs wait in queues: an executor gets no
more than it runs at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from grader.grading import process_pool

TRIES = 2
POLL_SECONDS = 0.5  # between checks of the stop event

Job = TypeVar("Job")
Work = TypeVar("Work")
Result = TypeVar("Result")
Work_contra = TypeVar("Work_contra", contravariant=True)


class Stopped(Exception):
    """A person or the machine asked for the end."""


class Executor(Protocol[Work_contra, Result]):
    """The part of `concurrent.futures.Executor` that is needed here."""

    @property
    def width(self) -> int:
        """The most jobs that it takes at a time."""

    @property
    def lost(self) -> tuple[type[BaseException], ...]:
        """Exceptions of a future whose process was lost."""

    def submit(self, work: Work_contra, /) -> Future[Result]:
        """Start a job."""


@dataclass(frozen=True)
class InPool(Generic[Work, Result]):
    """An executor of this machine's processes, which call `function` with the work."""

    processes: process_pool.Pool
    width: int
    function: Callable[[Work], Result]
    on_message: Callable[[Any], None] = process_pool.unheard
    lost: tuple[type[BaseException], ...] = (process_pool.Lost, TimeoutError, BrokenExecutor)

    def submit(self, work: Work) -> Future[Result]:
        """Have a process do the work."""
        return self.processes.submit(self.function, work, on_message=self.on_message)


@dataclass(eq=False)
class Queue(Generic[Job, Work, Result]):
    """An ordered queue of jobs for one executor."""

    executor: Executor[Work, Result]
    work_of: Callable[[Job], Work]  # called late, when a job starts: the work may be large
    pieces: Callable[[Job], Iterable[Job]] = lambda job: (job,)  # of a job that was lost
    tries: int = TRIES
    waiting: deque[tuple[Job, int]] = field(default_factory=deque)

    def add(self, jobs: Iterable[Job]) -> None:
        """Append jobs."""
        self.waiting.extend((job, self.tries) for job in jobs)


@dataclass(frozen=True)
class Ended(Generic[Job, Work, Result]):
    """A job that is done, or that was lost as often as allowed."""

    queue: Queue[Job, Work, Result]
    job: Job
    work: Work
    future: Future[Result]

    @property
    def is_lost(self) -> bool:
        """Whether its process was lost."""
        lost = self.queue.executor.lost
        return not self.future.cancelled() and isinstance(self.future.exception(), lost)


def run(
    queues: Sequence[Queue[Job, Work, Result]], stop: threading.Event | None = None
) -> Iterator[Ended[Job, Work, Result]]:
    """Run every job of the queues, and those added meanwhile; yields each as it ends.

    Raises Stopped once `stop` is set, after yielding the jobs that have ended.
    """
    running: dict[Future[Result], tuple[Ended[Job, Work, Result], int]] = {}
    while running or any(queue.waiting for queue in queues):
        for queue in queues:
            busy = sum(ended.queue is queue for ended, _ in running.values())
            while queue.waiting and busy < queue.executor.width and not _is_set(stop):
                job, tries = queue.waiting.popleft()
                work = queue.work_of(job)
                future = queue.executor.submit(work)
                running[future] = Ended(queue, job, work, future), tries
                busy += 1
        done, _ = wait(running, POLL_SECONDS if stop else None, FIRST_COMPLETED)
        for future in done:
            ended, tries = running.pop(future)
            if tries > 1 and ended.is_lost:
                again = ((piece, tries - 1) for piece in ended.queue.pieces(ended.job))
                ended.queue.waiting.extend(again)
            else:
                yield ended
        if _is_set(stop):
            raise Stopped


def _is_set(stop: threading.Event | None) -> bool:
    return stop is not None and stop.is_set()
