"""What an executor of TTIR is asked to do: the steps of one call of a plan, and the kernels in it.

The worker's side is worker/ttir/plans.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pydantic

from grader.executors.compile.warp_layouts import Layouts
from grader.executors.program_orders import Order
from grader.executors.triton import configurations
from grader.plan import Buffer, Plan, Step, reorder


@dataclass(frozen=True)
class Manner:
    """How a plan is executed: which call of it, what is observed, and what of it is done.

    With `counts` accesses are counted, `wave` programs at a time, 0 where that doesn't matter; with
    `races` races between programs are reported. `reordered`: in another order that the plan's
    streams allow; `order`: some kernels' programs in another one than first to last. With
    `in_ieee` tl.dot rounds no float32 input to TF32, whatever the kernel says. For `without` and
    `configuration` see configurations.steps.
    """

    call: int = 0
    counts: bool = False
    wave: int = 0
    races: bool = True
    without: frozenset[int] = frozenset()
    configuration: int | None = None
    reordered: bool = False
    in_ieee: bool = False
    order: Order | None = None

    def steps(self, plan: Plan, passed_over: Collection[str] = ()) -> tuple[Step, ...]:
        """The steps of a plan that are done."""
        steps = configurations.steps(plan, self.call, self.configuration, self.without, passed_over)
        return reorder(steps, memory_waits=False) if self.reordered else steps


@dataclass(frozen=True)
class Execution:
    """One request to an executor, as it goes there in JSON."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    kernels: dict[int, str]  # names, by the number of the specialisation
    ttir: Mapping[str, str]  # by name, of those that the executor hasn't met
    layouts: Mapping[int, Layouts]  # of the compiled kernels, as far as they're known, by number
    seed: int  # draws where buffers lie
    again: bool = False  # in the memory that the execution before this one has left behind
    count: bool = False
    wave: int = 0
    races: bool = True
    order: Order | None = None

    def to_json(self) -> bytes:
        """The request as a document."""
        return _EXECUTION.dump_json(self, by_alias=True)


_EXECUTION = pydantic.TypeAdapter(Execution)
