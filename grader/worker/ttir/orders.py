"""Orders in which programs run, and launches whose result may depend on the order.

A GPU runs programs in any order. In order from first to last, a kernel may be right by chance, for
example if each program uses an atomic's result of the one before it, or if the last exchange wins.
The search for races accepts this, since atomics order the accesses. So such launches are run again
in a drawn order and in its reverse, so that each of two programs comes first once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .ir import first_word
from .observer import Observer

if TYPE_CHECKING:
    from .executor import Launch
    from .observer import Access
    from .state import Result

# Programs that a GPU certainly runs at the same time. A shuffled order looks no further among
# waiting programs: a program may wait for all that a GPU has started before it.
WINDOW = 32
# With these, and an unused result, each order leaves the same memory.
_COMMUTING = ("add", "fadd", "and", "or", "xor", "max", "min", "umax", "umin", "fmax", "fmin")


MOST_SAMPLED = 5


def sampled(count: int) -> np.ndarray:
    """The numbers of a few of `count` programs: the first, the last, and some in between."""
    places = {(count - 1) * place // (MOST_SAMPLED - 1) for place in range(MOST_SAMPLED)}
    return np.array(sorted(places) if count else [], np.int64)


@dataclass(frozen=True)
class Order:
    """A shuffled order of programs, or its reverse.

    Programs run in `groups` groups, each in step. `steps` bounds the executed operations. The order
    is that of the kernels with these numbers.
    """

    seed: int
    backwards: bool
    groups: int
    steps: int
    kernels: Sequence[int] = ()

    def programs(self, count: int) -> np.ndarray:
        """The numbers of all programs in this order."""
        drawn = np.random.default_rng(self.seed).permutation(count).astype(np.int64)
        return drawn[::-1].copy() if self.backwards else drawn

    def waiting_programs(self, count: int) -> np.ndarray:
        """The `programs`, window after window."""
        return np.concatenate(
            [first + self.programs(min(WINDOW, count - first)) for first in range(0, count, WINDOW)]
            or [np.empty(0, np.int64)]
        )

    def chunk(self, count: int) -> int:
        """The size of a group."""
        return max(1, -(-count // self.groups))


class Atomics(Observer):
    """Finds launches in which several programs use atomics whose order may matter.

    It doesn't matter where all of them are of one kind that commutes and their results are unused.
    """

    def __init__(self) -> None:
        self._noted: dict[int, dict[str, int]] = {}
        self._forget()

    def _forget(self) -> None:
        self._line = 0  # of the first atomic whose order may matter
        self._commuting: dict[str, int] = {}  # lines, by kind
        self._first = -1  # program
        self._several = False

    def begin(self, launch: Launch) -> None:
        self._forget()

    def access(self, access: Access) -> None:
        """Check an access of a chunk's programs to a block each.

        A volatile load of what kernels may write orders programs as an atomic load does.
        """
        volatile = access.may_race and access.op.attributes.get("isVolatile")
        if access.kind != "atomic" and not volatile:
            return
        programs = access.programs
        if access.active is not None:
            shape = (len(programs), -1)
            programs = programs[access.active.reshape(shape).any(axis=1)]
        if not len(programs):
            return
        self._first = int(programs[0]) if self._first < 0 else self._first
        self._several = self._several or bool((programs != self._first).any())
        how = first_word(access.op)
        if how in _COMMUTING and not access.op.used:
            self._commuting.setdefault(how, access.op.line[1])
        elif not self._line:
            self._line = access.op.line[1]

    def launched(self, kernel: int, programs: int, result: Result) -> None:
        """End a launch of a kernel, given by its number."""
        line = self._line or (min(self._commuting.values()) if len(self._commuting) > 1 else 0)
        if not line or not self._several:
            return
        noted = self._noted.setdefault(
            kernel, {"line": line, "programs": 0, "steps": 0, "group_steps": 0}
        )
        noted["programs"] = max(noted["programs"], programs)
        noted["steps"] += result.steps
        noted["group_steps"] += -(-result.steps // max(1, result.groups))

    def report(self) -> list[dict[str, int]]:
        """The kernels in question, as JSON: fields of executors/program_orders.py's Atomics.

        `steps` are the operations of all launches, `group_steps` those of a group of programs.
        """
        return [{"kernel": number, **noted} for number, noted in self._noted.items()]
