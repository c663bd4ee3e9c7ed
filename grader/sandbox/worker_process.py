"""One worker as the grader sees it: its requests, its limits, and how it ended.

    Worker.ask(request)    a Reply, or a Death

The time limit counts CPU time of the worker's process tree, so that a busy machine doesn't fail a
kernel. Wall time has a limit several times that, for processes that only sleep.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from grader.sandbox import memfd, processes
from grader.worker import protocol
from grader.worker.protocol import Code, Operation, ProtocolError, Reply, Request

if TYPE_CHECKING:
    from grader.sandbox.fork_server_process import ForkServer

LOG_BYTES = 64 * 1024
WALL_PER_CPU = 3.0  # allowed wall seconds per second of the CPU limit
WATCH_INTERVAL = 0.1  # seconds between checks of a worker's usage
MEASURE_INTERVAL = 0.3  # seconds between checks of the scratch folder
MOST_PROCESSES = 64  # of one worker at a time
INHERITED_BYTES = 1 << 30  # resident memory of the fork server: torch and triton
START_SECONDS = 120.0  # for importing torch from a cold, slow disk
FORK_SECONDS = 20.0  # milliseconds are enough unless a submission has stopped the fork server
QUESTIONS = 4  # to a worker whose time is over: in which loop is it?
ASKED_SECONDS = 0.2  # that it had at least: with less it was a mere try
QUESTION_SECONDS = 0.1  # between them
END_SECONDS = 1.0  # for a worker to end once it has closed its socket
_LENGTH = re.compile(r"[0-9a-f]{16}")  # of a long answer
EXIT_SECONDS = 5.0  # for the fork server to send how a worker ended


class SandboxError(RuntimeError):
    """A worker can't be started: the fault of the machine or the grader, not the submission's."""


class Cause(str, Enum):
    exited = "exited"  # by itself, before it answered
    signalled = "signalled"  # a fault, or it killed itself
    timed_out = "timed_out"
    out_of_memory = "out_of_memory"
    too_many_processes = "too_many_processes"
    disk_full = "disk_full"  # it filled its scratch folder
    misbehaved = "misbehaved"  # its answer was invalid


@dataclass(frozen=True)
class Death:
    """The end of a worker during a request."""

    cause: Cause
    description: str  # "killed by SIGSEGV", "exit status 3"
    signal: int | None = None
    log: str = ""  # the end of its output, including faulthandler's report
    seconds: float = 0.0


@dataclass(frozen=True)
class Limits:
    cpu_seconds: float = 10.0
    memory_bytes: int = 2 << 30

    @property
    def wall_seconds(self) -> float:
        """The limit on wall time."""
        return self.cpu_seconds * WALL_PER_CPU


class PrintedText:
    """The end of a worker's output during a request, from a non-blocking pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self._tail = bytearray()

    def __str__(self) -> str:
        return self._tail.decode("utf-8", "replace")

    def clear(self) -> None:
        """Drop earlier output."""
        self._tail.clear()

    def read(self) -> None:
        """Read the available output, within a bound, however fast the worker prints."""
        with contextlib.suppress(OSError):
            for _ in range(16):
                data = os.read(self.pipe, LOG_BYTES)
                self._tail += data
                del self._tail[:-LOG_BYTES]
                if len(data) < LOG_BYTES:
                    break


