"""How much a function does, by its steps: the time that they take depends on the machine."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, settings

SECONDS = 30  # for what takes less than one, also on a machine with other work


def lines(work: Callable[[], object], most: float = float("inf")) -> int:
    """The lines of Python that run. Raises AssertionError after more than `most`."""
    count = 0

    def step(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        assert count <= most, f"more than {most:g} lines"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """Raise TimeoutError in what doesn't end: in a search by a pattern, too."""

    def ring(*_: object) -> None:
        raise TimeoutError("it does not end")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def examples_at_any_speed() -> None:
    """Let hypothesis fail no test because an example was slow to draw or to run."""
    slow = [HealthCheck.too_slow]
    settings.register_profile("any speed", deadline=None, suppress_health_check=slow)
    settings.load_profile("any speed")
