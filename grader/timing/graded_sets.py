"""The sets of a stranger's worker: nothing it knows already, and every output it writes is graded.

What was worked out before the request misses what was patched. What is worked out after the answer
comes too late for the sample, most of which hangs on the patch; and a sample that differs from what
is there afterwards tells of it. Everything is judged, whole, from a copy taken after the clock has
stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch

from grader import inputs, oracle
from grader.arena import Outcome, Slot
from grader.cases import Case
from grader.compare import Verdict, judge
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.timing.screen import Screen
from grader.timing.sets import (
    OUTPUTS,
    PATCHED,
    SAMPLED,
    UNIT,
    Layout,
    Memory,
    Plan,
    Sets,
    elements,
    itemsize_of,
    strided,
    units,
)

AT_RANDOM = 4  # one place in so many doesn't hang on a patched input, as far as we know

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class GradedSets(Sets):
    """The buffers of a stranger: everything new for each run, and every output judged."""

    def __init__(
        self, memory: Memory, exercise: Exercise, variant: Variant, case: Case, count: int
    ) -> None:
        super().__init__(memory, Layout.of(exercise, variant, case), count)
        self._exercise, self._variant, self._case = exercise, variant, case
        self._oracle = oracle.load(exercise.oracle)
        self._tolerance = exercise.tolerance_of(variant)
        dtypes = [slot.dtype for slot, _ in self._outputs]
        self._screen = Screen(self._oracle, self._tolerance, dtypes)
        self._poison = torch.empty(
            self._layout.lengths[OUTPUTS], dtype=torch.uint8, device=memory.outputs.device
        )

    # --- before the clock starts ------------------------------------------------------------------

    def fill(self, first: int, count: int) -> None:
        """New inputs and poison for a run over `count` sets from `first` on, and its sample."""
        self._draw_poison()
        patched, patches, sampled = [], [], []
        for number in range(first, first + count):
            values = inputs.drawn(self._exercise, self._variant, self._case, self._random).tensors
            for slot, view in self._views(number, "input"):
                view.copy_(values[slot.name])
            self._set_bytes(OUTPUTS, number).copy_(self._poison)
            before = self._own(values)
            for slot, view in self._views(number, "input"):
                places, bits = self._patch_of(slot, view, values[slot.name])
                patched.append(places)
                patches.append(bits)
            # Of each set as many, whatever the run: the rest of the sample is only read, so that
            # a long run's costs what a short one's does.
            share = max(1, SAMPLED // self.count)
            sampled.append(self._sample_of(number, before, self._own(values), share))
        judged = torch.cat(sampled)
        elsewhere = self._some(self._memory.outputs.numel() // UNIT.itemsize, SAMPLED - len(judged))
        self._plan = Plan(
            first,
            count,
            torch.cat(patched),
            torch.cat(patches),
            torch.cat([judged, elsewhere]),
            len(judged),
        )

    def _draw_poison(self) -> None:
        """Random bits around the outputs, and inside what no kernel computes: see arena.py."""
        words = self._poison.view(torch.int64)
        words.random_(generator=self._random)
        # random_ leaves the sign of 64-bit words alone.
        words.bitwise_xor_(words << 7)
        for slot, offset in self._outputs:
            dtype = getattr(torch, slot.dtype)
            bits = strided(self._poison, slot, offset).view(BITS[dtype.itemsize])
            if dtype.is_floating_point:
                infinity = torch.tensor(float("inf"), dtype=dtype).view(bits.dtype)
                bits.bitwise_or_(int(infinity)).bitwise_or_(1)
            elif dtype is torch.bool:
                bits.bitwise_or_(2)

    def _own(self, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        """torch's results, none of which lies in what it was given."""
        given = {each.untyped_storage().data_ptr() for each in values.values()}
        return [
            each.clone() if each.untyped_storage().data_ptr() in given else each
            for each in self._oracle.own(values, self._layout.inputs.scalars)
        ]

    def _patch_of(
        self, slot: Slot, view: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Units of the input buffer and their new bits; `values` gets them at once.

        Where an element is a single byte, nothing is patched.
        """
        itemsize = values.dtype.itemsize
        device = values.device
        if itemsize == 1 or not values.dtype.is_floating_point:
            nothing = torch.empty(0, dtype=torch.int64, device=device)
            return nothing, nothing.to(UNIT)
        # One of each of so many stretches, from a random place on: they are different ones, which
        # nobody has to wait for the device to say.
        size = values.numel()
        count = min(PATCHED, size)
        stretch = size // count
        places = torch.arange(count, device=device) * stretch + self._some(stretch, count)
        places = (places + self._some(size, 1)) % size
        fresh = inputs.draw((count,), slot.dtype, "normal", self._random)
        # Of the size that the values have, so that a difference is neither lost nor infinite.
        scale = values.view(-1)[places].double().abs().clamp_min(1e-6)
        new = (fresh.double().sign() * scale * (1.5 + fresh.double().abs())).to(values.dtype)
        values.view(-1)[places] = new
        first = elements(places, slot) + view.storage_offset()
        per_element = itemsize // UNIT.itemsize
        spread = torch.arange(per_element, device=device)
        units = (first[:, None] * per_element + spread).flatten()
        return units, new.view(UNIT)

    def _sample_of(
        self, number: int, before: list[torch.Tensor], after: list[torch.Tensor], count: int
    ) -> torch.Tensor:
        """Units of the output buffer: most of elements that the patch changes, in torch's eyes."""
        found = []
        slots = list(self._views(number, "output"))
        for (slot, view), old, new in zip(slots, before, after, strict=True):
            share = max(1, count // len(slots))
            differ = (old != new).flatten().nonzero()[:, 0]
            chosen = self._some(len(differ), share - share // AT_RANDOM if len(differ) else 0)
            chosen = differ[chosen]
            others = self._some(old.numel(), share - len(chosen))
            places = torch.cat([chosen, others])
            itemsize = itemsize_of(slot)
            first = (elements(places, slot) + view.storage_offset()) * itemsize
            found.append(first // UNIT.itemsize)
        return torch.cat(found)

    # --- after it ---------------------------------------------------------------------------------

    def judge(self, sample: torch.Tensor) -> Verdict:
        """The verdict on every output of the run, and on whether it was there in time."""
        plan = self._plan
        start = plan.first * self._layout.lengths[1]
        length = plan.count * self._layout.lengths[1]
        copy = self._memory.outputs[start : start + length].clone()
        # Of the sample the copy has the same places, from its own start on.
        places = plan.sampled[: plan.own] - start // UNIT.itemsize
        now = units(copy).index_select(0, places).cpu()
        in_time = bool((now == sample[: plan.own]).all())
        for index in range(plan.count):
            mine = copy[index * self._layout.lengths[1] :][: self._layout.lengths[1]]
            verdict = self._judge_set(self._inputs_of(plan.first + index), mine)
            if not verdict.passed:
                return replace(verdict, what=f"in a timed call: {verdict.what}")
        if not in_time:
            return Verdict(
                Status.not_written,
                "a timed call was answered before its outputs were there: "
                "they changed after the clock had stopped.",
            )
        return Verdict(Status.passed)

    def _judge_set(self, values: dict[str, torch.Tensor], after: torch.Tensor) -> Verdict:
        """The verdict on one set: its inputs, and the copy of its part of the outputs' buffer."""
        scalars = self._layout.inputs.scalars
        outputs = [strided(after, slot, offset) for slot, offset in self._outputs]
        if self._is_untouched_beside(after) and self._screen.passes(values, scalars, outputs):
            return Verdict(Status.passed)
        truths = self._oracle.truths(values, scalars, self._tolerance.magnitude)
        self._screen.learn(values, scalars, truths)
        return judge(list(self._outcomes(after)), truths, self._tolerance)

    def _is_untouched_beside(self, after: torch.Tensor) -> bool:
        """Whether what lies around the outputs is as it was; False where that takes longer."""
        end = 0
        for slot, offset in self._outputs:
            if not _is_dense(slot):
                return False
            if not after[end:offset].equal(self._poison[end:offset]):
                return False
            end = offset + slot.extent * itemsize_of(slot)
        return after[end:].equal(self._poison[end:])

    def _inputs_of(self, number: int) -> dict[str, torch.Tensor]:
        return {slot.name: view.contiguous() for slot, view in self._views(number, "input")}

    def _outcomes(self, after: torch.Tensor) -> Iterator[Outcome]:
        """The outputs of a set in the copy. What lies around them counts as the last one's."""
        changed = after != self._poison
        outputs = self._outputs
        around = changed.clone()
        for slot, offset in outputs:
            inside = strided(around.view(torch.uint8), slot, offset, as_bytes=True)
            inside.zero_()
        outside = int(around.count_nonzero())
        for number, (slot, offset) in enumerate(outputs):
            itemsize = itemsize_of(slot)
            bits = BITS[itemsize]
            now = strided(after, slot, offset)
            unwritten = now.view(bits) == strided(self._poison, slot, offset).view(bits)
            places: tuple[int, ...] = ()
            count = outside if number == len(outputs) - 1 else 0
            if count:
                places = tuple(
                    ((around.nonzero()[:1024, 0] - offset) // itemsize).unique().tolist()
                )
            yield Outcome(
                slot,
                now.clone(memory_format=torch.contiguous_format),
                unwritten,
                places,
                -(-count // itemsize),
                bool((~unwritten).any()),
            )

    @property
    def _outputs(self) -> list[tuple[Slot, int]]:
        every = zip(self._slots, self._layout.offsets, strict=True)
        return [(slot, offset) for slot, offset in every if slot.role == "output"]


def _is_dense(slot: Slot) -> bool:
    """Whether the slot's tensor has no gaps between its elements."""
    return slot.extent == math.prod(slot.shape)
