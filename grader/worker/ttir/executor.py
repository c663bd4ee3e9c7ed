"""Executes a kernel's TTIR on numpy buffers, all programs of a grid or many of them at once."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import (  # noqa: F401 - each registers its operations
    arithmetic,
    atomics,
    control,
    conversions,
    descriptors,
    effects,
    inline_assembly,
    libdevice,
    loading,
    polling,
    products,
    reductions,
    selection,
    structure,
    whereabouts,
)
from .control import run_function
from .errors import NESTED, LimitExceeded, MalformedIR, NotModelled, WaitsForever, WrongArguments
from .floats import computed, round_to
from .ir import Module, Op, Type, walk
from .memory import Memory
from .observer import Observer
from .orders import WINDOW, Order
from .rectangles import Tensor
from .scanning import called_name
from .state import Execution, Limits, Result, State
from .warp_requests import Layouts

# Elements of all programs that run together, of their average block and of their largest.
CHUNK_ELEMENTS = 1 << 16
CHUNK_LARGEST = 1 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_ALL = 1 << 30  # programs at once
MAX_WAITING = 1024  # programs that have begun and wait
FIRST, FIRST_PATIENCE = 4, 400  # programs that start alone in such an order, and rounds after each
PATIENCE = 8  # rounds in which no program ends, before more start, in a shuffled order


@dataclass(frozen=True)
class Descriptor:
    """A tensor descriptor that host code made. Strides are in elements.

    `nan_padding`: elements outside read as NaN instead of zero.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    nan_padding: bool = False


@dataclass(frozen=True)
class Launch:
    """A kernel on a grid. Arguments are numbers, addresses and descriptors.

    They follow the entry's parameters, without those that the text adds for a descriptor. `layouts`
    are of the compiled kernel, for counting observers; None where they are unknown. `one_warp`:
    its programs have one warp each.
    """

    module: Module
    grid: tuple[int, int, int]
    arguments: Sequence[Any]
    layouts: Layouts | None = None
    one_warp: bool = False


def execute(
    launch: Launch,
    memory: Memory,
    observers: Sequence[Observer] = (),
    *,
    limits: Limits | None = None,
    order: Order | None = None,
    programs: np.ndarray | None = None,
) -> Result:
    """Run a launch. Raises NotModelled, MalformedIR and LimitExceeded; memory may have changed.

    Programs run first to last, or in `order`. With `programs` only these run, as far as the limits
    allow, and none of a kernel whose programs wait for others.
    """
    limits = limits or Limits()
    grid = launch.grid
    count = math.prod(grid)
    if min(grid) < 0 or (programs is None and count > limits.programs):
        raise LimitExceeded("programs in a grid", limits.programs)
    execution = Execution(launch.module, grid, memory, observers, limits)
    facts = facts_of(launch.module)
    _keep_freed_memory()
    execution.interleaved = facts.waits
    for observer in observers:
        observer.begin(launch)
        for op, size in facts.tiles:
            observer.value(op, size)
    try:
        with np.errstate(all="ignore"):
            arguments = _arguments(launch)
            if programs is not None:
                with contextlib.suppress(LimitExceeded, NotModelled):
                    _in_step(execution, arguments, programs[: 0 if facts.waits else None], _ALL)
            elif facts.waits:
                execution.result.groups = count
                _take_turns(execution, arguments, _numbers(order, count, waits=True), order)
            else:
                chunk = _chunk(facts) if order is None else min(_chunk(facts), order.chunk(count))
                execution.result.groups = -(-count // chunk)
                _in_step(execution, arguments, _numbers(order, count), chunk)
    except RecursionError:
        raise LimitExceeded(NESTED, sys.getrecursionlimit()) from None
    except _OF_MALFORMED_TEXT as error:
        raise MalformedIR(f"can't be executed ({type(error).__name__}: {error})"[:300]) from error
    finally:
        for observer in observers:
            observer.end()
    return execution.result


@functools.cache
def _keep_freed_memory() -> None:
    """Make malloc keep blocks' memory: asking the system for it again is slow."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, 1 << 28)
        mallopt(_MMAP_THRESHOLD, 1 << 27)


def _chunk(facts: Facts) -> int:
    """The number of programs that run together, so that their values fit into a cache."""
    return max(1, min(CHUNK_ELEMENTS // facts.average, CHUNK_LARGEST // facts.widest))


def _numbers(order: Order | None, count: int, waits: bool = False) -> np.ndarray:
    """The numbers of the grid's programs in their order."""
    if order is None:
        return np.arange(count, dtype=np.int64)
    return order.waiting_programs(count) if waits else order.programs(count)


def _in_step(execution: Execution, arguments: list[Any], numbers: np.ndarray, chunk: int) -> None:
    """Run chunks of programs in order, each operation for a whole chunk."""
    for first in range(0, len(numbers), chunk):
        for _ in _program(execution, arguments, numbers[first : first + chunk]):
            raise MalformedIR("a program that waits")


def _program(
    execution: Execution, arguments: list[Any], linear: np.ndarray
) -> Generator[None, None, Any]:
    state = State(execution, linear)
    given = [(value, None) for value in arguments]
    return run_function(state, execution.module.entry, given)


def _take_turns(
    execution: Execution, arguments: list[Any], numbers: np.ndarray, order: Order | None
) -> None:
    """Run one program at a time; one that waits in a loop lets the others go on.

    A window of programs starts at a time, so that programs which draw their work from a counter
    share it as on a GPU: when those before it have ended or wait, and in a shuffled order not until
    none of the others has ended for some rounds. The first few of those start one by one, and each
    may wait for long: a wait that gives up goes on without what it has waited for.
    """
    waiting: list[Generator[None, None, Any]] = []
    started, idle, changes, quiet = 0, 0, -1, 0
    while waiting or started < len(numbers):
        is_first = order is not None and started < FIRST
        patience = FIRST_PATIENCE if is_first else PATIENCE
        may_start = len(waiting) + WINDOW <= MAX_WAITING and (order is None or quiet > patience)
        if started < len(numbers) and (may_start or not waiting):
            first, started = started, min(started + (1 if is_first else WINDOW), len(numbers))
            waiting += [
                _program(execution, arguments, numbers[each : each + 1])
                for each in range(first, started)
            ]
            idle = quiet = 0
        still = []
        for program in waiting:
            if next(program, _ENDED) is not _ENDED:
                still.append(program)
            else:
                idle = 0
        quiet = quiet + 1 if len(still) == len(waiting) else 0
        waiting = still
        idle = idle + 1 if execution.changes == changes else 0
        changes = execution.changes
        if idle > execution.limits.idle_turns:
            line = next(filter(None, map(whereabouts.waiting_in, waiting)), 0)
            waits = "turns of waiting loops while no program changes memory"
            raise WaitsForever(waits, execution.limits.idle_turns, line)


_ENDED = object()
# Exceptions of numpy and Python for unsuitable shapes, types or numbers of operands.
_OF_MALFORMED_TEXT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)


