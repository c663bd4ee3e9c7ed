"""The interface of observers of launches, accesses and sizes of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .executor import Launch
    from .ir import Op


@dataclass(slots=True)
class Access:
    """One operation's access to memory by the programs of a chunk.

    `addresses`, `active` and `stored` may have axes of length 1 for equal elements; `full` expands
    the addresses to (programs, *block). Row i belongs to program `programs[i]`.
    """

    op: Op
    kind: str  # "load", "store" or "atomic"
    width: int  # bytes of an element
    addresses: np.ndarray  # int64
    active: np.ndarray | None  # bool of shape (programs, *block); None: every element
    programs: np.ndarray  # int64, linear program numbers
    stored: np.ndarray | None = None  # the bits that a store writes, unsigned, (programs, *block)
    block: tuple[int, ...] = ()
    may_race: bool = True  # false: a load of memory that nothing writes

    def full(self) -> np.ndarray:
        """The addresses of all elements of all programs, as a read-only view."""
        return np.broadcast_to(self.addresses, (len(self.programs), *self.block))


class Observer:
    """Receives the events of a launch. Methods that aren't overridden do nothing."""

    def begin(self, launch: Launch) -> None:
        """A launch begins."""

    def access(self, access: Access) -> None:
        """The programs of a chunk access memory."""

    def meet(self, programs: np.ndarray) -> None:
        """The warps of each of these programs pass a barrier, or may have to."""

    def value(self, op: Op, size: int) -> None:
        """A block of `size` elements is made."""

    def end(self) -> None:
        """The launch has ended."""
