"""Waiting awake for what will come within a moment.

Who sleeps for a millisecond wakes up late, on a core that has gone to sleep too. So both sides of a
socket look at it for a short while before they sleep. That is for cores that nobody else wants:
between two looks each gives way to whoever waits for its core, and when somebody has taken it, it
looks no more. No case is charged with it: a worker waits so before a request, and what it uses is
counted from the request on.

Standard library only: the grader imports it too.
"""

from __future__ import annotations

import os
import select
import time

TAKEN = 0.0002  # seconds between two looks: another process has run meanwhile

_cores = len(os.sched_getaffinity(0))


def soon(poller: select.poll, seconds: float) -> list[tuple[int, int]]:
    """What the poller finds within a time, or [] if that is over or the core is wanted."""
    if _cores < 2:  # what is waited for would have to run here
        return []
    now = time.monotonic()
    end = now + seconds
    while now < end:
        if found := poller.poll(0):
            return found
        os.sched_yield()
        before, now = now, time.monotonic()
        if now - before > TAKEN:
            break
    return []
