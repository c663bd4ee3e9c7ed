"""Starts workers, bounds what they use, and says how they died.

One forking parent per submission (worker/zygote.py), never shared; each worker is a fork of it.
In force here: a process of its own, a cleared environment, limits on memory, CPU time, wall time,
file size and descriptors, output read and dropped, and no process left afterwards. The time limit
counts the CPU time of the worker's process tree, so that a busy machine doesn't fail a kernel;
wall time, which has to bound what only sleeps, is several times that.

    Sandbox.start()        the forking parent, about a second
    Sandbox.worker(...)    a worker, milliseconds
    Worker.ask(request)    a Reply, or a Death
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Literal

import psutil

from grader import processes
from grader.worker import protocol
from grader.worker.protocol import Code, Operation, ProtocolError, Reply, Request

WORKER_PROGRAM = Path(__file__).parent / "worker" / "start.py"
LOG_BYTES = 64 * 1024
WALL_PER_CPU = 3.0  # wall seconds allowed per second of the CPU limit
WATCH_INTERVAL = 0.1  # seconds between looks at what a worker uses
INHERITED_BYTES = 1 << 30  # resident, but the forking parent's: torch and triton
START_SECONDS = 120.0  # importing torch on a cold, slow disk
FORK_SECONDS = 20.0  # milliseconds, unless a submission has stopped the forking parent
END_SECONDS = 1.0  # for a worker that has closed its socket to be gone
TELL_SECONDS = 5.0  # for the forking parent to tell how a worker that is gone ended

_parents: set[int] = set()  # the forking parents in use by this process

DeviceName = Literal["interpreter", "cuda"]


class SandboxError(RuntimeError):
    """A worker can't be started: the machine's fault or ours, not the submission's."""


class Cause(str, Enum):
    """How a worker ended."""

    exited = "exited"  # by itself, between a request and its answer
    signalled = "signalled"  # a fault, or it killed itself
    timed_out = "timed_out"
    out_of_memory = "out_of_memory"
    misbehaved = "misbehaved"  # answered what isn't an answer


@dataclass(frozen=True)
class Death:
    """The end of a worker in the middle of a request."""

    cause: Cause
    description: str  # "killed by SIGSEGV", "exit status 3"
    signal: int | None = None
    exit_status: int | None = None
    log: str = ""  # the last of what it printed, faulthandler's report included
    seconds: float = 0.0


@dataclass(frozen=True)
class Limits:
    """What one request may use."""

    cpu_seconds: float = 10.0
    memory_bytes: int = 2 << 30

    @property
    def wall_seconds(self) -> float:
        """The bound for a worker that uses no CPU."""
        return self.cpu_seconds * WALL_PER_CPU


