"""Imports of a process pool's fork server, which its processes inherit."""

import signal

from grader.startup import importing

_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the pool's maker
with importing():
    import grader.cases.drawing
    import grader.grading.grade  # noqa: F401
signal.signal(signal.SIGINT, _handler)
