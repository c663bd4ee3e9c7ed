"""Calls that are arranged once and then replayed: on a CUDA device as a graph, else one by one."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import torch

FLUSHES = 4  # times the L2 cache's size, that are written before a replay, as the executor does

Entry = Callable[..., Any]


class Replayed(Protocol):
    """A device, as far as the host needs it."""

    def arrange(self, entry: Entry, calls: Sequence[Sequence[Any]]) -> None: ...
    def replay(self) -> int: ...  # nanoseconds, by the device's clock


def on(device: str) -> Replayed:
    """Replays on `cuda`, or anything else: the CPU."""
    return OnCuda() if device == "cuda" else OnHost()


class OnHost:
    """The CPU: calls are made when they are replayed."""

    def __init__(self) -> None:
        self._work: tuple[Entry, Sequence[Sequence[Any]]] = (print, ())

    def arrange(self, entry: Entry, calls: Sequence[Sequence[Any]]) -> None:
        """Keep the calls."""
        self._work = entry, calls

    def replay(self) -> int:
        """Make them."""
        entry, calls = self._work
        started = time.perf_counter_ns()
        for values in calls:
            entry(*values)
        return time.perf_counter_ns() - started


class OnCuda:
    """A CUDA device: the calls become a graph that begins and ends with an event."""

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm: set[tuple[Any, ...]] = set()  # shapes

    def arrange(self, entry: Entry, calls: Sequence[Sequence[Any]]) -> None:
        """Capture the calls.

        Those of other shapes than before are made before that, since they may compile. The graph is
        launched once: the first launch brings it to the device, some microseconds for each call.
        """
        stream = self._stream
        for values in calls:
            shapes = tuple(tuple(each.shape) for each in values if isinstance(each, torch.Tensor))
            if shapes not in self._warm:
                with torch.cuda.stream(stream):
                    for _ in range(2):
                        entry(*values)
                torch.cuda.synchronize()
                self._warm.add(shapes)
        self._graph = None  # what it holds of memory is free for the next one
        graph = torch.cuda.CUDAGraph()
        begin, end = self._events
        flushed = self._flushed
        with torch.cuda.graph(graph, stream=stream):
            flushed.zero_()
            begin.record()
            for values in calls:
                entry(*values)
            end.record()
        self._graph = graph
        graph.replay()
        torch.cuda.synchronize()

    def replay(self) -> int:
        """Launch the graph and wait for it.

        Lines that whoever ran before has kept in the L2 cache on purpose are ordinary again, as
        they are for an executor.
        """
        begin, end = self._events
        torch.cuda.synchronize()
        self._driver.cuCtxResetPersistingL2Cache()  # of a GPU that keeps nothing there is none
        assert self._graph is not None  # calls have been arranged
        self._graph.replay()
        torch.cuda.synchronize()
        return int(begin.elapsed_time(end) * 1e6)

    @cached_property
    def _driver(self) -> ctypes.CDLL:
        return ctypes.CDLL("libcuda.so.1")

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()  # type: ignore[no-untyped-call]

    @cached_property
    def _flushed(self) -> torch.Tensor:
        """More than the L2 cache holds: once it's written, nothing else is left there."""
        size = torch.cuda.get_device_properties(0).L2_cache_size * FLUSHES
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    @cached_property
    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        # External ones: they are recorded by the graph, and read outside of it.
        made: Callable[..., torch.cuda.Event] = torch.cuda.Event
        return made(enable_timing=True, external=True), made(enable_timing=True, external=True)
