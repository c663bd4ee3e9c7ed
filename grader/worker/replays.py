"""Calls that are prepared once and then replayed: as a graph on a CUDA device, else one by one."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import torch

FLUSHES = 4  # times the L2 cache's size, written before a replay, as in the GPU executor

Entry = Callable[..., Any]


class Replayed(Protocol):
    """A device's interface to the host."""

    def arrange(self, entry: Entry, calls: Sequence[Sequence[Any]]) -> None: ...
    def replay(self) -> int: ...  # nanoseconds, by the device's clock


def on(device: str) -> Replayed:
    """Replays on `cuda`, or anything else: the CPU."""
    return OnCuda() if device == "cuda" else OnHost()


class OnHost:
    """The CPU: replaying makes the calls."""

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
    """A CUDA device: the calls become a graph between two events."""

    def __init__(self) -> None:
        self._graph: torch.cuda.CUDAGraph | None = None
        self._outputs: list[Any] = []  # of the graph's calls
        self._warm: set[tuple[Any, ...]] = set()  # shapes, strides and dtypes

    def arrange(self, entry: Entry, calls: Sequence[Sequence[Any]]) -> None:
        """Capture the calls.

        Calls with a new kind of tensors are made once before, since they may compile. Each call has
        memory of its own for what it returns, as a submission has an output per call: memory that
        is freed would be given to the next call, which would find it in the cache. The graph is
        launched once, since the first launch uploads it.
        """
        stream = self._stream
        for values in calls:
            tensors = [each for each in values if isinstance(each, torch.Tensor)]
            kind = tuple((tuple(each.shape), each.stride(), each.dtype) for each in tensors)
            if kind not in self._warm:
                with torch.cuda.stream(stream):
                    for _ in range(2):
                        entry(*values)
                torch.cuda.synchronize()
                self._warm.add(kind)
        self._graph, self._outputs = None, []  # frees their memory for the next ones
        graph = torch.cuda.CUDAGraph()
        begin, end = self._events
        flushed = self._flushed
        with torch.cuda.graph(graph, stream=stream):
            flushed.zero_()
            begin.record()
            self._outputs = [entry(*values) for values in calls]
            end.record()
        self._graph = graph
        graph.replay()
        torch.cuda.synchronize()

    def replay(self) -> int:
        """Launch the graph and wait for it.

        Lines that an earlier process pinned in the L2 cache are reset, as in the GPU executor.
        """
        begin, end = self._events
        torch.cuda.synchronize()
        self._driver.cuCtxResetPersistingL2Cache()  # nothing on a GPU without pinning
        assert self._graph is not None  # arranged before
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
        """A buffer larger than the L2 cache, written to replace its contents."""
        size = torch.cuda.get_device_properties(0).L2_cache_size * FLUSHES
        return torch.empty(size, dtype=torch.uint8, device="cuda")

    @cached_property
    def _events(self) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        # External ones: the graph records them, and they are read outside of it.
        made: Callable[..., torch.cuda.Event] = torch.cuda.Event
        return made(enable_timing=True, external=True), made(enable_timing=True, external=True)
