"""What a pool's processes have imported before they are forked (pool.py names this module)."""

import signal

from grader.startup import importing

_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who made the pool
with importing():
    import grader.grade  # noqa: F401
signal.signal(signal.SIGINT, _handler)
