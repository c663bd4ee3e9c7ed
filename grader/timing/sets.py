"""What a timed worker computes on: for each call inputs and outputs of its own, new for each run.

    sets.fill(first, count)     inputs from a secret seed, outputs poisoned; before the clock starts
    sets.patch()                the last thing before it: some inputs change once more
    sets.read_sample()          the last thing under it: some outputs, most of which hang on those
    sets.judge(sample)          after it: every output, whole, from a copy

Nothing is computed twice, so nothing can be kept from the call before: not in the L2 cache, not by
address, not by content. What was worked out before the request misses what was patched; what is
worked out after the answer comes too late for the sample, and a sample that differs from what is
there afterwards tells of it.

On the CPU or on a GPU alike: the tensors tell where. The work here is torch's, in this process.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch

from grader import inputs, oracle
from grader.arena import Outcome, Slot
from grader.cases import Case
from grader.compare import Verdict, judge
from grader.inputs import Inputs
from grader.spec import Exercise, Variant
from grader.status import Status
from grader.worker.protocol import Argument, DType, Kind, Space

INPUTS, OUTPUTS = 0, 1  # buffer indices
ALIGNMENT = 256  # bytes: what cudaMalloc gives
GUARD_BYTES = 4096  # on both sides of an output
PATCHED = 256  # elements of each input, per set
SAMPLED = 2048  # places in all: as many in a short run as in a long one
AT_RANDOM = 4  # one place in so many doesn't hang on a patched input, or not as far as we know
_UNIT = torch.int16  # what is patched and sampled in: one launch for tensors of any dtype

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


class Memory(Protocol):
    """Two buffers that a worker has mapped too; it can't write the first."""

    @property
    def inputs(self) -> torch.Tensor: ...  # uint8
    @property
    def outputs(self) -> torch.Tensor: ...  # uint8


@dataclass(frozen=True)
class Layout:
    """Where the tensors of one set lie: bytes from its start in each of the two buffers."""

    inputs: Inputs
    offsets: tuple[int, ...]  # one for each slot, of its first element
    lengths: tuple[int, int]  # of a set, in each buffer

    @classmethod
    def of(cls, exercise: Exercise, variant: Variant, case: Case) -> Layout:
        """The layout of a case. Raises ValueError where an argument can't be timed."""
        blank = inputs.blank(exercise, variant, case)
        ends = [0, GUARD_BYTES]
        offsets = []
        for slot in blank.slots:
            if slot.role == "inout" or slot.space == "host":
                raise ValueError(f"{slot.name}: an argument that is {_kind(slot)} can't be timed")
            buffer = INPUTS if slot.role == "input" else OUTPUTS
            offsets.append(ends[buffer] + slot.first * _itemsize(slot))
            after = offsets[-1] + slot.extent * _itemsize(slot)
            ends[buffer] = _round_up(after + buffer * GUARD_BYTES, ALIGNMENT)
        return cls(blank, tuple(offsets), (max(ends[0], ALIGNMENT), ends[1]))

    def bytes(self, count: int) -> tuple[int, int]:
        """How large the two buffers are for so many sets."""
        return self.lengths[0] * count, self.lengths[1] * count


@dataclass
class _Plan:
    """What is ready for one run."""

    first: int
    count: int
    patched: torch.Tensor  # int64: units of the input buffer
    patches: torch.Tensor  # what they become
    sampled: torch.Tensor  # int64: units of the output buffer


