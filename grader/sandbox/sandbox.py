"""Starts the workers of one submission, confined, and leaves nothing of them behind.

One fork server per submission (worker/fork_server.py), never shared; each worker is a fork of it.

    Sandbox.begin()        the forking parent is on its way
    Sandbox.start()        it is there, about a second later
    Sandbox.worker(...)    a worker, milliseconds
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from grader.gpu.devices import DeviceName
from grader.sandbox import bytecode, confinement, processes
from grader.sandbox.cgroup import ProcessGroup
from grader.sandbox.confinement import Level
from grader.sandbox.scratch import is_larger_than, remove_tree
from grader.sandbox.worker_process import (
    FORK_SECONDS,
    Limits,
    SandboxError,
    Worker,
    is_readable,
    socket_pair,
)

WORKER_PROGRAM = Path(__file__).parents[1] / "worker" / "start.py"
# Of all of a submission's processes together: a backstop behind the limits of each request.
GROUP_BYTES = 16 << 30
GROUP_PROCESSES = 512  # threads too, of which CUDA and the compilers have many
START_SECONDS = 120.0  # importing torch on a cold, slow disk

_parents: set[int] = set()  # the forking parents in use by this process


class Sandbox:
    """The confinement of one submission's workers. A context manager."""

    def __init__(
        self,
        device: DeviceName = "interpreter",
        level: Level | None = None,
        required: bool = False,
        native: bool = False,
        plans: bool = False,
    ) -> None:
        """`native`: its workers compile CUDA C++ and run what came of it, without Python.

        `plans`: its workers plan, compile and execute Triton kernels (worker/plan_processes.py).

        `level` asks for one confinement; None for the strongest that works here.

        Raises ConfinementError when the one asked for doesn't, or, where it is `required`, when
        there is none that holds a stranger.
        """
        self.device = device
        self.native = native
        self.plans = plans
        self.confinement = confinement.choose(level, device, required)
        self._home = ""
        self._parent_pid = 0
        self._group: ProcessGroup | None = None
        self._kills_known = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._log: IO[bytes] | None = None  # while the forking parent is on its way
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
        """What confines a worker, in a word, for the report."""
        return self.confinement.level.value

    @property
    def _kind(self) -> str:
        """What its workers do: see worker/fork_server.py."""
        if self.native:
            return "native"
        return "plans" if self.plans else "python"

    @property
    def is_started(self) -> bool:
        """Whether there is a forking parent (or was: a submission may have ended it)."""
        return self._process is not None and self._log is None

    @property
    def scratch(self) -> Path:
        """The one folder a worker can write to; at some levels it sees another, empty one there."""
        return Path(self._home) / "scratch"

    def hold(self, name: str, data: bytes, program: bool = False) -> Path:
        """Put a file of the submission where its workers can read it, and say where.

        As a `program` they can start it, too.
        """
        self._make_folders()
        path = Path(self._home) / "submission" / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
        if program:
            path.chmod(0o500)
        return path

    def begin(self) -> None:
        """Have the forking parent started without waiting for it; nothing where there is one.

        It is tied to the calling thread, and ends with it. Raises SandboxError when it can't be
        started at all.
        """
        if self._process is not None:
            return
        self._make_folders()
        processes.adopt_orphans()  # of a worker whose parent was killed
        self._control, theirs = socket_pair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (`start` and `close` close it)
        with theirs:  # closed here, so that its end is the parent's end
            self._process = self._launch(theirs, self._log)
        _parents.add(self._process.pid)

    def start(self) -> None:
        """Start the forking parent and wait until it has imported torch and triton.

        Raises SandboxError when it doesn't get there.
        """
        self.begin()
        if self._log is None:
            return
        message = self._hear(START_SECONDS)
        with self._log as log:
            self._log = None
            if not message or message.get("ready") is not True:
                self.close()
                log.seek(0)
                text = log.read()[-2000:].decode("utf-8", "replace")
                raise SandboxError(f"the workers' parent did not start:\n{text}")
        self._parent_pid = self._find_parent(self._process.pid)

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

        Of a sandbox for plans `role` says what it becomes: see worker/plan_processes.py.

        `on_gpu`: the buffers are gpu_memory.py's.

        Of a native sandbox `path` is the program that was made of the file, which is started with
        `options` (worker/native/host.cpp). Raises SandboxError when none can be had, even from a
        fresh parent.
        """
        wanted: dict[str, Any] = {"path": str(path), "entry": entry, "options": list(options)}
        wanted["on_gpu"] = on_gpu
        wanted["role"] = role
        return self._worker(wanted, buffers, limits)

    def builder(
        self, source: Path, build: dict[str, Any], output: int, output_bytes: int, limits: Limits
    ) -> Worker:
        """Fork a worker that compiles `source` when asked to (`Operation.build`), as `build` says.

        What it makes goes to the descriptor `output`; see worker/builder.py. Raises SandboxError
        as `worker` does.
        """
        message = {"path": str(source), "build": build}
        return self._worker(message, [(output, output_bytes, True)], limits)

    def _worker(
        self,
        wanted: dict[str, Any],
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
    ) -> Worker:
        if self._log is not None:
            self.start()
        with contextlib.suppress(OSError, SandboxError):
            return self._fork(wanted, buffers, limits)
        self._stop_parent()  # a submission may have killed or stopped it
        self.start()
        try:
            return self._fork(wanted, buffers, limits)
        except OSError as error:
            raise SandboxError(f"no worker could be started: {error}") from None

    def close(self) -> None:
        """End every process and remove the scratch folder."""
        for worker in list(self._workers):
            worker.close()
        self._stop_parent()
        if self._home:
            remove_tree(self._home)
            self._home = ""

    def processes_of(self, worker: Worker) -> list[psutil.Process]:
        """What a worker started, and orphans, which can't be told apart; without the worker."""
        if self._process is None:
            return []
        others = [other.pid for other in self._workers if other is not worker]
        found = processes.without(processes.below(self._parent_pid), others)
        return [each for each in found if each.pid != worker.pid]

    def forget(self, worker: Worker) -> None:
        """Take a worker that has ended off the list. Raises ValueError when it isn't there."""
        self._workers.remove(worker)

    def was_out_of_memory(self) -> bool:
        """Whether the kernel has ended a process here for want of memory since the last time."""
        before = self._kills_known
        self._kills_known = self._group.times_out_of_memory() if self._group else 0
        return self._kills_known > before

    def overflows(self) -> bool:
        """Whether the scratch folder holds too much, where nothing else bounds it."""
        if self.confinement.level is Level.bubblewrap:
            return False  # it is in memory, of a fixed size
        return is_larger_than(self.scratch, confinement.SCRATCH_BYTES)

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

    def _make_folders(self) -> None:
        if not self._home:
            self._home = tempfile.mkdtemp(prefix="warpgrade-")
            for name in ("scratch", "submission"):
                (Path(self._home) / name).mkdir(mode=0o700)

    def _find_parent(self, started: int) -> int:
        """The forking parent's number here: what was started may be what starts it."""
        if not self.confinement.has_own_pids:
            return started
        pid = confinement.outer_pid(1, started)
        if pid is None:
            self.close()
            raise SandboxError("the workers' parent is gone as soon as it was ready")
        return pid

    def _launch(self, control: socket.socket, log: IO[bytes]) -> subprocess.Popen[bytes]:
        line = confinement.command(
            self.confinement,
            [
                *(sys.executable, "-I", "-B", *bytecode.option(), str(WORKER_PROGRAM)),
                *(str(control.fileno()), self._kind),
            ],
            scratch=self.scratch,
            submission=Path(self._home) / "submission",
            environment=self._environment(),
        )
        self._group, self._kills_known = ProcessGroup.create(GROUP_BYTES, GROUP_PROCESSES), 0
        try:
            return subprocess.Popen(
                self._group.command(line) if self._group else line,
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
            "HOME": str(self.scratch),
            "TMPDIR": str(self.scratch),
            "TRITON_CACHE_DIR": str(self.scratch / "triton"),
            "USER": "worker",  # inside, the user may have no entry to look the name up in
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            # Triton 3.9 asks for a choice; fused multiply-add is what every release so far does.
            "TRITON_DEFAULT_FP_FUSION": "1",
        }
        if self.device != "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = ""
            if not self.plans:  # baselines on the CPU, for tests, in Triton's own interpreter
                environment["TRITON_INTERPRET"] = "1"
        else:
            keep = ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "TRITON_LIBCUDA_PATH")
            environment |= {name: os.environ[name] for name in keep if name in os.environ}
        return environment

    def _fork(
        self,
        wanted: dict[str, Any],
        buffers: Sequence[tuple[int, int, bool]],
        limits: Limits,
    ) -> Worker:
        if self._control is None or self._process is None:
            raise SandboxError("not started")
        self._next_id += 1
        message = {
            "id": self._next_id,
            **wanted,
            "device": self.device,
            "memory_bytes": limits.memory_bytes if self.device == "interpreter" else None,
            "buffers": [[length, writable] for _, length, writable in buffers],
        }
        requests, theirs = socket_pair()
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
            if isinstance(pid, int) and self.confinement.has_own_pids:
                pid = confinement.outer_pid(pid, self._parent_pid)
            # A worker could have tampered with its parent: believe no number without a look.
            if not isinstance(pid, int) or not processes.is_child(pid, self._parent_pid):
                raise SandboxError("the workers' parent names a process that isn't its child")
            return pid

    def _hear(self, seconds: float) -> dict | None:
        """The next control message; None when there is none in time, or nobody to send one."""
        if self._control is None or not is_readable(self._control, seconds):
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
            processes.end_adopted(str(self.scratch), _parents)
        if self._group is not None:
            self._group.close()
        for opened in (self._control, self._log):
            if opened is not None:
                opened.close()
        self._process = self._control = self._log = self._group = None
