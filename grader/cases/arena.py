"""Tensors in memory that the grader and a worker share, each with guard zones around it.

A worker has two buffers: one of inputs, which it can't write, and one of outputs. They are sealed
memfds (memfd.py) or memory of a GPU (gpu_memory.py). GPU memory has no seals: the worker maps the
inputs read-only, and they are also compared after a run.

Each tensor is a strided view of an allocation. The rest of the allocation (guard zones on both
sides, gaps between padded rows) is filled with NaN around inputs and with random bits around
outputs. An output starts as poison: NaNs of random payload, or an equivalent of its dtype. So an
element that was never written is recognised by its bits. The worker makes the gaps between
allocations in memfds inaccessible, so an access beyond a guard zone faults.

After a run the grader copies each allocation once and judges the copy, which the worker can't
change.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from grader.sandbox.memfd import Memfds, SharedBuffers
from grader.worker.protocol import Argument, DType, Kind, Space

GUARD_BYTES = 64 * 1024  # 16384 float32: an off-by-one grid stays inside
GAP_BYTES = 8 << 20  # between allocations; never touched, so it takes no memory
NOISE_BYTES = 1 << 20  # kept twice over per dtype, since drawing is slower than copying
INPUTS, OUTPUTS = 0, 1  # buffer indices

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # integers, by bytes

Role = Literal["input", "output", "inout"]
# A worker's buffer: descriptor, bytes, whether it may write.
Buffers = Sequence[tuple[int, int, bool]]


@dataclass(frozen=True)
class Slot:
    """One tensor to place: its view and its initial values.

    `strides` and `first` (the element of the allocation where the view starts) count elements.
    `values` is a contiguous tensor of `shape`, or None for an output.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0
    role: Role = "input"
    space: Literal["device", "host"] = "device"
    values: torch.Tensor | None = None

    @property
    def extent(self) -> int:
        """Elements from the view's first to its last, inclusive; 0 of a tensor without any."""
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def kind(self) -> torch.dtype:
        """The dtype, as torch has it."""
        kind: torch.dtype = getattr(torch, self.dtype)
        return kind

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.kind.itemsize

    def argument(self, buffer: int, offset: int, allocation: tuple[int, int]) -> Argument:
        """The tensor for a worker: its first byte in a buffer, and its allocation there."""
        return Argument(
            kind=Kind.tensor,
            dtype=DType[self.dtype],
            space=Space[self.space],
            buffer=buffer,
            offset=offset,
            allocation=allocation,
            shape=self.shape,
            strides=self.strides,
        )


@dataclass(frozen=True)
class Placed:
    slot: Slot
    argument: Argument
    before: torch.Tensor | None  # uint8: the allocation before the run, if it is judged
    leftovers: bool = False  # an output holds numbers: nobody can tell that one is unwritten


@dataclass(frozen=True)
class Outcome:
    """One tensor after a run, from the grader's copy.

    `values` has the slot's shape and dtype. `unwritten` is bool of that shape: the bits are still
    the poison's. `outside` are sorted element offsets from the view's first element of writes
    outside the view, the first 1024 of `outside_count`. `changed` says whether the view changed.
    """

    slot: Slot
    values: torch.Tensor
    unwritten: torch.Tensor
    outside: tuple[int, ...]
    outside_count: int
    changed: bool


