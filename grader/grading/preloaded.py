"""Imports of a process pool's fork server: what its processes have imported when they start."""

import signal

from grader.startup import importing

_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who made the pool
with importing():
    import grader.grading.grade  # noqa: F401
signal.signal(signal.SIGINT, _handler)
