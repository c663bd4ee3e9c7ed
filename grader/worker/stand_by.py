"""Standing by for the clock: requests come over a shared page, and this side spins for them.

The clock is the grader's and stands outside this process. A request names some of the sets of
arguments that were placed before, each with memory of its own; the entry is called once for each,
in order, and the answer is written when the device has finished. Nothing is sent over the socket
until the grader says to stop, or something fails.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .memory import Buffer
from .protocol import STOP, Word

NAP_SECONDS = 0.0005  # between looks, while no request is announced: others need the core


class Device(Protocol):
    """What is needed of a device: see devices.py."""

    def timed(self, work: Callable[[], None]) -> int: ...


def serve(page: Buffer, entry: Any, sets: Sequence[Sequence[Any]], device: Device) -> None:
    """Answer until told to stop. What the entry raises goes through.

    Raises IndexError where a request names a set that was never placed.
    """
    words = page.words()
    answered = words[Word.answer]
    gc.collect()
    gc.disable()  # a collection in the middle of a run would be the candidate's time
    try:
        while True:
            number = words[Word.request]
            if number == answered:
                if words[Word.announced] == answered:
                    time.sleep(NAP_SECONDS)
                continue
            work = words[Word.work]
            if work == STOP:
                return
            words[Word.inside] = _run(entry, sets, work, device)
            words[Word.answer] = answered = number
    finally:
        gc.enable()


def _run(entry: Any, sets: Sequence[Sequence[Any]], work: int, device: Device) -> int:
    """Call the entry for each set of the request; nanoseconds by the device's own clock."""
    first, count = work >> 32, work & 0xFFFFFFFF
    if first + count > len(sets):
        raise IndexError(f"sets {first} to {first + count} of {len(sets)}")

    def call_each() -> None:
        for values in sets[first : first + count]:
            entry(*values)

    return device.timed(call_each)
