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

import array
import contextlib
import ctypes
import fcntl
import json
import os
import select
import shutil
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
from typing import Literal

import psutil

from grader.worker import protocol
from grader.worker.protocol import Code, Operation, ProtocolError, Reply, Request

WORKER_PROGRAM = Path(__file__).parent / "worker" / "start.py"
LOG_BYTES = 64 * 1024
WALL_PER_CPU = 3.0  # wall seconds allowed per second of the CPU limit
WATCH_INTERVAL = 0.1  # seconds between looks at the process tree
INHERITED_BYTES = 1 << 30  # resident, but the forking parent's: torch and triton
START_SECONDS = 120.0  # importing torch on a cold, slow disk

_PR_SET_CHILD_SUBREAPER = 36

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
        self._pids: set[int] = set()

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
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Orphans of a worker whose parent was killed come to us, so that they can be ended too.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with theirs, (Path(self.scratch) / "start.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", str(WORKER_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment(),
                cwd=self.scratch,
                start_new_session=True,
            )
        self._control = ours
        message = self._hear(START_SECONDS)
        if not message or message.get("ready") is not True:
            text = (Path(self.scratch) / "start.log").read_text(errors="replace")[-2000:]
            self.close()
            raise SandboxError(f"the worker's parent process did not start:\n{text}")

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
        for attempt in (1, 2):
            with contextlib.suppress(OSError, SandboxError):
                return self._fork(path, entry, buffers, limits)
            if attempt == 1:
                self._stop_parent()  # a submission may have killed it
                self.start()
        raise SandboxError("no worker could be started")

    def close(self) -> None:
        """End every process and remove the scratch folder."""
        for worker in list(self._workers):
            worker.close()
        self._stop_parent()
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)
            self.scratch = ""

    def processes(self) -> list[psutil.Process]:
        """Every process below the forking parent."""
        if self._process is None:
            return []
        with contextlib.suppress(psutil.Error):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def end_processes(self, keep: Sequence[int] = ()) -> None:
        """Kill what runs below the forking parent, until nothing new appears."""
        for _ in range(50):
            alive = [
                process
                for process in self.processes()
                if process.pid not in keep and _is_alive(process)
            ]
            if not alive:
                return
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(alive, timeout=0.2)

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

    def _fork(self, path, entry, buffers, limits) -> Worker:
        if self._control is None:
            raise SandboxError("not started")
        self._next_id += 1
        requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log_read, log_write = os.pipe()
        message = {
            "id": self._next_id,
            "path": str(path),
            "entry": entry,
            "device": self.device,
            "memory_bytes": limits.memory_bytes if self.device == "interpreter" else None,
            "buffers": [[length, writable] for _, length, writable in buffers],
        }
        descriptors = [theirs.fileno(), log_write, *(fd for fd, _, _ in buffers)]
        try:
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
            deadline = time.monotonic() + START_SECONDS
            while True:
                answer = self._hear(deadline - time.monotonic())
                if answer is None:
                    raise SandboxError("the worker's parent process is gone")
                if answer.get("id") == self._next_id and isinstance(answer.get("pid"), int):
                    break
        except BaseException:
            requests.close()
            os.close(log_read)
            raise
        finally:
            theirs.close()
            os.close(log_write)
        worker = Worker(self, self._next_id, answer["pid"], requests, log_read, limits)
        self._workers.append(worker)
        self._pids.add(worker.pid)
        return worker

    def _hear(self, seconds: float) -> dict | None:
        """The next control message; None when there is none in time, or nobody to send one."""
        if self._control is None:
            return None
        ready, _, _ = select.select([self._control], [], [], max(seconds, 0.0))
        if not ready:
            return None
        try:
            message = json.loads(self._control.recv(1 << 16))
        except (OSError, ValueError):
            return None
        if not isinstance(message, dict):
            return None
        if isinstance(message.get("exit"), int) and isinstance(message.get("id"), int):
            self._exits[message["id"]] = message["exit"]
        return message

    def _stop_parent(self) -> None:
        if self._process is None:
            return
        self.end_processes()
        # Children that lost their parent meanwhile are ours now (PR_SET_CHILD_SUBREAPER).
        self._process.kill()
        self._process.wait()
        _end_adopted(self.scratch, self._pids)
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
        fcntl.fcntl(log, fcntl.F_SETFL, os.O_NONBLOCK)

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
        started = time.monotonic()
        try:
            self._requests.send(request.pack())
        except OSError:
            return self._bury(started)
        return self._await(limits or self.limits, started)

    @property
    def sequence(self) -> int:
        """The number of the request last sent."""
        return self._sequence

    def compile_in_background(self) -> BackgroundCompile | Death:
        """Let the worker fork a twin that compiles what ran since the last time."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
        return BackgroundCompile(ours, self._sequence)

    def close(self) -> None:
        """End the worker and every process it left."""
        self.alive = False
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        self._sandbox.end_processes()
        self._sandbox.exit_of(self._number, 1.0)
        self._forget()

    def _await(self, limits: Limits, started: float) -> Reply | Death:
        poller = select.poll()
        poller.register(self._requests, select.POLLIN)
        poller.register(self._log, select.POLLIN)
        watch = _Watch(self.pid, limits, started)
        while True:
            log_closed = False
            for fd, events in poller.poll(WATCH_INTERVAL * 1000):
                if fd == self._log:
                    self._drain()
                    log_closed = bool(events & select.POLLHUP)
                elif fd == self._requests.fileno():
                    return self._read(started)
            if log_closed:
                poller.unregister(self._log)
            cause = watch.look()
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
        status = self._sandbox.exit_of(self._number, 0.5) if cause is None else None
        if status is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        self._sandbox.end_processes()
        self._drain()
        log = self.log
        self.alive = False
        self._forget()
        return _death(cause, status, log, seconds)

    @property
    def log(self) -> str:
        """The last of what the worker printed during this request."""
        return self._tail.decode("utf-8", "replace")

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._log, LOG_BYTES):
                self._tail += data
                del self._tail[:-LOG_BYTES]
                if len(data) < LOG_BYTES:
                    break

    def _forget(self) -> None:
        with contextlib.suppress(ValueError):
            self._sandbox._workers.remove(self)
            self._requests.close()
            os.close(self._log)


@dataclass
class BackgroundCompile:
    """A twin of a worker, compiling on another core."""

    side: socket.socket
    sequence: int

    def wait(self, seconds: float) -> Reply | None:
        """Its answer; None when it died, answered nonsense or took too long."""
        ready, _, _ = select.select([self.side], [], [], seconds)
        try:
            data = self.side.recv(protocol.MAX_REPLY_BYTES + 1) if ready else b""
            reply = Reply.unpack(data)
        except (OSError, ProtocolError):
            return None
        finally:
            self.side.close()
        return reply if reply.sequence == self.sequence and reply.code is Code.ok else None


class _Watch:
    """Looks at a worker's process tree now and then, and says which limit it has passed."""

    def __init__(self, pid: int, limits: Limits, started: float) -> None:
        self.pid = pid
        self.limits = limits
        self.started = started
        self.started_at = time.time()
        self.looked = started
        self.cpu_before = _cpu_seconds(pid)

    def look(self) -> Cause | None:
        """The limit that is passed, or None. Cheap when called often."""
        now = time.monotonic()
        if now - self.started > self.limits.wall_seconds:
            return Cause.timed_out
        if now - self.looked < WATCH_INTERVAL:
            return None
        self.looked = now
        cpu, memory = self._tree()
        if cpu > self.limits.cpu_seconds:
            return Cause.timed_out
        if memory > self.limits.memory_bytes + INHERITED_BYTES:
            return Cause.out_of_memory
        return None

    def _tree(self) -> tuple[float, int]:
        """CPU seconds since the request and resident bytes now, of the worker and what it started.

        A descendant older than the request is the twin that compiles an earlier one: not counted.
        """
        cpu, memory = _cpu_seconds(self.pid) - self.cpu_before, 0
        with contextlib.suppress(psutil.Error):
            root = psutil.Process(self.pid)
            memory = root.memory_info().rss
            for process in root.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if process.create_time() >= self.started_at - 0.02:  # it counts in ticks
                        cpu += _cpu_seconds(process.pid)
                        memory += process.memory_info().rss
        return cpu, memory


_TICKS = os.sysconf("SC_CLK_TCK")


def _cpu_seconds(pid: int) -> float:
    """User and system time of one process (proc(5)); 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


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


def _is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _end_adopted(scratch: str, known: set[int]) -> None:
    """Kill and reap what came to us when its parent died: known workers, or told by their HOME."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid in known or process.environ().get("HOME") == scratch:
                process.kill()
                process.wait(1.0)
