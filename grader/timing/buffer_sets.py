"""Buffer sets of a timed worker: the inputs and outputs of each call.

    sets.fill(order)     before a replay: draw the inputs of these sets and prepare their outputs
    sets.judge(order)    after it, with judge_decoys(others)

The tensors may be on the CPU or on a GPU. This process does the work, with torch.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from grader.cases import Case, inputs
from grader.cases.arena import INPUTS, OUTPUTS, Slot, strided
from grader.cases.compare import Verdict
from grader.cases.inputs import Inputs
from grader.sandbox.memfd import SharedBuffers
from grader.spec.task import Task
from grader.status import Status
from grader.worker.protocol import Argument

ALIGNMENT = 256  # bytes: what cudaMalloc gives
GUARD_BYTES = 4096  # on both sides of an output


@dataclass(frozen=True)
class Layout:
    """Where the tensors of one set lie: byte offsets from its start in each of the two buffers."""

    inputs: Inputs
    offsets: tuple[int, ...]  # one for each slot, of its first element
    lengths: tuple[int, int]  # bytes of a set, in each buffer
    # Of inputs; None: standard normal.
    draw: Callable[[torch.Generator], Inputs] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, task: Task, case: Case) -> Layout:
        """The layout of a case. Raises ValueError where an argument can't be timed."""
        layout = cls.of_inputs(inputs.blank(task, case))
        return replace(layout, draw=partial(inputs.drawn, task, case))

    @classmethod
    def of_inputs(cls, blank: Inputs) -> Layout:
        """The layout of what a call takes. Raises ValueError where an argument can't be timed."""
        ends = [0, GUARD_BYTES]
        offsets = []
        for slot in blank.slots:
            if slot.role == "inout" or slot.space == "host":
                raise ValueError(f"{slot.name}: an argument that is {_kind(slot)} can't be timed")
            buffer = INPUTS if slot.role == "input" else OUTPUTS
            offsets.append(ends[buffer] + slot.first * slot.itemsize)
            after = offsets[-1] + slot.extent * slot.itemsize
            ends[buffer] = -(-(after + buffer * GUARD_BYTES) // ALIGNMENT) * ALIGNMENT
        return cls(blank, tuple(offsets), (max(ends[0], ALIGNMENT), ends[1]))

    def bytes(self, count: int) -> tuple[int, int]:
        """Sizes in bytes of the two buffers for so many sets."""
        return self.lengths[0] * count, self.lengths[1] * count

    def arguments(self, number: int) -> list[Argument]:
        """One buffer set as arguments of a worker or a planner."""
        placed = []
        for slot, offset in zip(self.inputs.slots, self.offsets, strict=True):
            buffer = INPUTS if slot.role == "input" else OUTPUTS
            length = self.lengths[buffer]
            start = number * length
            placed.append(slot.argument(buffer, start + offset, (start, length)))
        return self.inputs.arguments(placed)


class BufferSets:
    """The grader's view of a trusted worker's buffers.

    Inputs are drawn once, and outputs aren't judged. `memory` holds `layout.bytes(count)`.
    """

    def __init__(self, memory: SharedBuffers, layout: Layout, count: int) -> None:
        self.count = count
        self._layout = layout
        self._memory = memory
        self._random = torch.Generator(device=memory.inputs.device)
        self._random.manual_seed(secrets.randbits(63))
        self._is_filled = False

    def arguments(self, number: int) -> list[Argument]:
        """One buffer set as the worker's arguments."""
        return self._layout.arguments(number)

    def fill(self, order: Sequence[int]) -> None:
        """Prepare these sets for a replay, and wait until they are ready."""
        if self._is_filled:
            return
        for number in range(self.count):
            drawn = self._layout.draw(self._random).tensors if self._layout.draw else {}
            for slot, view in self._views(number, "input"):
                values = drawn.get(slot.name)
                view.copy_(inputs.usual(slot, self._random) if values is None else values)
        self._is_filled = True
        synchronise(self._memory.inputs)

    def judge(self, order: Sequence[int]) -> Verdict:
        """Passed: outputs of a trusted worker aren't judged."""
        return Verdict(Status.passed)

    def judge_decoys(self, numbers: Sequence[int]) -> Verdict:
        """Passed: outputs of a trusted worker aren't judged."""
        return Verdict(Status.passed)

    # --- where things are -------------------------------------------------------------------------

    def _set_bytes(self, buffer: int, number: int) -> torch.Tensor:
        memory = (self._memory.inputs, self._memory.outputs)[buffer]
        length = self._layout.lengths[buffer]
        return memory[number * length : (number + 1) * length]

    def _views(self, number: int, role: str) -> Iterator[tuple[Slot, torch.Tensor]]:
        """The tensors of a set, over the shared buffers."""
        buffer = INPUTS if role == "input" else OUTPUTS
        for slot, offset in zip(self._layout.inputs.slots, self._layout.offsets, strict=True):
            if slot.role == role:
                yield slot, strided(self._set_bytes(buffer, number), slot, offset)


def _kind(slot: Slot) -> str:
    return "read and written" if slot.role == "inout" else "in host memory"


def synchronise(tensor: torch.Tensor) -> None:
    """Wait until a tensor's device has finished this process's work."""
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def buffer_sets_that_fit(layout: Layout, free_bytes: int, wanted: Sequence[int]) -> int:
    """The first of the wanted numbers of sets whose buffers fit, or 0."""
    return next((n for n in wanted if sum(layout.bytes(n)) <= free_bytes), 0)
