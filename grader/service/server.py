"""Answers requests from a stream, several at a time, in processes that stay warm.

    with Server(exercises, write, settings) as server:
        server.serve(stream)        to the end of the stream, or of the process

A request has a pool process for itself while it runs, and a sandbox that no other request has. So
what crashes, hangs or eats memory there touches no other request. No line is read while `queue`
requests wait: who writes to the stream waits, too.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import IO

from grader.gpu.devices import DeviceName
from grader.grading import process_pool
from grader.mistakes import Mistake
from grader.sandbox import confinement
from grader.service import messages
from grader.service.messages import Answer, Request
from grader.service.results import CheckResult
from grader.service.single import RequestError, task_named
from grader.service.warm import TIME_LIMIT_EXIT, Work, answer
from grader.spec import Exercise

TRIES = 2  # of a request whose process was lost
MOST_SEEDS = 1 << 32


class Interrupted(BaseException):
    """A signal asked for the end."""


@dataclass(frozen=True)
class Settings:
    """How a server works."""

    jobs: int = 1
    queue: int = 16  # requests that wait at most
    device: DeviceName = "cpu"
    require_sandbox: bool = False


class Server(contextlib.AbstractContextManager["Server"]):
    """Answers requests until their stream ends. A context manager."""

    def __init__(
        self, exercises: Mapping[str, Exercise], write: Callable[[str], object], settings: Settings
    ) -> None:
        """`write` gets each answer as a line; one thread at a time calls it.

        Raises ConfinementError where a sandbox is required and none is available.
        """
        confinement.choose(None, settings.device, settings.require_sandbox)
        self._exercises, self._write, self._settings = exercises, write, settings
        self._free = threading.Semaphore(settings.jobs + settings.queue)
        self._open: dict[int, Request] = {}  # requests without an answer, by their line
        self._lock = threading.Lock()
        process_pool.expect()
        self._pool = process_pool.Pool(settings.jobs)

    def __exit__(self, *_: object) -> None:
        """Answer what is left as interrupted, and stop the processes."""
        with self._lock:
            left, self._open = self._open, {}
            for request in left.values():
                error = "the server ended before this was graded"
                self._write(Answer(id=request.id, outcome="interrupted", error=error).line())
        self._pool.__exit__()

    def serve(self, lines: IO[bytes]) -> None:
        """Answer every request of a stream; returns when it has ended and all are answered."""
        for number, line in _numbered(lines):
            read = _too_long(number) if line is None else messages.read(line, number)
            self._free.acquire()
            if isinstance(read, Answer):
                self._reply(number, read)
            else:
                self._begin(number, read)
        for _ in range(self._settings.jobs + self._settings.queue):
            self._free.acquire()

    def _begin(self, number: int, request: Request) -> None:
        with self._lock:
            self._open[number] = request
        try:
            work = self._work(request)
        except RequestError as error:
            answer = Answer(id=request.id, outcome="refused", error=f"line {number}: {error}")
            self._reply(number, answer)
            return
        self._submit(number, request, work, TRIES)

    def _work(self, request: Request) -> Work:
        seed = secrets.randbelow(MOST_SEEDS) if request.seed is None else request.seed
        return Work(
            task_named(self._exercises, request.exercise),
            request.source,
            seed,
            request.effort,
            request.timed,
            request.limit_s,
            self._settings.device,
            self._settings.require_sandbox,
        )

    def _submit(self, number: int, request: Request, work: Work, tries: int) -> None:
        def done(future: Future[CheckResult]) -> None:
            error = None if future.cancelled() else future.exception()
            is_lost = isinstance(error, process_pool.Lost) and not _ran_out(error)
            if is_lost and tries > 1 and number in self._open:
                self._submit(number, request, work, tries - 1)
                return
            self._reply(number, _answer_of(request, future))

        self._pool.submit(answer, work).add_done_callback(done)

    def _reply(self, number: int, answer: Answer) -> None:
        """Write an answer, unless the request is answered already."""
        try:
            with self._lock:
                if self._open.pop(number, None) or answer.outcome == "malformed":
                    self._write(answer.line())
        finally:
            self._free.release()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and Ctrl-C raise Interrupted in the main thread, once."""

    def handle(number: int, frame: object) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _answer_of(request: Request, future: Future[CheckResult]) -> Answer:
    try:
        return Answer(id=request.id, outcome="graded", result=future.result())
    except CancelledError:
        return Answer(id=request.id, outcome="interrupted", error="the server ended")
    except process_pool.Lost as error:
        if _ran_out(error):
            limit = f"it took more than {request.limit_s:g} s of CPU time, or far more in all"
            return Answer(id=request.id, outcome="time_limit", error=limit)
        return Answer(id=request.id, outcome="failed", error="the grader's process was lost, twice")
    except Mistake as error:
        return Answer(id=request.id, outcome="refused", error=str(error))
    except Exception as error:
        said = f"the grader failed: {type(error).__name__}: {error}"
        return Answer(id=request.id, outcome="failed", error=said)


def _ran_out(error: BaseException | None) -> bool:
    return getattr(error, "exitcode", None) == TIME_LIMIT_EXIT


def _numbered(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """The lines that aren't empty, from 1; None in place of one that is too long."""
    number = 0
    while line := stream.readline(messages.MOST_LINE_BYTES):
        number += 1
        if len(line) == messages.MOST_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := stream.readline(1 << 16)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        elif line.strip():
            yield number, line


def _too_long(number: int) -> Answer:
    most = f"expected at most {messages.MOST_LINE_BYTES >> 20} MiB"
    return Answer(outcome="malformed", error=f"line {number}: {most}, got more")
