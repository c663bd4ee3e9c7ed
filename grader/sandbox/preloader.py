"""Fork servers of a grade's processes, forked by one process that has imported torch and triton.

    begin()              launches it, without waiting, in the process that makes a pool
    shared(), join(...)  hand its socket to the pool's processes
    forked(...)          has it fork a fork server

It serves Landlock's sandboxes of plans only. Bubblewrap starts a program, so its fork servers
import for themselves; and at level limits a submission could signal what others share.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.sandbox import bytecode
from grader.sandbox.confinement import ConfinementError, Level, choose
from grader.sandbox.environment import environment_of
from grader.sandbox.worker_process import (
    START_SECONDS,
    SandboxError,
    is_readable,
    socket_pair,
)

_END_SECONDS = 5.0

_requests: socket.socket | None = None  # to the preloader
_launched: subprocess.Popen[bytes] | None = None  # by this process


class Forked:
    """A fork server that the preloader forked, as `subprocess.Popen` is one that was started."""

    def __init__(self, lease: socket.socket) -> None:
        """`lease`: this process's end of it (worker/preloader.py)."""
        self._lease = lease
        self._pidfd: int | None = None
        self.pid = 0  # until `identify`

    def identify(self, seconds: float) -> None:
        """Learn its number, which stays its own until `wait`. Raises SandboxError."""
        try:
            self.pid = int(self._lease.recv(32)) if is_readable(self._lease, seconds) else 0
            self._pidfd = os.pidfd_open(self.pid)
        except (OSError, ValueError):
            raise SandboxError("the preloader is gone") from None

    def poll(self) -> int | None:
        """None while it runs."""
        return None if self._pidfd is None or not is_readable(self._pidfd, 0.0) else 0

    def kill(self) -> None:
        """End it."""
        if self._pidfd is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until it and the orphans that it left have ended. May be called twice."""
        with contextlib.suppress(OSError):
            self._lease.shutdown(socket.SHUT_WR)
            is_readable(self._lease, _END_SECONDS)
        self._lease.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def begin() -> None:
    """Launch the preloader, where there is none and it would serve."""
    global _requests, _launched
    if _requests is not None:
        return
    try:
        if choose().level is not Level.landlock:
            return
        home = tempfile.TemporaryDirectory(prefix="warpgrade-")
        ours, theirs = socket_pair()
        with theirs:
            _launched = subprocess.Popen(
                bytecode.worker_command(str(theirs.fileno()), "preloader"),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment_of("cpu", Path(home.name)),
                cwd=home.name,
                start_new_session=True,
            )
    except (ConfinementError, OSError):
        return  # each sandbox tries by itself, and says what is wrong
    ours.settimeout(START_SECONDS)  # it reads once it has imported
    _requests = ours
    atexit.register(_close, home)


def shared() -> socket.socket | None:
    """The socket to the preloader, for another process; None where there is no preloader."""
    return _requests


def join(requests: socket.socket | None) -> None:
    """Use the preloader of another process, by its `shared` socket."""
    global _requests
    _requests = requests


def forked(
    plan: Mapping[str, Any],
    environment: Mapping[str, str],
    folder: Path,
    group: Path | None,
    descriptors: tuple[int, int],
) -> Forked | None:
    """A fork server in `folder` that confines itself by `plan`; None without a preloader.

    `descriptors` are of its control socket and its log; `group` is the file of a control group
    that it enters.
    """
    if _requests is None:
        return None
    request = {"plan": plan, "environment": environment, "folder": str(folder)}
    message = json.dumps({**request, "group": str(group or "")}).encode()
    ours, theirs = socket_pair()
    with theirs:
        try:
            socket.send_fds(_requests, [message], [*descriptors, theirs.fileno()])
        except OSError:  # it has ended; or the plan is too long
            ours.close()
            return None
    return Forked(ours)


def _close(home: tempfile.TemporaryDirectory[str]) -> None:
    if _requests is not None:
        _requests.close()
    if _launched is not None:
        _launched.kill()
        _launched.wait()
    home.cleanup()