class Worker:
    """One untrusted process and its socket."""

    def __init__(
        self,
        server: ForkServer,
        number: int,
        pid: int,
        requests: socket.socket,
        log: int,
        limits: Limits,
    ) -> None:
        self.pid = pid
        self.limits = limits
        self.alive = True
        self._server = server
        self._number = number
        self._requests = requests
        self._printed = PrintedText(log)
        self._sequence = 0
        self._pidfd = _open_pidfd(pid)
        # Readable once it has answered or ended.
        self.ends = [requests.fileno(), *([] if self._pidfd is None else [self._pidfd])]
        self._poller = select.poll()
        # The socket first: once an answer is visible, so is the output before it.
        for source in (*self.ends[:1], log, *self.ends[1:]):
            self._poller.register(source, select.POLLIN)

    def ask(
        self,
        operation: Operation,
        arguments: Sequence[protocol.Argument] = (),
        repeat: int = 0,
        limits: Limits | None = None,
        document: bytes = b"",
    ) -> Reply | Death:
        """Send a request and wait for its answer, within the limits.

        A `document` is sent as a sealed memfd. After a Death the worker and all its processes are
        gone.
        """
        return self.post(operation, arguments, repeat, document) or self.wait(limits)

    def ask_at_length(
        self,
        operation: Operation,
        arguments: Sequence[protocol.Argument] = (),
        limits: Limits | None = None,
        document: bytes = b"",
    ) -> Reply | Death:
        """As `ask`, for an answer that may be longer than one reply: see worker/serving.py.

        The Reply has the whole text. A worker that violates the convention misbehaves.
        """
        return self.post(operation, arguments, 0, document) or self.wait_at_length(limits)

    def wait_at_length(self, limits: Limits | None = None) -> Reply | Death:
        """Wait for the whole of a long answer, within the limits.

        All parts after the first may together take as long as the first.
        """
        answer = self.wait(limits)
        if isinstance(answer, Death) or answer.code is not Code.ok:
            return answer
        head, newline, text = answer.text.partition("\n")
        length = int(head, 16) if newline and _LENGTH.fullmatch(head) else -1
        parts, got = [text], len(text.encode())
        started = time.monotonic()
        while 0 <= got < length <= protocol.MAX_LONG_TEXT:
            if time.monotonic() - started > (limits or self.limits).wall_seconds:
                return self._bury(started, Cause.timed_out)
            part = self.ask(Operation.more, (), got, limits)
            if isinstance(part, Death):
                return part
            if part.code is not Code.ok or not part.text:
                break
            parts.append(part.text)
            got += len(part.text.encode())
        if got != length:
            return self._bury(time.monotonic(), Cause.misbehaved)
        return Reply(answer.sequence, Code.ok, "".join(parts))

    def post(
        self,
        operation: Operation,
        arguments: Sequence[protocol.Argument] = (),
        repeat: int = 0,
        document: bytes = b"",
    ) -> Death | None:
        """Send a request without waiting: `wait` returns the answer."""
        self._sequence += 1
        self._printed.clear()
        request = Request(operation, self._sequence, tuple(arguments), repeat)
        message = request.pack()
        started = time.monotonic()
        try:
            if document:
                with memfd.sealed(document) as descriptor:
                    socket.send_fds(self._requests, [message], [descriptor])
            else:
                self._requests.send(message)
        except BlockingIOError:  # it doesn't read its requests
            return self._bury(started, Cause.misbehaved)
        except OSError:
            return self._bury(started)
        return None

    def wait_until_ready(self) -> None:
        """Wait for a new worker's first message. Raises SandboxError when none arrives."""
        answer = self.wait(Limits(FORK_SECONDS))
        if isinstance(answer, Death):
            raise SandboxError(f"a new worker was not ready: {answer.description}\n{answer.log}")

    def begin_to_close(self) -> None:
        """Have the worker end, without waiting for it; `close` follows."""
        if self._pidfd is not None:  # unlike a number, it can't refer to another process
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End the worker and all its processes."""
        if not self.alive:
            return
        self._kill()
        self._server.exit_of(self._number, 1.0)
        self._forget()

    def wait(self, limits: Limits | None = None) -> Reply | Death:
        """Wait for the answer to a posted request, within the limits."""
        limits = limits or self.limits
        usage = processes.Usage(self.pid, lambda: self._server.processes_of(self))
        checked = measured = started = time.monotonic()
        while True:
            events = dict(self._poller.poll(WATCH_INTERVAL * 1000))
            if self._printed.pipe in events:
                self._printed.read()
                if events[self._printed.pipe] & select.POLLHUP:
                    self._poller.unregister(self._printed.pipe)
            # Its end is watched too: a descendant may keep the socket open.
            if self._requests.fileno() in events or self._pidfd in events:
                return self._read(started)
            now = time.monotonic()
            if now - started > limits.wall_seconds:
                return self._bury(started, Cause.timed_out)
            if now - checked >= WATCH_INTERVAL:
                checked = now
                cause = _passed(limits, *usage.now())
                if cause is None and now - measured >= MEASURE_INTERVAL:
                    measured = now
                    cause = Cause.disk_full if self._server.overflows() else None
                if cause is not None:
                    return self._bury(started, cause)

    def _read(self, started: float) -> Reply | Death:
        """The available answer, or the end; earlier output has been read already."""
        try:
            # No room for ancillary data: the kernel drops descriptors that a worker sends.
            data = self._requests.recv(protocol.MAX_REPLY_BYTES + 1)
        except OSError:
            data = b""
        if not data:
            return self._bury(started)
        try:
            reply = Reply.unpack(data)
        except ProtocolError:
            return self._bury(started, Cause.misbehaved)
        if reply.sequence != self._sequence:
            return self._bury(started, Cause.misbehaved)
        return reply

    def _bury(self, started: float, cause: Cause | None = None) -> Death:
        """Kill the rest of the worker and find out how it ended."""
        seconds = time.monotonic() - started
        if cause is Cause.timed_out and self.limits.cpu_seconds >= ASKED_SECONDS:
            _ask_where(self._pidfd, self._printed)
        status = None
        # A worker may close its socket just before it ends, or close it and go on.
        if cause is None and (self._pidfd is None or is_readable(self._pidfd, END_SECONDS)):
            status = self._server.exit_of(self._number, EXIT_SECONDS)
        self._kill()
        if cause is None and self._server.was_out_of_memory():
            cause = Cause.out_of_memory
        self._printed.read()
        log = self.log
        self._forget()
        return _death(cause, status, log, seconds)

    def _kill(self) -> None:
        self.begin_to_close()
        self.alive = False
        if self._pidfd is not None:
            is_readable(self._pidfd, END_SECONDS)
        processes.end(lambda: self._server.processes_of(self))

    @property
    def log(self) -> str:
        """The end of the worker's output during this request."""
        return str(self._printed)

    def _forget(self) -> None:
        with contextlib.suppress(ValueError):
            self._server.workers.remove(self)
            self._requests.close()
            os.close(self._printed.pipe)
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None


