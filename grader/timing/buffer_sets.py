"""Buffer sets of a timed worker: the inputs and outputs of each call.

    sets.fill(order)     before a replay: draw the inputs of these sets and prepare their outputs
    sets.judge(order)    after it, with judge_decoys(others)

The tensors may be on the CPU or on a GPU. This process does the work, with torch.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from grader.cases import Case, inputs, oracle
from grader.cases.arena import INPUTS, OUTPUTS, Outcome, Slot, bits_of, make_poison, strided
from grader.cases.compare import Verdict, judge
from grader.cases.inputs import Inputs
from grader.sandbox.memfd import SharedBuffers
from grader.spec.task import Task
from grader.status import Status
from grader.timing.fast_path import FastPath, Run
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


class GradedBufferSets(BufferSets):
    """The buffers of an untrusted worker, prepared anew for each replay and judged in full.

    Before a replay, each input is drawn anew and each output filled with random poison. So results
    kept from an earlier call are useless. After it, all outputs are judged from one copy.
    """

    def __init__(self, memory: SharedBuffers, task: Task, case: Case, count: int) -> None:
        super().__init__(memory, Layout.of(task, case), count)
        self._task, self._case = task, case
        self._oracle = oracle.of(task.exercise)
        self._tolerance = task.tolerance
        dtypes = [slot.dtype for slot, _ in self._outputs]
        self._fast_path = FastPath(self._oracle, self._tolerance, dtypes)
        self._poison = torch.empty(
            self._layout.lengths[OUTPUTS], dtype=torch.uint8, device=memory.outputs.device
        )

    # --- before a replay --------------------------------------------------------------------------

    def fill(self, order: Sequence[int]) -> None:
        """Draw inputs and poison for these sets, and wait until they are ready."""
        self._draw_poison()
        for number in order:
            values = inputs.drawn(self._task, self._case, self._random).tensors
            for slot, view in self._views(number, "input"):
                view.copy_(values[slot.name])
            self._set_bytes(OUTPUTS, number).copy_(self._poison)
        synchronise(self._memory.outputs)

    def _draw_poison(self) -> None:
        """Draw random bits around the outputs, and into outputs' gaps: see arena.py."""
        words = self._poison.view(torch.int64)
        words.random_(generator=self._random)
        # random_ leaves the sign of 64-bit words unset.
        words.bitwise_xor_(words << 7)
        for slot, offset in self._outputs:
            make_poison(bits_of(self._poison, slot, offset), slot.kind)

    # --- after it ---------------------------------------------------------------------------------

    def judge(self, order: Sequence[int]) -> Verdict:
        """The verdict on every output of the replay: that of the first wrong one."""
        # The last call comes first: its outputs are missing if a replay was reported too early.
        copies = {number: self._set_bytes(OUTPUTS, number).clone() for number in reversed(order)}
        left = list(order)
        if not self._fast_path.has_learnt:
            first, *left = left
            verdict = self._judge_set(first, copies[first])
            if not verdict.passed:
                return verdict
        for number in self._unconfirmed(left, copies):
            verdict = self._judge_set(number, copies[number])
            if not verdict.passed:
                return verdict
        return Verdict(Status.passed)

    def judge_decoys(self, numbers: Sequence[int]) -> Verdict:
        """Whether the outputs of these sets, which no call used, are unchanged."""
        poison = self._poison.view(torch.int64)  # fewer elements to compare
        if all(self._set_bytes(OUTPUTS, each).view(torch.int64).equal(poison) for each in numbers):
            return Verdict(Status.passed)
        message = (
            "in a timed call: the output of another call was written, and that was never made."
        )
        return Verdict(Status.wrote_out_of_bounds, message)

    def _unconfirmed(self, order: Sequence[int], copies: Mapping[int, torch.Tensor]) -> list[int]:
        """The sets of which the fast path doesn't say that all outputs are right."""
        if not order or not all(_is_dense(slot) for slot, _ in self._outputs):
            return list(order)
        runs = [Run(self._inputs_of(each), self._views_of(copies[each])) for each in order]
        confirmed = self._fast_path.confirmed(runs, self._layout.inputs.numbers)
        untouched = self._are_untouched_around([copies[each] for each in order])
        both = zip(order, confirmed, untouched, strict=True)
        return [number for number, is_right, is_clean in both if not (is_right and is_clean)]

    def _judge_set(self, number: int, after: torch.Tensor) -> Verdict:
        """The verdict on one set in float64; `after` is the copy of its part of the outputs."""
        values, numbers = self._inputs_of(number), self._layout.inputs.numbers
        magnitude = self._tolerance.magnitude_of([slot.name for slot, _ in self._outputs])
        truths = self._oracle.truths(values, numbers, magnitude)
        self._fast_path.learn(values, numbers, truths)
        checker = self._oracle.checker(values, numbers)
        verdict = judge(list(self._outcomes(after)), truths, self._tolerance, checker)
        if verdict.passed:
            return verdict
        return replace(verdict, what=f"in a timed call: {verdict.what}")

    def _are_untouched_around(self, copies: Sequence[torch.Tensor]) -> list[bool]:
        """Whether the bytes around the outputs of each set are unchanged; outputs have no gaps."""
        ends = [0, *(offset + slot.extent * slot.itemsize for slot, offset in self._outputs)]
        starts = [*(offset for _, offset in self._outputs), len(self._poison)]
        around = [slice(end, start) for end, start in zip(ends, starts, strict=True)]
        before = torch.cat([self._poison[each] for each in around])
        after = torch.stack([torch.cat([copy[each] for each in around]) for copy in copies])
        return (after == before).all(dim=1).tolist()

    def _views_of(self, after: torch.Tensor) -> list[torch.Tensor]:
        """The outputs in a copy of a set's part of the output buffer."""
        return [strided(after, slot, offset) for slot, offset in self._outputs]

    def _inputs_of(self, number: int) -> dict[str, torch.Tensor]:
        return {slot.name: view.contiguous() for slot, view in self._views(number, "input")}

    def _outcomes(self, after: torch.Tensor) -> Iterator[Outcome]:
        """The set's outputs in the copy. Damage around them counts for the last one."""
        outputs, restored = self._outputs, after.clone()
        for slot, offset in outputs:
            bits_of(restored, slot, offset).copy_(bits_of(self._poison, slot, offset))
        around = (restored != self._poison).nonzero()[:, 0]
        for number, (slot, offset) in enumerate(outputs):
            unwritten = bits_of(after, slot, offset) == bits_of(self._poison, slot, offset)
            places = around if number == len(outputs) - 1 else around[:0]
            yield Outcome(
                slot,
                strided(after, slot, offset).clone(memory_format=torch.contiguous_format),
                unwritten,
                tuple(dict.fromkeys(((places[:1024] - offset) // slot.itemsize).tolist())),
                -(-len(places) // slot.itemsize),
                bool((~unwritten).any()),
            )

    @property
    def _outputs(self) -> list[tuple[Slot, int]]:
        every = zip(self._layout.inputs.slots, self._layout.offsets, strict=True)
        return [(slot, offset) for slot, offset in every if slot.role == "output"]


def _is_dense(slot: Slot) -> bool:
    """Whether the slot's tensor has no gaps between its elements."""
    return slot.extent == math.prod(slot.shape)
