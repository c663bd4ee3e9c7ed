"""Processes that a test forks, and waits for their effects."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

SECONDS = 60.0  # enough on any machine


def child(work: Callable[[], None]) -> int:
    """A process that does `work`; its number."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def end(pid: int) -> None:
    """Kill a child and reap it; nothing if it has been."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
