"""Starts the confined workers of one submission and removes all their traces.

A sandbox has a fork server (fork_server_process.py), and each worker is a fork of it.

    Sandbox.begin()        launches the fork server
    Sandbox.start()        waits until it is ready, about a second
    Sandbox.worker(...)    forks a worker, in milliseconds
"""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from multiprocessing import util
from pathlib import Path
from typing import Any, Literal

from grader.gpu.devices import DeviceName
from grader.sandbox import confinement, processes
from grader.sandbox.confinement import Confinement, Level
from grader.sandbox.environment import environment_of
from grader.sandbox.fork_server_process import ForkServer
from grader.sandbox.scratch import remove_tree
from grader.sandbox.worker_process import Limits, SandboxError, Worker

Kind = Literal["plans", "python", "inductor", "native"]  # of fork server

_open: dict[Sandbox, util.Finalize] = {}  # those that have a folder


class Sandbox:
    """The confinement of one submission's workers. A context manager.

    It is closed when this process ends, also where Ctrl-C or the pool's end kept its user from it.
    """

    def __init__(
        self,
        device: DeviceName = "cpu",
        level: Level | None = None,
        required: bool = False,
        kind: Kind = "python",
        kernels: Path | None = None,
    ) -> None:
        """`kind` says what its workers do: see worker/fork_server.py.

        `kernels` is a folder where torch.compile keeps what it makes; the scratch folder if None.

        `level` asks for one level of confinement; None for the strongest that works here.

        Raises ConfinementError when that level doesn't work, and where one is `required` but none
        holds untrusted code.
        """
        self.device = device
        self.kind = kind
        self._kernels = kernels
        if level or required:
            self.confinement = confinement.choose(level, device, required)
        self._home = ""
        self._server: ForkServer | None = None
        self._replacing = threading.Lock()  # held while a dead fork server is replaced
        self._stopped: list[ForkServer] = []  # whose workers may still be open
        self.most_seconds = math.inf  # for a request

    def __enter__(self) -> Sandbox:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def confinement(self) -> Confinement:
        """The strongest confinement that works here, which is tried when it is first needed."""
        return confinement.choose(None, self.device)

    @property
    def is_started(self) -> bool:
        """Whether there is, or was, a fork server: a submission may have ended it."""
        return self._server is not None and self._server.is_ready

    @property
    def scratch(self) -> Path:
        """The only folder that a worker can write to; some levels cover it with an empty one."""
        return Path(self._home) / "scratch"

    def hold(self, name: str, data: bytes, program: bool = False) -> Path:
        """Put a file of the submission where its workers can read it; returns the path.

        Workers can start it as a `program`, too.
        """
        self._home = self._home or _new_home(self)
        path = Path(self._home) / "submission" / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
        if program:
            path.chmod(0o500)
        return path

    def begin(self) -> ForkServer:
        """The fork server, which is launched without waiting unless there is one.

        It ends with the calling thread or process. Raises SandboxError when it can't be started.
        """
        if self._server is None:
            self._home = self._home or _new_home(self)
            submission = Path(self._home) / "submission"
            environment = environment_of(self.device, self.scratch, self._kernels)
            try:
                self._server = ForkServer(
                    self.confinement, self.kind, self.scratch, submission, environment
                )
            except SandboxError:
                self.close()
                raise
        return self._server

    def start(self) -> ForkServer:
        """The fork server, once it has imported torch and triton.

        Raises SandboxError when that fails.
        """
        server = self.begin()
        try:
            server.wait_until_ready()
        except (SandboxError, KeyboardInterrupt):
            self.close()
            raise
        return server

    def worker(
        self,
        path: Path,
        entry: str,
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
        options: Sequence[str] = (),
        on_gpu: bool = False,
        role: str = "",
    ) -> Worker:
        """Fork a worker for the entry of a submission file, over the arena's buffers.

        `role` is the kind of worker in a sandbox for plans: see worker/plan_processes.py. With
        `on_gpu` the buffers are gpu_memory.py's. In a native sandbox, `path` is the compiled
        program, which is started with `options` (worker/native/host.cpp). Raises SandboxError when
        no worker starts, even from a fresh fork server.
        """
        request = {"path": str(path), "entry": entry, "options": list(options), "role": role}
        limits = replace(limits, cpu_seconds=min(limits.cpu_seconds, self.most_seconds))
        return self._forked({**request, "on_gpu": on_gpu}, buffers, limits)

    def builder(
        self, source: Path, build: dict[str, Any], output: int, output_bytes: int, limits: Limits
    ) -> Worker:
        """Fork a worker that compiles `source` when asked to (`Operation.build`), as `build` says.

        It writes the result to the descriptor `output`; see worker/builder.py. Raises SandboxError
        as `worker` does.
        """
        request = {"path": str(source), "build": build}
        return self._forked(request, [(output, output_bytes, True)], limits)

    def empty(self) -> bool:
        """Make it as new for another submission, where that is certain; else False: close it.

        Its fork server stays, which has run nothing of the submission. It can't have been replaced
        or read: see worker/lockdown.py.
        """
        if self._stopped or (self._server is not None and not self._server.empty()):
            return False
        try:
            for held in (Path(self._home) / "submission").iterdir() if self._home else ():
                held.unlink()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """End every process and remove the scratch folder."""
        for server in (*self._stopped, self._server):
            if server is not None:
                server.close()
        self._server, self._stopped = None, []
        if self._home:
            remove_tree(self._home)
            self._home = ""
        if closing := _open.pop(self, None):
            closing.cancel()

    def abandon(self) -> None:
        """Do what `close` does, but wait for no lock: another thread may hold it for long."""
        for server in (*self._stopped, self._server):
            if server is not None:
                server.stop()
        if self._home:
            remove_tree(self._home)

    def _forked(
        self,
        request: Mapping[str, Any],
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
    ) -> Worker:
        memory_bytes = limits.memory_bytes if self.device == "cpu" else None
        request = {**request, "device": self.device, "memory_bytes": memory_bytes}
        if (server := self._server) is not None:
            self.start()
            with contextlib.suppress(OSError, SandboxError):
                return server.fork(request, buffers, limits)
        with self._replacing:
            if server is not None and self._server is server:
                server.stop()  # a submission may have killed or stopped it
                self._stopped.append(server)
                self._server = None
            ready = self.start()
        try:
            return ready.fork(request, buffers, limits)
        except OSError as error:
            raise SandboxError(f"the fork server can't be asked: {error}") from None


def _new_home(sandbox: Sandbox) -> str:
    home = Path(tempfile.mkdtemp(prefix="warpgrade-"))
    _open[sandbox] = util.Finalize(None, sandbox.close, exitpriority=0)
    for name in ("scratch", "submission"):
        (home / name).mkdir(mode=0o700)
    return str(home)


def end_this_process(status: int) -> None:
    """Kill every descendant of this process, remove its sandboxes' folders, and end it at once."""
    try:
        processes.end(lambda: processes.below(os.getpid()))
        for sandbox in tuple(_open):
            sandbox.abandon()
    finally:
        os._exit(status)


@contextlib.contextmanager
def hurried(sandbox: Sandbox | None, seconds: float) -> Iterator[None]:
    """Give workers that a sandbox starts meanwhile at most so many seconds for a request."""
    if sandbox is None:
        yield
        return
    before, sandbox.most_seconds = sandbox.most_seconds, seconds
    try:
        yield
    finally:
        sandbox.most_seconds = before
