"""The state of an execution: of a launch, of programs that run together, of one function call.

A value of type tensor<AxBxf32> is an array of shape (programs, A, B). An axis along which all is
equal may have length 1 instead. A scalar has the shape (programs,) or (1,). Where programs diverge
(an `if`, a loop with another trip count), `active` marks those that go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import LimitExceeded
from .ir import Block, Function, Module, Op
from .memory import Buffer, Memory
from .observer import Observer
from .poison import Poison

MAX_FINDINGS = 200  # of different places


@dataclass(frozen=True)
class Limits:
    """Limits on the work of a launch."""

    programs: int = 1 << 22
    steps: int = 20_000_000  # operations executed
    elements: int = 1 << 42  # computed, in all programs and operations
    depth: int = 32  # of calls
    idle_turns: int = 2000  # rounds of waiting programs without a change of memory
    printed: int = 100_000  # characters


@dataclass
class Finding:
    """An error of programs: `count` elements at one place, described by the first.

    `kind` is "out_of_bounds_read", "out_of_bounds_write", "misaligned",
    "misaligned_tensor", "store_conflict", "uninitialised_read", "gathered_outside",
    "device_assert" or "false_assumption". `offset` is the number of bytes from the first byte of
    `buffer`, the nearest one. An undefined element of `line` is used at `other_line`.
    """

    kind: str
    file: str
    line: int
    kernel: str
    program: tuple[int, int, int]
    count: int = 1
    address: int = 0
    width: int = 0
    buffer: Buffer | None = None
    offset: int = 0
    other_line: int = 0


@dataclass
class Result:
    """The outcome of a launch, besides changed memory."""

    findings: list[Finding] = field(default_factory=list)
    printed: str = ""
    steps: int = 0
    elements: int = 0
    groups: int = 1  # of programs, run one after another


@dataclass
class Execution:
    """One launch."""

    module: Module
    grid: tuple[int, int, int]
    memory: Memory
    observers: Sequence[Observer]
    limits: Limits
    result: Result = field(default_factory=Result)
    changes: int = 0  # of memory, and of what waiting loops carry
    interleaved: bool = False  # one program at a time, which may wait for others
    _findings: dict[tuple[str, tuple[str, int], int], Finding] = field(default_factory=dict)

    def count(self, block: Block, programs: int) -> None:
        """Count the operations of a block. Raises LimitExceeded."""
        result = self.result
        result.steps += len(block.ops)
        if result.steps > self.limits.steps:
            raise LimitExceeded("operations executed in a launch", self.limits.steps)
        if block.cost < 0:
            block.cost = sum(each.size for op in block.ops for each in op.types)
        result.elements += block.cost * programs
        if result.elements > self.limits.elements:
            raise LimitExceeded("elements computed in a launch", self.limits.elements)

    def tell(self, text: str) -> bool:
        """Add to the kernels' output. False when no more fits."""
        room = self.limits.printed - len(self.result.printed)
        if room <= 0:
            return False
        self.result.printed += text[:room]
        return len(text) < room

    def find(
        self,
        kind: str,
        op: Op,
        program: int,
        *,
        count: int = 1,
        address: int = 0,
        width: int = 0,
        other: Op | None = None,
    ) -> None:
        """Add `count` elements to the findings, the first of them of linear program `program`."""
        key = (kind, op.line, other.line[1] if other else 0)
        known = self._findings.get(key)
        if known is not None:
            known.count += count
            return
        if len(self._findings) >= MAX_FINDINGS:
            return
        buffer = self.memory.nearest(address) if width else None
        x, y = self.grid[:2]
        finding = Finding(
            kind,
            *op.line,
            self.module.entry.name,
            (program % x, program // x % y, program // (x * y)),
            count,
            address,
            width,
            buffer,
            address - buffer.address if buffer else 0,
            key[2],
        )
        self._findings[key] = finding
        self.result.findings.append(finding)


class Frame:
    """The values of one call of a function, by slot. `poison` has the partly undefined ones."""

    __slots__ = ("poison", "values")

    def __init__(self, function: Function) -> None:
        self.values: list[Any] = [None] * function.slots
        self.poison: dict[int, Poison] = {}

    def take(self, slots: Sequence[int]) -> list[tuple[Any, Poison | None]]:
        """The values of slots and their poison."""
        return [(self.values[slot], self.poison.get(slot)) for slot in slots]

    def put(self, slots: Sequence[int], pairs: Sequence[tuple[Any, Poison | None]]) -> None:
        """Set the values of slots and their poison."""
        for slot, (value, poison) in zip(slots, pairs, strict=True):
            self.values[slot] = value
            self.mark(slot, poison)

    def mark(self, slot: int, poison: Poison | None) -> None:
        """Set which elements of a slot's value are undefined, None: none of them."""
        if poison is not None:
            self.poison[slot] = poison
        elif self.poison:
            self.poison.pop(slot, None)


class State:
    """The programs that run together. `linear` are their numbers in the grid."""

    def __init__(self, execution: Execution, linear: np.ndarray) -> None:
        self.execution = execution
        self.linear = linear
        self.programs = len(linear)
        x, y, _ = execution.grid
        self.ids = [
            (linear % x).astype(np.int32),
            (linear // x % y).astype(np.int32),
            (linear // (x * y)).astype(np.int32),
        ]
        self.active: np.ndarray | None = None  # bool (programs,); None: all
        self.depth = 0  # of calls

    def active_as(self, rank: int) -> np.ndarray | None:
        """`active` with axes of length 1 for a block of `rank` dimensions."""
        if self.active is None:
            return None
        return self.active.reshape(-1, *(1,) * rank)