class Sandbox:
    """The confinement of one submission's workers. A context manager."""

    def __init__(self, device: DeviceName = "interpreter") -> None:
        self.device = device
        self.scratch = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._exits: dict[int, int] = {}
        self._next_id = 0
        self._workers: list[Worker] = []

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def description(self) -> str:
        """What confines a worker, for the report."""
        return "process with limits"

    def start(self) -> None:
        """Start the forking parent and wait until it has imported torch and triton.

        Raises SandboxError when it doesn't get there.
        """
        if not self.scratch:
            self.scratch = tempfile.mkdtemp(prefix="warpgrade-")
        processes.adopt_orphans()  # of a worker whose parent was killed
        self._control, theirs = _socketpair()
        with tempfile.TemporaryFile() as log:
            with theirs:  # closed here, so that its end is the parent's end
                self._process = self._launch(theirs, log)
            _parents.add(self._process.pid)
            message = self._hear(START_SECONDS)
            if not message or message.get("ready") is not True:
                self.close()
                log.seek(0)
                text = log.read()[-2000:].decode("utf-8", "replace")
                raise SandboxError(f"the workers' parent did not start:\n{text}")

    def worker(
        self,
        path: Path,
        entry: str,
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
    ) -> Worker:
        """Fork a worker for the entry of a submission file, over the arena's buffers.

        Raises SandboxError when none can be had, even from a fresh parent.
        """
        with contextlib.suppress(OSError, SandboxError):
            return self._fork(path, entry, buffers, limits)
        self._stop_parent()  # a submission may have killed or stopped it
        self.start()
        try:
            return self._fork(path, entry, buffers, limits)
        except OSError as error:
            raise SandboxError(f"no worker could be started: {error}") from None

    def close(self) -> None:
        """End every process and remove the scratch folder."""
        for worker in list(self._workers):
            worker.close()
        self._stop_parent()
        if self.scratch:
            _remove_tree(self.scratch)
            self.scratch = ""

    def processes_of(self, worker: Worker) -> list[psutil.Process]:
        """What a worker started, and orphans, which can't be told apart; without the worker."""
        if self._process is None:
            return []
        others = [other.pid for other in self._workers if other is not worker]
        found = processes.without(processes.below(self._process.pid), others)
        return [each for each in found if each.pid != worker.pid]

    def exit_of(self, number: int, wait: float) -> int | None:
        """The wait status of worker `number`, once its parent has told it."""
        deadline = time.monotonic() + wait
        while number not in self._exits:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return None
            message = self._hear(remaining)
            if message is None:
                return None
        return self._exits.pop(number)

    def _launch(self, control: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-B", str(WORKER_PROGRAM), str(control.fileno())],
                pass_fds=[control.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd=self.scratch,
                start_new_session=True,
            )
        except OSError as error:
            self.close()
            raise SandboxError(f"the workers' parent can't be started: {error}") from None

    def _environment(self) -> dict[str, str]:
        environment = {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "HOME": self.scratch,
            "TMPDIR": self.scratch,
            "TRITON_CACHE_DIR": str(Path(self.scratch) / "triton"),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            # Triton 3.9 asks for a choice; fused multiply-add is what every release so far does.
            "TRITON_DEFAULT_FP_FUSION": "1",
        }
        if self.device == "interpreter":
            environment["TRITON_INTERPRET"] = "1"
            environment["CUDA_VISIBLE_DEVICES"] = ""
        else:
            keep = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "TRITON_LIBCUDA_PATH")
            environment |= {name: os.environ[name] for name in keep if name in os.environ}
        return environment

    def _fork(
        self,
        path: Path,
        entry: str,
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
    ) -> Worker:
        if self._control is None or self._process is None:
            raise SandboxError("not started")
        self._next_id += 1
        message = {
            "id": self._next_id,
            "path": str(path),
            "entry": entry,
            "device": self.device,
            "memory_bytes": limits.memory_bytes if self.device == "interpreter" else None,
            "buffers": [[length, writable] for _, length, writable in buffers],
        }
        requests, theirs = _socketpair()
        log, log_write = os.pipe()
        os.set_blocking(log, False)
        descriptors = [theirs.fileno(), log_write, *(fd for fd, _, _ in buffers)]
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
            pid = self._pid_of_fork()
        except BaseException:
            requests.close()
            os.close(log)
            raise
        finally:
            theirs.close()
            os.close(log_write)
        worker = Worker(self, self._next_id, pid, requests, log, limits)
        self._workers.append(worker)
        worker.wait_until_ready()
        return worker

    def _pid_of_fork(self) -> int:
        """Which process the fork just asked for is. Raises SandboxError when nobody says."""
        deadline = time.monotonic() + FORK_SECONDS
        while True:
            answer = self._hear(deadline - time.monotonic())
            if answer is None:
                raise SandboxError("the workers' parent is gone")
            if answer.get("id") != self._next_id or "pid" not in answer:
                continue
            pid = answer["pid"]
            # A worker could have tampered with its parent: believe no number without a look.
            if not isinstance(pid, int) or not processes.is_child(pid, self._process.pid):
                raise SandboxError("the workers' parent names a process that isn't its child")
            return pid

    def _hear(self, seconds: float) -> dict | None:
        """The next control message; None when there is none in time, or nobody to send one."""
        if self._control is None or not _is_readable(self._control, seconds):
            return None
        try:
            message = json.loads(self._control.recv(1 << 16))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(message, dict):
            return None
        number, status = message.get("id"), message.get("exit")
        if isinstance(number, int) and isinstance(status, int) and 0 <= status <= 0xFFFF:
            self._exits[number] = status
        return message

    def _stop_parent(self) -> None:
        """End the forking parent and all that comes from it, adopted orphans too."""
        if self._process is not None:
            pid = self._process.pid
            processes.end(lambda: processes.below(pid))
            self._process.kill()
            self._process.wait()
            _parents.discard(pid)
            processes.end_adopted(self.scratch, _parents)
        if self._control is not None:
            self._control.close()
        self._process = self._control = None


