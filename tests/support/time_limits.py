"""A bound on the processor time of a few lines, for what would take for ever on contrived input."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

SECONDS = 5.0  # of computing, for what takes milliseconds


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raises TimeoutError where the lines compute for longer; a busy machine doesn't matter."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