class TimedSets:
    """The buffers of one worker, seen from the grader."""

    def __init__(
        self, memory: Memory, exercise: Exercise, variant: Variant, case: Case, count: int
    ) -> None:
        """`memory` holds `Layout.bytes(count)`."""
        self.count = count
        self._exercise, self._variant, self._case = exercise, variant, case
        self._layout = Layout.of(exercise, variant, case)
        self._memory = memory
        self._oracle = oracle.load(exercise.oracle)
        self._random = torch.Generator(device=memory.inputs.device)
        self._random.manual_seed(secrets.randbits(63))
        self._poison = torch.empty(
            self._layout.lengths[1], dtype=torch.uint8, device=memory.outputs.device
        )
        self._plan: _Plan | None = None
        self._known: torch.Tensor | None = None  # what may be patched of inputs that stay

    def arguments(self, number: int) -> list[Argument]:
        """What the worker is told of one set."""
        placed = []
        for slot, offset in zip(self._slots, self._layout.offsets, strict=True):
            buffer = INPUTS if slot.role == "input" else OUTPUTS
            length = self._layout.lengths[buffer]
            placed.append(
                Argument(
                    kind=Kind.tensor,
                    dtype=DType[slot.dtype],
                    space=Space[slot.space],
                    buffer=buffer,
                    offset=number * length + offset,
                    allocation=(number * length, length),
                    shape=slot.shape,
                    strides=slot.strides,
                )
            )
        return self._layout.inputs.arguments(placed)

    # --- before the clock starts ------------------------------------------------------------------

    def fill(self, first: int, count: int, known: bool = False) -> None:
        """New inputs and poison for a run over `count` sets, and everything else it will need.

        `known`: for a worker of our own, which doesn't cheat: its inputs are drawn once, and its
        sample is of any places.
        """
        if known:
            self._plan = self._plan_of_known(first, count)
            return
        self._draw_poison()
        patched, patches, sampled = [], [], []
        per_set = max(1, SAMPLED // count)
        for number in range(first, first + count):
            values = inputs.drawn(self._exercise, self._variant, self._case, self._random).tensors
            for slot, view in self._views(number, "input"):
                view.copy_(values[slot.name])
            self._set_bytes(OUTPUTS, number).copy_(self._poison)
            changed = {name: tensor.clone() for name, tensor in values.items()}
            for slot, view in self._views(number, "input"):
                units, bits = self._patch_of(slot, view, changed[slot.name], values[slot.name])
                patched.append(units)
                patches.append(bits)
            sampled.append(self._sample_of(number, values, changed, per_set))
        self._plan = _Plan(first, count, torch.cat(patched), torch.cat(patches), torch.cat(sampled))

    def _plan_of_known(self, first: int, count: int) -> _Plan:
        if self._known is None:
            self.fill(0, self.count)
            self._known = self._plan.patched
        length = self._layout.lengths[OUTPUTS] // _UNIT.itemsize
        sampled = first * length + self._some(count * length, SAMPLED)
        # As many are patched as of a stranger's, to what they are already.
        patched = self._known[self._some(len(self._known), PATCHED * count)]
        patches = _units(self._memory.inputs)[patched]
        return _Plan(first, count, patched, patches, sampled)

    def patch(self) -> None:
        """Change some inputs of each set, in one launch, and wait for it."""
        plan = self._plan
        _units(self._memory.inputs).index_copy_(0, plan.patched, plan.patches)
        _synchronise(self._memory.inputs)

    def _draw_poison(self) -> None:
        """Random bits around the outputs, and inside what no kernel computes: see arena.py."""
        words = self._poison.view(torch.int64)
        words.random_(generator=self._random)
        # random_ leaves the sign of 64-bit words alone.
        words.bitwise_xor_(words << 7)
        for slot, offset in self._outputs:
            dtype = getattr(torch, slot.dtype)
            bits = self._strided(self._poison, slot, offset).view(_BITS[dtype.itemsize])
            if dtype.is_floating_point:
                infinity = torch.tensor(float("inf"), dtype=dtype).view(bits.dtype)
                bits.bitwise_or_(int(infinity)).bitwise_or_(1)
            elif dtype is torch.bool:
                bits.bitwise_or_(2)

    def _patch_of(
        self, slot: Slot, view: torch.Tensor, changed: torch.Tensor, before: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Units of the input buffer and their new bits; `changed` gets the same values.

        Where an element is a single byte, nothing is patched.
        """
        itemsize = changed.dtype.itemsize
        device = changed.device
        if itemsize == 1 or not changed.dtype.is_floating_point:
            nothing = torch.empty(0, dtype=torch.int64, device=device)
            return nothing, nothing.to(_UNIT)
        count = min(PATCHED, changed.numel())
        places = torch.randint(
            changed.numel(), (count,), generator=self._random, device=device
        ).unique()
        fresh = inputs.draw((len(places),), slot.dtype, "normal", self._random)
        # Of the size that the values have, so that a difference is neither lost nor infinite.
        scale = before.flatten()[places].double().abs().clamp_min(1e-6)
        new = (fresh.double().sign() * scale * (1.5 + fresh.double().abs())).to(changed.dtype)
        changed.view(-1)[places] = new
        elements = _elements(places, slot) + view.storage_offset()
        per_element = itemsize // _UNIT.itemsize
        spread = torch.arange(per_element, device=device)
        units = (elements[:, None] * per_element + spread).flatten()
        return units, new.view(_UNIT)

    def _sample_of(
        self,
        number: int,
        before: dict[str, torch.Tensor],
        after: dict[str, torch.Tensor],
        count: int,
    ) -> torch.Tensor:
        """Units of the output buffer: most of elements that the patch changes, in torch's eyes."""
        found = []
        scalars = self._layout.inputs.scalars
        slots = list(self._views(number, "output"))
        for (slot, view), old, new in zip(
            slots, self._oracle.own(before, scalars), self._oracle.own(after, scalars), strict=True
        ):
            share = max(1, count // len(slots))
            differ = (old != new).flatten().nonzero()[:, 0]
            chosen = self._some(len(differ), share - share // AT_RANDOM if len(differ) else 0)
            chosen = differ[chosen]
            others = self._some(old.numel(), share - len(chosen))
            places = torch.cat([chosen, others])
            itemsize = _itemsize(slot)
            first = (_elements(places, slot) + view.storage_offset()) * itemsize
            found.append(first // _UNIT.itemsize)
        return torch.cat(found)

    def _some(self, size: int, count: int) -> torch.Tensor:
        device = self._memory.inputs.device
        if not count:
            return torch.empty(0, dtype=torch.int64, device=device)
        return torch.randint(size, (count,), generator=self._random, device=device)

    # --- under the clock --------------------------------------------------------------------------

    def read_sample(self) -> torch.Tensor:
        """What the sampled places hold now: one launch, and its result here."""
        return _units(self._memory.outputs).index_select(0, self._plan.sampled).cpu()

    # --- after it ---------------------------------------------------------------------------------

    def judge(self, sample: torch.Tensor) -> Verdict:
        """The verdict on every output of the run, and on whether it was there in time."""
        plan = self._plan
        start = plan.first * self._layout.lengths[1]
        length = plan.count * self._layout.lengths[1]
        copy = self._memory.outputs[start : start + length].clone()
        # Of the sample the copy has the same places, from its own start on.
        places = plan.sampled - start // _UNIT.itemsize
        in_time = bool((_units(copy).index_select(0, places).cpu() == sample).all())
        tolerance = self._exercise.tolerance_of(self._variant)
        for index in range(plan.count):
            values = self._inputs_of(plan.first + index)
            truths = self._oracle.truths(values, self._layout.inputs.scalars, tolerance.magnitude)
            mine = copy[index * self._layout.lengths[1] :][: self._layout.lengths[1]]
            verdict = judge(list(self._outcomes(mine)), truths, tolerance)
            if not verdict.passed:
                return replace(verdict, what=f"in a timed call: {verdict.what}")
        if not in_time:
            return Verdict(
                Status.not_written,
                "a timed call was answered before its outputs were there: "
                "they changed after the clock had stopped.",
            )
        return Verdict(Status.passed)

    def _inputs_of(self, number: int) -> dict[str, torch.Tensor]:
        return {slot.name: view.contiguous() for slot, view in self._views(number, "input")}

    def _outcomes(self, after: torch.Tensor) -> Iterator[Outcome]:
        """The outputs of a set in the copy. What lies around them counts as the last one's."""
        changed = after != self._poison
        outputs = self._outputs
        around = changed.clone()
        for slot, offset in outputs:
            inside = self._strided(around.view(torch.uint8), slot, offset, as_bytes=True)
            inside.zero_()
        outside = int(around.count_nonzero())
        for number, (slot, offset) in enumerate(outputs):
            itemsize = _itemsize(slot)
            bits = _BITS[itemsize]
            now = self._strided(after, slot, offset)
            unwritten = now.view(bits) == self._strided(self._poison, slot, offset).view(bits)
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

    # --- where things are -------------------------------------------------------------------------

    @property
    def _slots(self) -> list[Slot]:
        return self._layout.inputs.slots

    @property
    def _outputs(self) -> list[tuple[Slot, int]]:
        every = zip(self._slots, self._layout.offsets, strict=True)
        return [(slot, offset) for slot, offset in every if slot.role == "output"]

    def _set_bytes(self, buffer: int, number: int) -> torch.Tensor:
        memory = (self._memory.inputs, self._memory.outputs)[buffer]
        length = self._layout.lengths[buffer]
        return memory[number * length : (number + 1) * length]

    def _views(self, number: int, role: str) -> Iterator[tuple[Slot, torch.Tensor]]:
        """The tensors of a set, over the shared buffers."""
        buffer = INPUTS if role == "input" else OUTPUTS
        for slot, offset in zip(self._slots, self._layout.offsets, strict=True):
            if slot.role == role:
                yield slot, self._strided(self._set_bytes(buffer, number), slot, offset)

    @staticmethod
    def _strided(
        memory: torch.Tensor, slot: Slot, offset: int, as_bytes: bool = False
    ) -> torch.Tensor:
        """A slot's tensor in the bytes of a set; or its bytes, in a further dimension."""
        dtype = getattr(torch, slot.dtype)
        if as_bytes:
            strides = [stride * dtype.itemsize for stride in slot.strides]
            shape, steps = (*slot.shape, dtype.itemsize), (*strides, 1)
            return memory.as_strided(shape, steps, memory.storage_offset() + offset)
        elements = memory.view(dtype)
        first = elements.storage_offset() + offset // dtype.itemsize
        return elements.as_strided(slot.shape, slot.strides, first)


def _elements(places: torch.Tensor, slot: Slot) -> torch.Tensor:
    """Offsets of elements in the slot's memory, of flat indices into its contiguous form."""
    offsets = torch.zeros_like(places)
    for length, stride in zip(reversed(slot.shape), reversed(slot.strides), strict=True):
        offsets += places % length * stride
        places = places // length
    return offsets


def _units(memory: torch.Tensor) -> torch.Tensor:
    return memory.view(_UNIT)


def _itemsize(slot: Slot) -> int:
    return getattr(torch, slot.dtype).itemsize


def _kind(slot: Slot) -> str:
    return "read and written" if slot.role == "inout" else "in host memory"


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _synchronise(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize(tensor.device)


def sets_that_fit(layout: Layout, free_bytes: int, wanted: Sequence[int]) -> int:
    """The first of the wanted numbers of sets whose buffers fit, or 0."""
    return next((n for n in wanted if sum(layout.bytes(n)) <= free_bytes), 0)
