"""The buffer sets of a submission's worker, prepared anew for each replay and judged in full.

Before a replay, each input is drawn anew and each output filled with random poison. So results kept
from an earlier call are useless. After it, all outputs are judged from one copy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from grader.cases import Case, inputs, oracle
from grader.cases.arena import OUTPUTS, Outcome, Slot, bits_of, make_poison, strided
from grader.cases.compare import Verdict, judge
from grader.sandbox.memfd import SharedBuffers
from grader.spec.task import Task
from grader.status import Status
from grader.timing.buffer_sets import BufferSets, Layout, synchronise
from grader.timing.fast_path import FastPath


class GradedBufferSets(BufferSets):
    """The buffers of an untrusted worker."""

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
        for number in order:
            verdict = self._judge_set(self._inputs_of(number), copies[number])
            if not verdict.passed:
                return replace(verdict, what=f"in a timed call: {verdict.what}")
        return Verdict(Status.passed)

    def judge_decoys(self, numbers: Sequence[int]) -> Verdict:
        """Whether the outputs of these sets, which no call used, are unchanged."""
        if all(self._set_bytes(OUTPUTS, each).equal(self._poison) for each in numbers):
            return Verdict(Status.passed)
        message = (
            "in a timed call: the output of another call was written, and that was never made."
        )
        return Verdict(Status.wrote_out_of_bounds, message)

    def _judge_set(self, values: dict[str, torch.Tensor], after: torch.Tensor) -> Verdict:
        """The verdict on one set; `after` is the copy of its part of the output buffer."""
        numbers = self._layout.inputs.numbers
        outputs = [strided(after, slot, offset) for slot, offset in self._outputs]
        if self._is_untouched_around(after) and self._fast_path.passes(values, numbers, outputs):
            return Verdict(Status.passed)
        magnitude = self._tolerance.magnitude_of([slot.name for slot, _ in self._outputs])
        truths = self._oracle.truths(values, numbers, magnitude)
        self._fast_path.learn(values, numbers, truths)
        checker = self._oracle.checker(values, numbers)
        return judge(list(self._outcomes(after)), truths, self._tolerance, checker)

    def _is_untouched_around(self, after: torch.Tensor) -> bool:
        """Whether the bytes around the outputs are unchanged; False where that is undecided."""
        end = 0
        for slot, offset in self._outputs:
            if not _is_dense(slot):
                return False
            if not after[end:offset].equal(self._poison[end:offset]):
                return False
            end = offset + slot.extent * slot.itemsize
        return after[end:].equal(self._poison[end:])

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
