"""Ends this process, and all that it started, where it takes too long."""

from __future__ import annotations

import os

from grader.sandbox import processes


def end_this_process(status: int) -> None:
    """Kill every descendant of this process, and end it at once with an exit status."""
    processes.end(lambda: processes.below(os.getpid()))
    os._exit(status)
