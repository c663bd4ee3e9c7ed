"""Where a submission's Python runs: on a CUDA device, or on the CPU in Triton's own interpreter.

A device brings arguments of the arena to the entry and takes results back; the host does not know
which of the two it drives.
"""

from __future__ import annotations

import linecache
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, Protocol

import torch

from . import memory
from .protocol import Argument, Code, Kind, Space

# Words by which CUDA and Triton say that the context is lost and every later call will fail.
_LOST = (
    "illegal memory access",
    "misaligned address",
    "unspecified launch failure",
    "device-side assert",
    "illegal instruction",
    "invalid address space",
    "hardware stack error",
)
_OUT_OF_MEMORY = (
    "can't allocate memory",
    "out of memory",
    "not enough memory",
    "unable to allocate",
)


class DeviceLost(Exception):
    """The CUDA context can't be used any more (an illegal access, say)."""


@dataclass
class Call:
    """Arguments as the entry takes them, and how to bring results back to the arena."""

    values: list[Any]
    take_back: Callable[[], None] = lambda: None


class Device(Protocol):
    """What the host needs of a device."""

    def loaded(self, module: ModuleType) -> None: ...
    def bring(self, arguments: Sequence[Argument], buffers: list[memory.Buffer]) -> Call: ...
    def synchronise(self) -> None: ...
    def timed(self, work: Callable[[], None]) -> int: ...
    def kernels(self, work: Callable[[], None]) -> list[str]: ...
    def locate(self, error: BaseException) -> tuple[int | None, BaseException]: ...
    def classify(self, error: BaseException) -> Code: ...
    def raise_if_lost(self, error: BaseException) -> None: ...


def make_device(name: str, path: str) -> Device:
    """`interpreter` (the CPU) or `cuda`, for the submission at `path`."""
    return {"interpreter": HostDevice, "cuda": CudaDevice}[name](path)


class HostDevice:
    """The CPU, over the arena itself: inputs are read-only, nothing is copied.

    What is graded without a GPU goes by plan; this is for tests of what happens on one.
    """

    def __init__(self, path: str) -> None:
        from triton.runtime.interpreter import GridExecutor

        self.path = path
        # It would copy each argument onto itself, and inputs can't be written.
        GridExecutor._restore_args_dev = lambda *_: None

    def loaded(self, module: ModuleType) -> None:
        """Nothing to start."""

    def bring(self, arguments: Sequence[Argument], buffers: list[memory.Buffer]) -> Call:
        """Views on the arena."""
        values: list[Any] = []
        for argument in arguments:
            if argument.kind is Kind.tensor:
                values.append(memory.view(argument, memory.allocation(argument, buffers)))
            else:
                values.append(argument.scalar)
        return Call(values)

    def synchronise(self) -> None:
        """Nothing runs beside the entry."""

    def timed(self, work: Callable[[], None]) -> int:
        """Do it; the nanoseconds that it took."""
        started = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - started

    def kernels(self, work: Callable[[], None]) -> list[str]:
        """Do it. No device runs a kernel here: there is nothing to list."""
        work()
        return []

    def locate(self, error: BaseException) -> tuple[int | None, BaseException]:
        """The innermost line in the student's file, through the chain of causes."""
        return _line_in(self.path, error), causes(error)[-1]

    def classify(self, error: BaseException) -> Code:
        """Which code an exception of the entry means."""
        is_full = any(_is_out_of_memory(each) for each in causes(error))
        return Code.out_of_memory if is_full else Code.raised

    def raise_if_lost(self, error: BaseException) -> None:
        """The CPU has no context to lose."""


