"""The sets of a stranger's worker: nothing it knows already, and every output it writes is graded.

What was worked out before the request misses what was patched. What is worked out after the answer
comes too late for the sample, most of which hangs on the patch; and a sample that differs from what
is there afterwards tells of it. Everything is judged, whole, from a copy taken after the clock has
stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from grader import inputs, oracle
from grader.arena import Outcome, Slot
from grader.cases import Case
from grader.compare import Verdict, judge
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.timing.screen import Screen
from grader.timing.sets import (
    INPUTS,
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


@dataclass(frozen=True)
class _Patches:
    """What is to change in an input of the sets of a run."""

    places: torch.Tensor  # int64 (sets, n): flat indices into the contiguous tensor
    factors: torch.Tensor  # float64 (sets, n): the new value, in units of the old one's size
    units: torch.Tensor  # int64, flat: of the input buffer, in the order of `places`

    def apply(self, values: torch.Tensor, index: int) -> torch.Tensor:
        """Change the values of set `index`, contiguous; the new bits in the order of `units`."""
        places, flat = self.places[index], values.view(-1)
        # Of the size that the values have, so that a difference is neither lost nor infinite.
        scale = flat[places].double().abs_().clamp_min_(1e-6)
        new = scale.mul_(self.factors[index]).to(values.dtype)
        flat[places] = new
        return new.view(UNIT)


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
        # What is small is done for all sets at once: a launch costs more than its work here.
        patches = [
            self._draw_patches(slot, view, count) for slot, view in self._views(first, "input")
        ]
        patched: list[list[torch.Tensor]] = [[] for _ in patches]
        sampled: list[list[torch.Tensor]] = [[] for _ in self._outputs]
        # Of each set as many, whatever the run: the rest of the sample is only read, so that
        # a long run's costs what a short one's does.
        share = max(1, SAMPLED // self.count // len(self._outputs))
        for index in range(count):
            number = first + index
            values = inputs.drawn(self._exercise, self._variant, self._case, self._random).tensors
            for slot, view in self._views(number, "input"):
                view.copy_(values[slot.name])
            self._set_bytes(OUTPUTS, number).copy_(self._poison)
            before = self._own(values)
            for (slot, _), each, new in zip(
                self._views(number, "input"), patches, patched, strict=True
            ):
                new.append(each.apply(values[slot.name], index))
            for old, new, places in zip(before, self._own(values), sampled, strict=True):
                places.append(self._sample_of(old, new, share))
        judged = torch.cat(
            [
                self._first_units(slot, view, torch.stack(places)).flatten()
                for (slot, view), places in zip(self._views(first, "output"), sampled, strict=True)
            ]
        )
        elsewhere = self._some(self._memory.outputs.numel() // UNIT.itemsize, SAMPLED - len(judged))
        self._plan = Plan(
            first,
            count,
            torch.cat([each.units for each in patches]),
            torch.cat([bits for new in patched for bits in new]),
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

    def _draw_patches(self, slot: Slot, view: torch.Tensor, count: int) -> _Patches:
        """What is to change in a slot of `count` sets; `view` is its tensor in the first of them.

        Where an element is a single byte, nothing is.
        """
        dtype, device = view.dtype, view.device
        if dtype.itemsize == 1 or not dtype.is_floating_point:
            nothing = torch.empty((count, 0), dtype=torch.int64, device=device)
            return _Patches(nothing, nothing.double(), nothing.flatten())
        # One of each of so many stretches, from a random place on: they are different ones, which
        # nobody has to wait for the device to say.
        size = view.numel()
        number = min(PATCHED, size)
        stretch = size // number
        places = torch.arange(number, device=device) * stretch
        places = places + self._some(stretch, count, number) + self._some(size, count, 1)
        places %= size
        fresh = inputs.draw((count, number), slot.dtype, "normal", self._random).double()
        per_element = dtype.itemsize // UNIT.itemsize
        spread = torch.arange(per_element, device=device)
        units = self._first_units(slot, view, places)[..., None] + spread
        return _Patches(places, torch.copysign(fresh.abs() + 1.5, fresh), units.flatten())

    def _sample_of(self, before: torch.Tensor, after: torch.Tensor, count: int) -> torch.Tensor:
        """So many flat indices into an output of a set: most of elements that the patch changes,
        in torch's eyes."""
        differ = (before != after).flatten().nonzero()[:, 0]
        chosen = self._some(len(differ), count - count // AT_RANDOM if len(differ) else 0)
        return torch.cat([differ[chosen], self._some(before.numel(), count - len(chosen))])

    def _first_units(self, slot: Slot, view: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Of elements of sets, the units of the buffer at which they begin.

        `places` are flat indices into the slot's tensor, shape (sets, any); `view` is that tensor
        in the first of the sets.
        """
        buffer = INPUTS if slot.role == "input" else OUTPUTS
        length = self._layout.lengths[buffer] // view.dtype.itemsize
        starts = torch.arange(len(places), device=places.device)[:, None] * length
        first = elements(places, slot) + (starts + view.storage_offset())
        return first * view.dtype.itemsize // UNIT.itemsize

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