class Arena(contextlib.AbstractContextManager["Arena"]):
    """Tensors in shared memory before and after a run. A context manager.

    With `GpuMemory`, the constructor, `place` and `collect` raise GpuMemoryError.
    """

    def __init__(
        self,
        input_bytes: int,
        output_bytes: int,
        memory: Callable[[int, int], SharedBuffers] = Memfds,
    ) -> None:
        self.memory = memory(input_bytes, output_bytes)

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def on_gpu(self) -> bool:
        """Whether its memory is a GPU's, which a worker maps in another way."""
        return self.memory.on_gpu

    @property
    def buffers(self) -> Buffers:
        """The input and the output buffer, for the worker."""
        return self.memory.buffers

    def close(self) -> None:
        """Free the memory, once the worker's mappings are gone too."""
        self.memory.close()

    def place(
        self, slots: Sequence[Slot], inputs_writable: bool = False, leftovers: bool = False
    ) -> list[Placed]:
        """Lay the slots out and fill them. Raises ValueError when they don't fit.

        With `leftovers` outputs hold zeros and other finite numbers, as used memory often does.
        `inputs_writable` puts inputs into the output buffer, so that a store to one shows as a
        change instead of ending the worker. A CUDA device that works on copies requires it.
        """
        ends = [0, 0]
        placed = []
        for slot in slots:
            buffer = INPUTS if slot.role == "input" and not inputs_writable else OUTPUTS
            placed.append(self._place(slot, buffer, ends[buffer], leftovers))
            gap = _gap_bytes(self.on_gpu, inputs_writable)
            ends[buffer] = sum(placed[-1].argument.allocation) + gap
        self.memory.finish()
        return placed

    def collect(self, placed: Sequence[Placed]) -> list[Outcome]:
        """The tensors that the worker may have changed, from one copy of each."""
        return [
            _outcome(item, before, self.memory.take(at.buffer, *at.allocation))
            for item in placed
            if (before := item.before) is not None
            for at in [item.argument]
        ]

    def _place(self, slot: Slot, buffer: int, after: int, leftovers: bool) -> Placed:
        memory = (self.memory.inputs, self.memory.outputs)[buffer]
        start, length = after, _allocation_bytes(slot)
        if start + length > len(memory):
            raise ValueError(f"{slot.name}: {start + length} bytes needed, {len(memory)} there")
        # What will be judged is made here and copied there: a running worker could change the
        # shared bytes before they were read back.
        judged = buffer == OUTPUTS or self.on_gpu
        allocation = (
            torch.empty(length, dtype=torch.uint8) if judged else memory[start : start + length]
        )
        if slot.role == "input":
            allocation.fill_(0xFF)  # NaN in every floating-point format, -1 in signed integers
        else:
            _NOISE.fill(allocation.view(slot.kind), possible=True)
            view = strided(allocation, slot, _first_byte(slot))
            (_NOISE.leave if leftovers else _NOISE.poison)(view)
        if slot.values is not None:
            strided(allocation, slot, _first_byte(slot)).copy_(slot.values)
        if judged:
            self.memory.put(buffer, start, allocation)
        argument = slot.argument(buffer, start + _first_byte(slot), (start, length))
        return Placed(slot, argument, allocation if judged else None, leftovers)


def described(slots: Sequence[Slot]) -> list[Argument]:
    """The slots as arguments without memory, for a planner."""
    arguments, start = [], 0
    for slot in slots:
        length = _allocation_bytes(slot)
        arguments.append(slot.argument(OUTPUTS, start + _first_byte(slot), (start, length)))
        start += length
    return arguments


def required_bytes(
    slots: Sequence[Slot], on_gpu: bool = False, inputs_writable: bool = False
) -> int:
    """Bytes of a buffer that holds all the slots."""
    gaps = _gap_bytes(on_gpu, inputs_writable) * max(len(slots) - 1, 0)
    return sum(map(_allocation_bytes, slots)) + gaps


