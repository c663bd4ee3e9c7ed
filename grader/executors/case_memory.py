"""The memory that a variant's cases are placed in, one after another: an arena that grows.

A larger arena takes the place of one that is too small, or of one of the other kind (of a GPU, of
the host). Whoever has the old one mapped ends first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from grader.cases.arena import Arena, required_bytes
from grader.cases.gpu_memory import GpuMemory
from grader.cases.inputs import Inputs
from grader.sandbox.memfd import Memfds
from grader.worker.gpu_mapping import GpuMemoryError

# Of each buffer, so that growing sizes rarely mean a new worker: with a worker goes the list of
# what it would have compiled. Memory that isn't touched costs nothing.
ARENA_BYTES = 256 << 20
GPU_ARENA_BYTES = 32 << 20  # there it costs, touched or not


class CaseMemory:
    """The arena at hand; `end_users` ends the processes that have it mapped."""

    def __init__(self, end_users: Callable[[], None]) -> None:
        self._end_users = end_users
        self._arena: Arena | None = None
        self._capacity = (0, 0)  # bytes of inputs and of outputs

    @property
    def arena(self) -> Arena:
        """The arena that the last case was fitted in."""
        assert self._arena is not None
        return self._arena

    @property
    def is_on_gpu(self) -> bool:
        """Whether there is an arena, and it is memory of a GPU."""
        return self._arena is not None and self._arena.on_gpu

    def fit(self, case: Inputs, inputs_writable: bool, on_gpu: bool = False) -> None:
        """Have an arena that holds a case. Raises GpuMemoryError where it can't be on a GPU."""
        reading = [s for s in case.slots if s.role == "input" and not inputs_writable]
        writing = [s for s in case.slots if s.role != "input" or inputs_writable]
        need = [required_bytes(each, on_gpu, inputs_writable) for each in (reading, writing)]
        if self._arena is not None and self._arena.on_gpu is not on_gpu:
            self.close()
        fits = all(n <= have for n, have in zip(need, self._capacity, strict=True))
        if self._arena is not None and fits:
            return
        least = GPU_ARENA_BYTES if on_gpu else ARENA_BYTES
        capacity = [max(2 * n, have, least) for n, have in zip(need, self._capacity, strict=True)]
        self.close()
        self._arena = Arena(capacity[0], capacity[1], GpuMemory if on_gpu else Memfds)
        self._capacity = (capacity[0], capacity[1])

    def close(self) -> None:
        """Give the memory back, once who has it mapped has ended."""
        if self._arena is None:
            return
        self._end_users()
        arena, self._arena, self._capacity = self._arena, None, (0, 0)
        with contextlib.suppress(GpuMemoryError):  # nothing more can be done about it
            arena.close()
