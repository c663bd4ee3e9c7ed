"""A fork server as the grader sees it: launched, asked for workers, ended with its descendants.

It runs worker/fork_server.py. A submission can reach that process and may stop or end it. So the
grader believes only how a worker ended, and which child a worker is once that is checked.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from grader.sandbox import bytecode, confinement, preloader, processes
from grader.sandbox.cgroup import ProcessGroup
from grader.sandbox.confinement import Confinement, Level
from grader.sandbox.scratch import is_larger_than
from grader.sandbox.worker_process import (
    FORK_SECONDS,
    START_SECONDS,
    Limits,
    SandboxError,
    Worker,
    is_readable,
    socket_pair,
)

# For all of a submission's processes together, behind the limits of each request.
GROUP_BYTES = 16 << 30
GROUP_PROCESSES = 512  # including threads, of which CUDA and the compilers have many
LISTEN_SECONDS = 0.05  # for which one thread keeps the socket from the others

_in_use: set[int] = set()  # fork servers of this process


class ForkServer:
    def __init__(
        self,
        confined: Confinement,
        kind: str,
        scratch: Path,
        submission: Path,
        environment: Mapping[str, str],
    ) -> None:
        """Launch it without waiting. It ends with the calling thread, or with this process.

        The second holds where the preloader forks it, which may be importing still: then many at a
        time wait until it takes their requests.

        For `kind` see worker/fork_server.py. Raises SandboxError where it can't be started.
        """
        self.pid = 0  # of the fork server itself, which another process may have started
        self.is_ready = False
        self._confinement, self._scratch = confined, scratch
        self._kills_known = 0
        self._exits: dict[int, int] = {}
        self._last_number = 0
        self.workers: list[Worker] = []  # without those that ended
        # Held from a fork until its worker is listed: until then another thread that ends a worker
        # would take the new process for an orphan.
        self._lock = threading.RLock()
        processes.adopt_orphans()  # of workers whose fork server was killed
        self._control, theirs = socket_pair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the rest)
        self._group = ProcessGroup.create(GROUP_BYTES, GROUP_PROCESSES)
        try:
            with theirs:  # closed here, so that the socket ends with the fork server
                self._process = self._started(kind, submission, environment, theirs)
        except OSError as error:
            self._close_files()
            raise SandboxError(f"the fork server can't be started: {error}") from None

    def _started(
        self,
        kind: str,
        submission: Path,
        environment: Mapping[str, str],
        control: socket.socket,
    ) -> subprocess.Popen[bytes] | preloader.Forked:
        """A fork server from the preloader, or else a program of its own. Raises OSError."""
        confined, scratch, group = self._confinement, self._scratch, self._group
        if kind == "plans" and confined.level is Level.landlock:
            forked = preloader.forked(
                confinement.lockdown_plan(confined, scratch, submission),
                environment,
                scratch,
                group.entrance if group else None,
                (control.fileno(), self._log.fileno()),
            )
            if forked is not None:
                return forked
        line = confinement.command(
            confined,
            bytecode.worker_command(str(control.fileno()), kind),
            scratch=scratch,
            submission=submission,
            environment=environment,
        )
        process = subprocess.Popen(
            group.command(line) if group else line,
            pass_fds=[control.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env=environment,
            cwd=scratch,
            start_new_session=True,
        )
        _in_use.add(process.pid)
        return process

    def wait_until_ready(self) -> None:
        """Wait until it has imported torch and triton. Raises SandboxError; stop it then."""
        if self.is_ready:
            return
        message = self._received(START_SECONDS)
        if not message or message.get("ready") is not True:
            self._end_processes()
            self._log.seek(0)
            text = self._log.read()[-2000:].decode("utf-8", "replace")
            raise SandboxError(f"the fork server did not start:\n{text}")
        if isinstance(self._process, preloader.Forked):
            self._process.identify(FORK_SECONDS)
        launched = self._process.pid
        own_pids = self._confinement.has_own_pids
        pid = confinement.outer_pid(1, launched) if own_pids else launched
        if pid is None:
            raise SandboxError("the fork server is gone as soon as it was ready")
        self.pid, self.is_ready = pid, True

    def fork(
        self,
        request: Mapping[str, Any],
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
    ) -> Worker:
        """A worker for a request, with buffers of (descriptor, length, whether it may write).

        Raises SandboxError and OSError where none starts.
        """
        requests, theirs = socket_pair()
        log, log_write = os.pipe()
        os.set_blocking(log, False)
        descriptors = [theirs.fileno(), log_write, *(fd for fd, _, _ in buffers)]
        try:
            with self._lock:
                self._last_number += 1
                message = {
                    "id": self._last_number,
                    **request,
                    "buffers": [[length, writable] for _, length, writable in buffers],
                }
                socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
                pid = self._pid_of_last()
                worker = Worker(self, self._last_number, pid, requests, log, limits)
                self.workers.append(worker)
        except BaseException:
            requests.close()
            os.close(log)
            raise
        finally:
            theirs.close()
            os.close(log_write)
        worker.wait_until_ready()
        return worker

    def processes_of(self, worker: Worker) -> list[psutil.Process]:
        """Processes that a worker started, and orphans, which may be its; without the worker."""
        with self._lock:
            others = [other.pid for other in self.workers if other is not worker]
            started = processes.without(processes.below(self.pid), others)
        return [each for each in started if each.pid != worker.pid]

    def exit_of(self, number: int, wait: float) -> int | None:
        """The wait status of worker `number`, once the fork server has sent it."""
        deadline = time.monotonic() + wait
        while True:
            with self._lock:  # a thread that waits for another worker may read this one's message
                remaining = deadline - time.monotonic()
                heard = None
                if number not in self._exits and remaining > 0:
                    heard = self._received(min(remaining, LISTEN_SECONDS))
                if number in self._exits:
                    return self._exits.pop(number)
            if remaining <= 0 or (heard is None and self._process.poll() is not None):
                return None

    def was_out_of_memory(self) -> bool:
        """Whether the kernel killed a process here for lack of memory since the last call."""
        before = self._kills_known
        self._kills_known = self._group.times_out_of_memory() if self._group else 0
        return self._kills_known > before

    def overflows(self) -> bool:
        """Whether the scratch folder is too full, where nothing else limits it."""
        if self._confinement.level is Level.bubblewrap:
            return False  # a file system in memory, of a fixed size
        return is_larger_than(self._scratch, confinement.SCRATCH_BYTES)

    def empty(self) -> bool:
        """End all that it started and empty the scratch folder; whether both are done.

        Only where workers are confined: they can write nowhere else, and orphans become the fork
        server's children.
        """
        if not self.is_ready:  # still importing, since nobody has waited for a worker
            return self._last_number == 0 and self._process.poll() is None
        if self._confinement.level is Level.limits:
            return False
        for worker in list(self.workers):
            worker.close()
        processes.end(lambda: processes.below(self.pid))
        if any(map(processes.is_alive, processes.below(self.pid))):
            return False
        self._exits.clear()
        self._last_number += 1
        request = {"id": self._last_number, "empty": True}
        deadline = time.monotonic() + FORK_SECONDS
        try:
            self._control.send(json.dumps(request).encode())
        except OSError:
            return False
        while answer := self._received(deadline - time.monotonic()):
            if answer.get("id") == self._last_number:
                return answer.get("emptied") is True
        return False

    def stop(self) -> None:
        """End it and its descendants, including adopted orphans; `close` ends workers first."""
        self._end_processes()
        self._close_files()

    def close(self) -> None:
        """End its workers, then `stop`."""
        for worker in list(self.workers):
            worker.close()
        self.stop()

    def _end_processes(self) -> None:
        launched = self._process.pid
        processes.end(lambda: processes.below(launched))
        self._process.kill()
        self._process.wait()
        _in_use.discard(launched)
        processes.end_adopted(str(self._scratch), _in_use)

    def _close_files(self) -> None:
        if self._group is not None:
            self._group.close()
        self._control.close()
        self._log.close()

    def _pid_of_last(self) -> int:
        """The process of the last fork. Raises SandboxError without an answer."""
        deadline = time.monotonic() + FORK_SECONDS
        while True:
            answer = self._received(deadline - time.monotonic())
            if answer is None:
                raise SandboxError("the fork server is gone")
            if answer.get("id") != self._last_number or "pid" not in answer:
                continue
            pid = answer["pid"]
            if isinstance(pid, int) and self._confinement.has_own_pids:
                pid = confinement.outer_pid(pid, self.pid)
            # A worker may have tampered with its fork server, so the number is checked.
            if not isinstance(pid, int) or not processes.is_child(pid, self.pid):
                raise SandboxError("the fork server names a process that isn't its child")
            return pid

    def _received(self, seconds: float) -> dict[str, Any] | None:
        """The next control message; None where none arrives in time."""
        try:
            if not is_readable(self._control, seconds):
                return None
            message = json.loads(self._control.recv(1 << 16))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(message, dict):
            return None
        number, status = message.get("id"), message.get("exit")
        if isinstance(number, int) and isinstance(status, int) and 0 <= status <= 0xFFFF:
            self._exits[number] = status
        return message