class Worker:
    """One untrusted process and its socket."""

    def __init__(
        self,
        sandbox: Sandbox,
        number: int,
        pid: int,
        requests: socket.socket,
        log: int,
        limits: Limits,
    ) -> None:
        self.pid = pid
        self.limits = limits
        self.alive = True
        self._sandbox = sandbox
        self._number = number
        self._requests = requests
        self._log = log
        self._tail = bytearray()
        self._sequence = 0
        self._twins: list[psutil.Process] = []  # they compile; what they use is no case's
        self._pidfd = _open_pidfd(pid)

    def ask(
        self,
        operation: Operation,
        arguments: Sequence[protocol.Argument] = (),
        repeat: int = 0,
        limits: Limits | None = None,
    ) -> Reply | Death:
        """Send a request and wait for its answer, within the limits.

        After a Death the worker is gone, and so is every process it left.
        """
        self._sequence += 1
        self._tail.clear()
        request = Request(operation, self._sequence, tuple(arguments), repeat)
        message = request.pack()
        started = time.monotonic()
        try:
            self._requests.send(message)
        except BlockingIOError:  # it answers without reading what it is asked
            return self._bury(started, Cause.misbehaved)
        except OSError:
            return self._bury(started)
        return self._await(limits or self.limits, started)

    def wait_until_ready(self) -> None:
        """Wait for a new worker's first message. Raises SandboxError when there is none."""
        answer = self._await(Limits(FORK_SECONDS), time.monotonic())
        if isinstance(answer, Death):
            raise SandboxError(f"a new worker was not ready: {answer.description}\n{answer.log}")

    @property
    def sequence(self) -> int:
        """The number of the request last sent."""
        return self._sequence

    def compile_in_background(self) -> BackgroundCompile | Death:
        """Let the worker fork a twin that compiles what ran since the last time."""
        ours, theirs = _socketpair()
        self._sequence += 1
        request = Request(Operation.compile, self._sequence).pack()
        started = time.monotonic()
        with theirs:
            try:
                socket.send_fds(self._requests, [request], [theirs.fileno()])
            except OSError:
                ours.close()
                return self._bury(started)
        answer = self._await(self.limits, started)
        if isinstance(answer, Death):
            ours.close()
            return answer
        self._twins = processes.below(self.pid, children_only=True)
        return BackgroundCompile(ours, self._sequence)

    def close(self) -> None:
        """End the worker and every process it left."""
        if not self.alive:
            return
        self._kill()
        self._sandbox.exit_of(self._number, 1.0)
        self._forget()

    def _await(self, limits: Limits, started: float) -> Reply | Death:
        poller = select.poll()
        for source in (self._requests.fileno(), self._log, self._pidfd):
            if source is not None:
                poller.register(source, select.POLLIN)
        usage = processes.Usage(
            self.pid, lambda: processes.without(self._sandbox.processes_of(self), self._twins)
        )
        looked = started
        while True:
            events = dict(poller.poll(WATCH_INTERVAL * 1000))
            if self._log in events:
                self._drain()
                if events[self._log] & select.POLLHUP:
                    poller.unregister(self._log)
            # Its end is watched too: a process it left may keep the socket open.
            if self._requests.fileno() in events or self._pidfd in events:
                return self._read(started)
            now = time.monotonic()
            if now - started > limits.wall_seconds:
                return self._bury(started, Cause.timed_out)
            if now - looked >= WATCH_INTERVAL:
                looked = now
                cause = _passed(limits, *usage.now())
                if cause is not None:
                    return self._bury(started, cause)

    def _read(self, started: float) -> Reply | Death:
        try:
            # No room for ancillary data: descriptors a worker sends are dropped by the kernel.
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
        self._drain()
        return reply

    def _bury(self, started: float, cause: Cause | None = None) -> Death:
        """Kill what is left of the worker and find out how it ended."""
        seconds = time.monotonic() - started
        status = None
        # Its socket closes a moment before it has ended; or without that it ends at all.
        if cause is None and (self._pidfd is None or _is_readable(self._pidfd, END_SECONDS)):
            status = self._sandbox.exit_of(self._number, TELL_SECONDS)
        self._kill()
        self._drain()
        log = self.log
        self._forget()
        return _death(cause, status, log, seconds)

    def _kill(self) -> None:
        """End the worker and every process it left."""
        self.alive = False
        if self._pidfd is not None:  # it can't name another process, as a number can
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            _is_readable(self._pidfd, END_SECONDS)
        processes.end(lambda: self._sandbox.processes_of(self))

    @property
    def log(self) -> str:
        """The last of what the worker printed during this request."""
        return self._tail.decode("utf-8", "replace")

    def _drain(self) -> None:
        """Read what it has printed; but not for ever, however fast it prints."""
        with contextlib.suppress(OSError):
            for _ in range(16):
                data = os.read(self._log, LOG_BYTES)
                self._tail += data
                del self._tail[:-LOG_BYTES]
                if len(data) < LOG_BYTES:
                    break

    def _forget(self) -> None:
        with contextlib.suppress(ValueError):
            self._sandbox._workers.remove(self)
            self._requests.close()
            os.close(self._log)
            if self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None