def _arguments(launch: Launch) -> list[Any]:
    """The values of the entry's parameters."""
    entry = launch.module.entry
    values: list[Any] = []
    for argument in launch.arguments:
        if len(values) >= len(entry.parameters):
            raise WrongArguments("more arguments than parameters")
        declared = entry.parameters[len(values)]
        if isinstance(argument, Descriptor):
            values += _descriptor(argument)
        else:
            values.append(_scalar(argument, declared))
    if len(values) != len(entry.parameters):
        raise WrongArguments(f"{len(values)} arguments for {len(entry.parameters)} parameters")
    return values


def _descriptor(given: Descriptor) -> list[Any]:
    """A descriptor, and its shape and strides, which are further parameters in the text."""
    shape = tuple(np.array([each], np.int32) for each in given.shape)
    strides = tuple(np.array([each], np.int64) for each in given.strides)
    base = np.array([given.address], np.int64)
    return [Tensor(base, shape, strides, zeros=not given.nan_padding), *shape, *strides]


def _scalar(argument: Any, declared: Type) -> np.ndarray:
    if declared.shape or declared.kind.startswith(("desc<", "block_ptr<")):
        raise MalformedIR(f"a number for a parameter of type {declared}")
    value = np.asarray(argument).reshape(1)
    if declared.kind[0] in "fb":
        return round_to(value, declared.kind)
    dtype = computed(declared.kind)
    if value.dtype == object or not np.can_cast(value.dtype, dtype):
        number = int(value[0])
        if dtype is np.bool_:
            return np.array([bool(number)])
        bits = np.dtype(dtype).itemsize * 8
        return np.array([number & ((1 << bits) - 1)], f"u{bits // 8}").view(dtype)
    return value.astype(dtype)


@dataclass(frozen=True)
class Facts:
    """The sizes of a kernel's blocks, and how its programs have to run: known before it runs."""

    widest: int  # elements of the largest block
    average: int
    waits: bool  # a loop may run until another program changes memory
    tiles: list[tuple[Op, int]]  # operations that make blocks, and the blocks' sizes


def facts_of(module: Module) -> Facts:
    """The facts of a module, which caches them. Raises MalformedIR."""
    if isinstance(module.facts, Facts):
        return module.facts
    widest, waits = 1, False
    tiles: list[tuple[Op, int]] = []
    for function in module.functions.values():
        for op in walk(function.blocks):
            for declared in op.types:
                widest = max(widest, declared.size)
                if declared.shape:
                    tiles.append((op, declared.size))
            for declared in op.operand_types:
                widest = max(widest, declared.size)
            if op.name == "scf.while":
                waits = waits or _reads_memory(op, module, set())
            waits = waits or op.name == "tt.atomic_poll"
    sizes = [size for _, size in tiles]
    module.facts = facts = Facts(widest, max(1, sum(sizes) // max(1, len(sizes))), waits, tiles)
    return facts


def _reads_memory(op: Op, module: Module, visited: set[str]) -> bool:
    """Whether a loop may wait for others: by atomics, or by loads that stay at one address."""
    blocks = [block for region in op.regions for block in region]
    inside = walk(blocks)
    made = {slot for block in blocks for slot in block.arguments}
    for inner in inside:
        made.update(inner.results)
        made.update(*(block.arguments for region in inner.regions for block in region))
    for inner in inside:
        if inner.name.startswith("tt.atomic_"):
            return True
        if inner.name == "tt.load":
            volatile = inner.attributes.get("isVolatile")
            if volatile or not made.intersection(inner.operands[:1]):
                return True
        if inner.name == "tt.call":
            called = module.functions.get(called_name(inner))
            if called is not None and called.name not in visited:
                visited.add(called.name)
                whole = Op("", [], [], [], [], "", {}, regions=[called.blocks])
                if _reads_memory(whole, module, visited):
                    return True
    return False