def answered(workers: Sequence[Worker], seconds: float) -> list[Worker]:
    """The workers for which `wait` returns at once: one at least, or none after `seconds`.

    No limits are watched meanwhile.
    """
    poller, of_source = select.poll(), {}
    for worker in workers:
        for source in worker.ends:
            poller.register(source, select.POLLIN)
            of_source[source] = worker
    ready = {of_source[source]: None for source, _ in poller.poll(seconds * 1000)}
    return list(ready)


def _ask_where(pidfd: int | None, printed: PrintedText) -> None:
    """Have a worker print where it is, if it can: see worker/ttir/whereabouts.py."""
    for _ in range(QUESTIONS):
        if pidfd is None or is_readable(pidfd, 0.0):
            return
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(pidfd, signal.SIGUSR1)
        is_readable(pidfd, QUESTION_SECONDS)
        printed.read()


def _death(cause: Cause | None, status: int | None, log: str, seconds: float) -> Death:
    if cause is not None:
        return Death(cause, cause.value.replace("_", " "), log=log, seconds=seconds)
    if status is None:
        return Death(Cause.exited, "ended without an answer", log=log, seconds=seconds)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return Death(Cause.signalled, f"killed by {name}", number, log, seconds)
    words = f"exit status {os.WEXITSTATUS(status)}"
    return Death(Cause.exited, words, log=log, seconds=seconds)


def _passed(limits: Limits, cpu_seconds: float, memory_bytes: int, count: int) -> Cause | None:
    if count > MOST_PROCESSES:
        return Cause.too_many_processes
    if cpu_seconds > limits.cpu_seconds:
        return Cause.timed_out
    if memory_bytes > limits.memory_bytes + INHERITED_BYTES:
        return Cause.out_of_memory
    return None


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The grader's end, which never blocks, and the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def is_readable(source: socket.socket | int, seconds: float) -> bool:
    poller = select.poll()  # select() has a limit of 1023
    poller.register(source, select.POLLIN)
    return bool(poller.poll(max(seconds, 0.0) * 1000))


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None  # it has ended already