class CudaDevice:
    """A CUDA GPU. What lies in host memory is copied there whole, guard zones included, and back
    afterwards; what lies on the GPU is used in place."""

    def __init__(self, path: str) -> None:
        self.path = path

    def loaded(self, module: ModuleType) -> None:
        """Start the context now, so that its time isn't the first case's."""
        torch.cuda.init()

    def bring(self, arguments: Sequence[Argument], buffers: list[memory.Buffer]) -> Call:
        """Views of what lies on the device; of the rest copies there, brought back afterwards."""
        values: list[Any] = []
        back: list[tuple[torch.Tensor, torch.Tensor]] = []
        for argument in arguments:
            if argument.kind is not Kind.tensor:
                values.append(argument.scalar)
                continue
            host = memory.allocation(argument, buffers)
            if buffers[argument.buffer].on_device:
                values.append(memory.view(argument, host))
                continue
            place = host.cuda() if argument.space is Space.device else host
            if buffers[argument.buffer].writable and place is not host:
                back.append((host, place))
            values.append(memory.view(argument, place))

        def take_back() -> None:
            for host, place in back:
                host.copy_(place)

        return Call(values, take_back)

    def synchronise(self) -> None:
        """Wait for the device; raises what the kernels did wrong."""
        torch.cuda.synchronize()

    def timed(self, work: Callable[[], None]) -> int:
        """Do it and wait for the device; the nanoseconds that passed there between two events."""
        begin, end = self._events
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return int(begin.elapsed_time(end) * 1e6)

    def kernels(self, work: Callable[[], None]) -> list[str]:
        """Do it; the names of what the device ran for it, in order: kernels, copies and fills.

        Raises what the work raises, and what the profiler does.
        """
        from torch.autograd import DeviceType

        # Not torch.profiler's, which is this and imports the compiler first, for 5 s.
        from torch.autograd.profiler import profile

        with profile(use_cpu=False, use_device="cuda", use_kineto=True) as seen:
            work()
        events = seen.function_events or ()
        return [each.name for each in events if each.device_type == DeviceType.CUDA]

    @cached_property
    def _events(self) -> list[torch.cuda.Event]:
        return [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def locate(self, error: BaseException) -> tuple[int | None, BaseException]:
        """The innermost line in the student's file, through the chain of causes."""
        chain = causes(error)
        return _compiler_line(chain, self.path) or _line_in(self.path, error), chain[-1]

    def classify(self, error: BaseException) -> Code:
        """Which code an exception of the entry means."""
        from triton.compiler.errors import CompilationError

        for seen in causes(error):
            if isinstance(seen, CompilationError) or type(seen).__name__ in (
                "OutOfResources",
                "PTXASError",
                "CompileTimeAssertionFailure",
            ):
                return Code.compile_failed
            if _is_out_of_memory(seen):
                return Code.out_of_memory
            if _raised_while_compiling(seen):
                return Code.compile_failed
        return Code.raised

    def raise_if_lost(self, error: BaseException) -> None:
        """Raise DeviceLost when the error leaves a context that no later call can use."""
        # torch's advice below its first line speaks of assertions, whatever it was.
        first = text_of(error).partition("\n")[0]
        if found := next((words for words in _LOST if words in first), None):
            raise DeviceLost(found) from None
        if "CUDA" in first and not _answers():
            raise DeviceLost(first[:200]) from None


def _line_in(path: str, error: BaseException) -> int | None:
    line = None
    for each in causes(error):
        for frame in traceback.extract_tb(each.__traceback__):
            if frame.filename == path:
                line = frame.lineno
    return line


def _answers() -> bool:
    """Whether the CUDA context can still be used: an error that stays comes back at every call."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def causes(error: BaseException) -> list[BaseException]:
    """The exception and what led to it, the root last. `raise e from e` is its own cause."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and all(cause is not e for e in chain):
        chain.append(cause)
    return chain


def text_of(error: BaseException) -> str:
    """`str(error)`, where `__str__` may be the student's and may fail."""
    try:
        return str(error)
    except BaseException as trouble:
        return f"(no text: its __str__ raised {type(trouble).__name__})"


def _compiler_line(chain: Sequence[BaseException], path: str) -> int | None:
    """The line of a compilation error: Triton's node counts from the kernel's `def`."""
    line = None
    for seen in chain:
        source, node = getattr(seen, "src", None), getattr(seen, "node", None)
        if isinstance(source, str) and hasattr(node, "lineno"):
            definition = source.split("\n", 1)[0].strip()
            for number, text in enumerate(linecache.getlines(path), 1):
                if text.strip() == definition:
                    line = number + node.lineno - 1
    return line


def _raised_while_compiling(error: BaseException) -> bool:
    """Whether the exception came out of Triton's compiler, whatever its type."""
    frames = traceback.extract_tb(error.__traceback__)
    return any("/triton/compiler/" in frame.filename for frame in frames)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(w in text_of(error) for w in _OUT_OF_MEMORY)