@dataclass
class BackgroundCompile:
    """A twin of a worker, compiling on another core."""

    side: socket.socket
    sequence: int

    def wait(self, seconds: float) -> Reply | None:
        """Its answer; None when it died, answered nonsense or took too long."""
        try:
            ready = _is_readable(self.side, seconds)
            data = self.side.recv(protocol.MAX_REPLY_BYTES + 1) if ready else b""
            reply = Reply.unpack(data)
        except (OSError, ProtocolError):
            return None
        finally:
            self.side.close()
        return reply if reply.sequence == self.sequence and reply.code is Code.ok else None


def _death(cause: Cause | None, status: int | None, log: str, seconds: float) -> Death:
    if cause is not None:
        return Death(cause, cause.value.replace("_", " "), log=log, seconds=seconds)
    if status is None:
        return Death(Cause.exited, "ended without an answer", log=log, seconds=seconds)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return Death(Cause.signalled, f"killed by {name}", number, None, log, seconds)
    code = os.WEXITSTATUS(status)
    return Death(Cause.exited, f"exit status {code}", None, code, log, seconds)


def _passed(limits: Limits, cpu_seconds: float, memory_bytes: int) -> Cause | None:
    if cpu_seconds > limits.cpu_seconds:
        return Cause.timed_out
    if memory_bytes > limits.memory_bytes + INHERITED_BYTES:
        return Cause.out_of_memory
    return None


def _socketpair() -> tuple[socket.socket, socket.socket]:
    """The grader's side, which never blocks, and the other."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def _is_readable(source: socket.socket | int, seconds: float) -> bool:
    poller = select.poll()  # select() takes no descriptor beyond 1023
    poller.register(source, select.POLLIN)
    return bool(poller.poll(max(seconds, 0.0) * 1000))


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None  # it has ended already


def _remove_tree(path: str) -> None:
    """Remove a folder, whatever a submission made of it: no permissions, any depth, a link.

    Folders are moved to the top before they are emptied, so that no path grows long.
    """
    root = Path(path)
    with contextlib.suppress(OSError):
        if root.is_symlink() or not root.is_dir():
            root.unlink()
    pending = [root] if root.is_dir() else []
    while pending:
        folder = pending.pop()
        for entry in _entries(folder):
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    Path(entry.path).chmod(0o700)
                    pending.append(Path(entry.path).rename(root / secrets.token_hex(16)))
                else:
                    Path(entry.path).unlink()
        if folder != root:
            with contextlib.suppress(OSError):
                folder.rmdir()
    with contextlib.suppress(OSError):
        root.rmdir()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
        with os.scandir(folder) as entries:
            return list(entries)
    return []