class _Noise:
    """Random bits, of two kinds per dtype, drawn once a process and used from a random offset.

    Bits around an output are never a value that a stray store is likely to have (zero, NaN,
    infinity). Bits inside are values that no kernel computes: NaNs with random sign and payload,
    booleans other than 0 and 1. Every integer is possible, so integers are plain random bits.
    """

    def __init__(self) -> None:
        self._random = np.random.default_rng()  # seeded by the operating system, so unpredictable
        self._drawn: dict[tuple[torch.dtype, bool], torch.Tensor] = {}

    def poison(self, values: torch.Tensor) -> None:
        """Fill a tensor of any strides with values that no kernel computes."""
        self.fill(values, possible=False)

    def leave(self, values: torch.Tensor) -> None:
        """Fill it with zeros and other numbers; zeros alone would hide a store of zeros."""
        self.fill(values, possible=True)
        zero = np.asarray(self._random.integers(2, size=values.shape), bool)
        if zero.all() and zero.size:
            zero.flat[self._random.integers(zero.size)] = False
        values.view(BITS[values.itemsize]).masked_fill_(torch.from_numpy(zero), 0)

    def fill(self, values: torch.Tensor, possible: bool) -> None:
        """Fill a tensor of any strides; `possible` allows values that a kernel may compute."""
        noise = self._bits(values.dtype, possible)
        target = values.view(noise.dtype)
        half = len(noise) // 2
        first = int(self._random.integers(half))
        if target.numel() > half:
            noise = noise[first : first + half].repeat(-(-target.numel() // half))
            first = 0
        target.copy_(noise[first : first + target.numel()].view(target.shape))

    def _bits(self, dtype: torch.dtype, possible: bool) -> torch.Tensor:
        key = (dtype, possible)
        if key not in self._drawn:
            drawn = np.frombuffer(self._random.bytes(2 * NOISE_BYTES), dtype=np.uint8).copy()
            bits = torch.from_numpy(drawn).view(BITS[dtype.itemsize])
            if possible and dtype.is_floating_point:
                exponent = 1 << (_infinity(dtype).bit_length() - 1)
                bits.bitwise_or_(1).bitwise_and_(~exponent)
            else:
                make_poison(bits, dtype)
            self._drawn[key] = bits
        return self._drawn[key]


_NOISE = _Noise()


def make_poison(bits: torch.Tensor, dtype: torch.dtype) -> None:
    """Turn random bits of a dtype's elements into values that no kernel computes: see _Noise."""
    if dtype.is_floating_point:
        bits.bitwise_or_(_infinity(dtype)).bitwise_or_(1)
    elif dtype is torch.bool:
        bits.bitwise_or_(2)


def _infinity(dtype: torch.dtype) -> int:
    """The bits of infinity."""
    return int(torch.tensor(float("inf"), dtype=dtype).view(BITS[dtype.itemsize]))


def _outcome(item: Placed, before: torch.Tensor, after: torch.Tensor) -> Outcome:
    """The outcome of the copy `after` against the state `before`, which is overwritten."""
    slot, first = item.slot, _first_byte(item.slot)
    values = strided(after, slot, first).clone(memory_format=torch.contiguous_format)
    inside, poison = bits_of(after, slot, first), bits_of(before, slot, first)
    unwritten = np.asarray(inside.numpy() == poison.numpy())  # an array for a scalar too
    # With the inside restored, all differences lie outside. Mostly there are none, which comparing
    # eight bytes at a time finds fast.
    inside.copy_(poison)
    outside: tuple[int, ...] = ()
    outside_count = 0
    if not np.array_equal(_words(after), _words(before)):
        changed = after.view(inside.dtype) != before.view(inside.dtype)
        outside_count = int(changed.count_nonzero())
        outside = tuple((changed.nonzero()[:1024, 0] - first // slot.itemsize).tolist())
    any_change = not unwritten.all()
    if item.leftovers:  # what was there may well be the result
        unwritten = np.zeros_like(unwritten)
    return Outcome(slot, values, torch.from_numpy(unwritten), outside, outside_count, any_change)


def _words(allocation: torch.Tensor) -> np.ndarray:
    """The bytes of whole pages, as 64-bit words."""
    return allocation.numpy().view(np.int64)


def _first_byte(slot: Slot) -> int:
    """Where in its allocation the view's first element lies."""
    return GUARD_BYTES + slot.first * slot.itemsize


def _gap_bytes(on_gpu: bool, inputs_writable: bool) -> int:
    """Bytes between two allocations.

    None on a GPU, whose pages are too large to be made inaccessible: a stray store is detected in
    another tensor's guard zone. Except where it would look like a store to an input.
    """
    return 0 if on_gpu and not inputs_writable else GAP_BYTES


def _allocation_bytes(slot: Slot) -> int:
    """Whole pages, so that the worker can make the gaps inaccessible."""
    needed = (slot.first + slot.extent) * slot.itemsize + 2 * GUARD_BYTES
    return -(-needed // mmap.PAGESIZE) * mmap.PAGESIZE


def strided(memory: torch.Tensor, slot: Slot, offset: int) -> torch.Tensor:
    """A slot's tensor in bytes of memory; `offset` is where in them its first element begins."""
    typed = memory.view(slot.kind)
    first = typed.storage_offset() + offset // slot.itemsize
    return typed.as_strided(slot.shape, slot.strides, first)


def bits_of(memory: torch.Tensor, slot: Slot, offset: int) -> torch.Tensor:
    """The same as integers of the element's size: poison may be NaN, which equals nothing."""
    return strided(memory, slot, offset).view(BITS[slot.itemsize])
