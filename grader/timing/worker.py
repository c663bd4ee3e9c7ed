"""The clock's own moment: a request goes out, an answer comes, the outputs are read, time is taken.

The worker stands by at a shared page (request_page.py). It can't gain by answering before the
device has finished: the clock stops only after a sample of the outputs was read, by this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from grader import hostile
from grader.emulator import report
from grader.status import Status
from grader.supervision import Cause, Death, Worker
from grader.timing.request_page import RequestPage
from grader.worker.protocol import Argument, Code, Operation, Reply

WAKE_SECONDS = 0.002  # for the worker to come out of its nap once a request is announced
# After an empty request: sooner, the device has not put the worker's context down yet, and takes
# it up again hundreds of us late; much later, its processor and the driver have gone cold again.
REST_SECONDS = 0.0008
LOOK_SECONDS = 0.002  # between looks at whether it is still alive; each costs microseconds

T = TypeVar("T")


class TimingFailed(Exception):
    """A worker did not get through a request; the message says what came instead."""

    def __init__(self, message: str, status: Status) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Run(Generic[T]):
    """One request, timed."""

    seconds: float  # from the request until the sample was read
    inside_seconds: float  # the worker's word
    sample: T  # what was read of the outputs


class TimedWorker:
    """A worker that stands by. Close it, or use it as a context manager."""

    def __init__(
        self, worker: Worker, page: RequestPage, sets: Sequence[Sequence[Argument]]
    ) -> None:
        """Hand it the arguments of every set, and let it stand by. Raises TimingFailed."""
        self._worker = worker
        self._page = page
        for number, arguments in enumerate(sets):
            expect_ok(worker.ask(Operation.place, arguments, repeat=number))
        if died := worker.post(Operation.stand_by):
            expect_ok(died)

    def __enter__(self) -> TimedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        self._worker.close()

    def profile(self, arguments: Sequence[Argument]) -> Reply | Death:
        """Let it stand by no longer, and call the entry once more with its kernels listed.

        What it was timed with goes on being what it is: its kernels are compiled, and what a
        profiler costs comes after the last timed run.
        """
        self._page.stop()
        stopped = self._worker.wait()
        expect_ok(stopped)
        return self._worker.ask(Operation.profile, arguments)

    def wake(self, limit_seconds: float) -> None:
        """Say that a request is about to come, and wait until the worker is there for it.

        From then on it spins. It is asked for nothing once: what it costs the worker and the device
        to come back to work, after however long, is not to show in the request that is timed.
        Raises TimingFailed as `run` does.
        """
        self._page.announce()
        time.sleep(WAKE_SECONDS)
        self._ask(0, 0, limit_seconds)
        self._page.announce()
        rested = time.perf_counter() + REST_SECONDS
        while time.perf_counter() < rested:
            pass  # a sleep may be a long one

    def run(
        self, first: int, count: int, read_sample: Callable[[], T], limit_seconds: float
    ) -> Run[T]:
        """Time a call for each of `count` sets from `first` on; the worker was woken before.

        `read_sample` must have nothing left to prepare. Raises TimingFailed where the worker ends,
        answers with an error, or takes longer than `limit_seconds`.
        """
        started = time.perf_counter()
        self._ask(first, count, limit_seconds)
        sample = read_sample()
        seconds = time.perf_counter() - started
        return Run(seconds, self._page.inside_seconds, sample)

    def _ask(self, first: int, count: int, limit_seconds: float) -> None:
        """A request, until it is answered. Raises TimingFailed."""
        started = time.perf_counter()
        self._page.ask(first, count)
        look = started + LOOK_SECONDS
        while not self._page.is_answered:
            now = time.perf_counter()
            if now >= look:
                look = now + LOOK_SECONDS
                self._look(now - started, limit_seconds)

    def _look(self, seconds: float, limit_seconds: float) -> None:
        answer = self._worker.answered()
        if answer is not None:
            expect_ok(answer)
            raise TimingFailed("the timed run ended: nobody stands by any more", Status.crashed)
        if seconds > limit_seconds:
            expect_ok(self._worker.give_up())


def expect_ok(answer: Reply | Death) -> None:
    """Raises TimingFailed for anything but an answer `ok`.

    With the status of what was found, where a CUDA C++ program says what; `not_measured` where
    memory ran out, and for what the emulator lacks.
    """
    if isinstance(answer, Death):
        status = Status.timed_out if answer.cause is Cause.timed_out else Status.crashed
        raise TimingFailed(f"the timed run ended: {answer.description}", status)
    if answer.code is Code.out_of_memory:
        raise TimingFailed("the GPU has too little memory for it", Status.not_measured)
    if answer.code is Code.not_modelled:
        what = hostile.one_line(hostile.text(hostile.fields(answer), "message"))
        raise TimingFailed(f"the emulator doesn't support {what}", Status.not_measured)
    if answer.code is Code.found:
        raise _of_findings(answer)
    if answer.code is not Code.ok:
        raise TimingFailed(f"the timed run failed: {_message(answer)}", Status.crashed)


def _message(answer: Reply) -> str:
    """What went wrong, in the worker's words."""
    fields = hostile.fields(answer)
    told = [hostile.text(fields, name) for name in ("type", "message")]
    return hostile.one_line(": ".join(filter(None, told)) or hostile.clean(answer.text))


def _of_findings(answer: Reply) -> TimingFailed:
    """The gravest of what the emulator saw or the CUDA runtime said; its line isn't known here."""
    try:
        findings = report.parse(answer.text).findings
    except report.ReportError:
        findings = ()
    if not findings:
        return TimingFailed("the timed run's report makes no sense", Status.crashed)
    status, gravest = min(
        ((Status(report.status_name_of(each.kind)), each) for each in findings),
        key=lambda pair: list(Status).index(pair[0]),
    )
    what, _ = report.message_of(gravest, "", ())
    return TimingFailed(f"in a timed call: {hostile.clean(what)}", status)
