"""Parsed TTIR: modules of functions of blocks of operations.

Values have numbers ("slots") that are unique in their function, instead of names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

UNKNOWN = ("", 0)  # a place that isn't known


@dataclass(frozen=True, slots=True)
class Type:
    """A type: the shape of a block, () for scalars, and the kind of its elements.

    Kinds are "f32", "i1", ..., "ptr<KIND>", and of whole blocks "desc<KIND>" (a tensor descriptor)
    and "block_ptr<KIND>".
    """

    shape: tuple[int, ...]
    kind: str

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def pointee(self) -> str:
        """The kind of elements that a pointer or a descriptor points to."""
        start = self.kind.index("<")
        return self.kind[start + 1 : -1]

    def __str__(self) -> str:
        if self.kind.startswith("desc<"):
            return f"tensordesc<{self.pointee}[{', '.join(map(str, self.shape))}]>"
        if not self.shape:
            return self.kind
        return "x".join(map(str, self.shape)) + f"x{self.kind}"


@dataclass(slots=True)
class Op:
    """One operation. `text` is the part between its name and its types."""

    name: str
    operands: list[int]
    results: list[int]
    operand_types: list[Type]
    types: list[Type]  # of the results
    text: str
    attributes: dict[str, Any]
    line: tuple[str, int] = UNKNOWN
    regions: list[list[Block]] = field(default_factory=list)
    successors: list[tuple[int, list[int]]] = field(default_factory=list)  # block, values given
    used: bool = True  # whether anything uses a result
    run: Callable[..., Any] | None = None  # set at the first execution
    runs_programs_apart: bool = False  # `run` makes a generator
    dead: list[int] = field(default_factory=list)  # slots that nothing needs afterwards


@dataclass(slots=True)
class Block:
    """Operations without branches between them; `arguments` are the slots of its parameters."""

    label: str
    arguments: list[int]
    types: list[Type]
    ops: list[Op] = field(default_factory=list)
    cost: int = -1  # elements that its operations make for one program; -1: not yet known


@dataclass(slots=True)
class Function:
    """A function; the parameters are the first block's."""

    name: str
    parameters: list[Type]
    arguments: list[int]
    blocks: list[Block]
    slots: int
    public: bool = False


@dataclass(slots=True)
class Module:
    """All functions of one text. `entry` is the kernel."""

    functions: dict[str, Function]
    entry: Function
    facts: Any = None  # cached by the executor


def first_word(op: Op) -> str:
    """The word before the first comma: `fadd` of `tt.atomic_rmw fadd, acq_rel, gpu, %0, ...`."""
    return op.text.partition(",")[0].strip()


def walk(blocks: list[Block]) -> list[Op]:
    """All operations of blocks and of the regions in them."""
    ops: list[Op] = []
    pending = list(blocks)
    while pending:
        for op in pending.pop().ops:
            ops.append(op)
            for region in op.regions:
                pending.extend(region)
    return ops
