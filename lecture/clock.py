"""How long a function takes on a device: the median of repetitions, and where it may lie.

On a GPU by CUDA events, which the device itself records before and after the work (CUDA C++ Best
Practices Guide, "Using CUDA GPU timers"). Before each repetition a buffer larger than the L2 cache
is written: then none of the data is in it, and while the device writes, the host launches what is
timed. By its data sheet an H100 writes 256 MiB in 80 us; launches beyond that are timed too. On a
CPU by the process' own clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from grader.timing.bootstrap import Interval, interval

WARM_UP = 5  # calls: they compile, tune, load modules and allocate
REPETITIONS = 40
LEAST_FLUSH_BYTES = 256 << 20


class Clock:
    """Times functions on one device."""

    def __init__(self, device: str, repetitions: int = REPETITIONS) -> None:
        """`device` as torch names it: "cuda" or "cpu"."""
        self.device = device
        self.repetitions = repetitions
        self.flush_bytes = 0
        if device == "cuda":
            cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)
            self.flush_bytes = max(4 * cache, LEAST_FLUSH_BYTES)
            self._flush = torch.empty(self.flush_bytes, dtype=torch.int8, device="cuda")

    def microseconds(self, function: Callable[[], object]) -> Interval:
        """The median time of a call in microseconds, with its interval at 95 %."""
        for _ in range(WARM_UP):
            function()
        timed = self._by_events if self.device == "cuda" else _by_the_host
        return interval([timed(function) for _ in range(self.repetitions)])

    @property
    def note(self) -> str:
        """What was done, in a sentence for below a table."""
        how = f"Medians of {self.repetitions} calls after {WARM_UP} to warm up, with the interval"
        if not self.flush_bytes:
            return f"{how} at 95 %, by the host's clock."
        return (
            f"{how} at 95 %, by CUDA events; before each call {self.flush_bytes >> 20} MiB are "
            "written, so that nothing is in the L2 cache."
        )

    def _by_events(self, function: Callable[[], object]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        self._flush.zero_()
        start.record()
        function()
        end.record()
        end.synchronize()
        return 1e3 * start.elapsed_time(end)


def _by_the_host(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return 1e6 * (time.perf_counter() - started)
