"""From addresses to elements of buffers, with every address checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .floats import computed, from_bits, stored, to_bits, width_of
from .ir import Op
from .memory import Buffer, Zeros
from .observer import Access
from .poison import Poison, report, some
from .state import State


@dataclass
class Places:
    """Elements of one buffer. `index` has the shape of the addresses, or axes of length 1.

    `chosen` says which elements access memory, None: all. Others don't have any valid index.
    """

    buffer: Buffer
    index: np.ndarray
    chosen: np.ndarray | None

    def reading(self, dtype: type) -> np.ndarray:
        """The bits in memory there."""
        return self.buffer.read(dtype, self.index)


class Elements:
    """The elements of memory that an operation accesses, of all programs that run together.

    They are of a `kind`, and each program has a `block` of them, () for one. `addresses` may have
    axes of length 1 for equal ones. `mask` says which are accessed, without those of programs that
    aren't active; None: all.
    """

    __slots__ = ("addresses", "block", "kind", "mask", "op", "state", "width")

    def __init__(
        self,
        state: State,
        op: Op,
        kind: str,
        block: tuple[int, ...],
        addresses: np.ndarray,
        mask: np.ndarray | None = None,
    ) -> None:
        self.state, self.op, self.kind, self.block = state, op, kind, block
        self.width = width_of(kind)
        self.addresses = addresses
        active = state.active_as(len(block))
        if mask is None:
            self.mask = active
            return
        if mask.ndim <= len(block):
            mask = mask.reshape(-1, *(1,) * len(block))
        if active is not None:
            mask = mask & active
        self.mask = None if mask.all() else mask

    @property
    def shape(self) -> tuple[int, ...]:
        """That of all programs' blocks."""
        return (self.state.programs, *self.block)

    def places(self, way: str) -> list[Places]:
        """Where they are; addresses outside of buffers or misaligned are findings.

        `way` is "load", "store" or "atomic".
        """
        if self.mask is not None and not self.mask.any():
            return []
        quick = self._in_one_buffer(way)
        return list(self._checked(way)) if quick is None else [quick]

    def _in_one_buffer(self, way: str) -> Places | None:
        """The places of a correct access to one buffer; None for any other."""
        addresses, mask, width = self.addresses, self.mask, self.width
        buffer = self._holding(addresses)
        if buffer is None:
            if mask is None:
                return None
            shape = np.broadcast_shapes(addresses.shape, mask.shape)
            addresses = np.broadcast_to(addresses, shape)
            mask = np.broadcast_to(mask, shape)
            first = addresses.reshape(-1)[int(np.argmax(mask.reshape(-1)))]
            addresses = np.where(mask, addresses, first)
            buffer = self._holding(addresses)
            if buffer is None:
                return None
        if way != "load" and not buffer.writable:
            return None
        index = addresses - (buffer.address + buffer.skipped(width))
        if width > 1:
            if (np.bitwise_or.reduce(index, axis=None) & (width - 1)) != 0:
                return None
            index >>= width.bit_length() - 1
        return Places(buffer, index, mask)

    def _holding(self, addresses: np.ndarray) -> Buffer | None:
        low, high = int(addresses.min()), int(addresses.max())
        return self.state.execution.memory.holding(low, high + self.width)

    def _checked(self, way: str) -> Iterator[Places]:
        """Check address by address: yields the places in each buffer; others are findings."""
        mask, width = self.mask, self.width
        shape = np.broadcast_shapes(self.addresses.shape, () if mask is None else mask.shape)
        addresses = np.broadcast_to(self.addresses, shape)
        chosen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        memory = self.state.execution.memory
        numbers = memory.numbers(addresses, width)
        if way != "load":
            writable = np.array([*(each.writable for each in memory.buffers), False])
            numbers = np.where(writable[numbers], numbers, -1)
        outside = "out_of_bounds_read" if way == "load" else "out_of_bounds_write"
        self._report(outside, addresses, chosen & (numbers < 0))
        chosen = chosen & (numbers >= 0)
        askew = chosen & (addresses % width != 0)
        self._report("misaligned", addresses, askew)
        chosen = chosen & ~askew
        for number in np.unique(numbers[chosen]).tolist():
            buffer = memory.buffers[number]
            here = chosen & (numbers == number)
            index = (addresses - (buffer.address + buffer.skipped(width))) // width
            yield Places(buffer, np.where(here, index, index[here][0]), here)

    def _report(self, kind: str, addresses: np.ndarray, wrong: np.ndarray) -> None:
        count = int(np.count_nonzero(wrong))
        if count:
            first, active = int(np.argmax(wrong.reshape(-1))), self.state.active
            row = 0 if active is None else int(np.argmax(active))
            if len(addresses) > 1:
                row = first // (wrong.size // len(addresses))
            self._find(kind, row, count, int(addresses.reshape(-1)[first]))

    def _find(self, kind: str, row: int, count: int, address: int) -> None:
        """Add elements to the findings, the first of them of the program in a row."""
        program = int(self.state.linear[row])
        self.state.execution.find(
            kind, self.op, program, count=count, address=address, width=self.width
        )

    def masked_off(self) -> Poison | None:
        """What the mask keeps active programs from accessing: of a load or an atomic, undefined.

        An access outside of memory has a finding of its own and isn't reported twice.
        """
        if self.mask is None:
            return None
        active = self.state.active_as(len(self.block))
        return some(~self.mask if active is None else ~self.mask & active, self.op)

    def undefined(self, poison: Poison | None) -> None:
        """Undefined values that are stored there are findings."""
        if poison is not None:
            report(self.state, poison, self.op, self.mask, self.addresses, self.width)

    def tell(self, way: str, parts: list[Places], stored: np.ndarray | None = None) -> None:
        """Report the access to `parts` to the observers."""
        state = self.state
        if not state.execution.observers:
            return
        active = None if self.mask is None else np.broadcast_to(self.mask, self.shape)
        bits = None if stored is None else np.broadcast_to(stored, self.shape)
        may_race = way != "load" or any(each.buffer.writable for each in parts)
        given = (self.width, self.addresses, active, state.linear, bits, self.block, may_race)
        access = Access(self.op, way, *given)
        for observer in state.execution.observers:
            observer.access(access)

    def read(self, otherwise: float | np.ndarray = 0, way: str = "load") -> np.ndarray:
        """Their values; of those that aren't accessed, a number or the value `otherwise`."""
        parts = self.places("load")
        self.tell(way, parts)
        value = otherwise
        if not isinstance(value, np.ndarray):
            value = np.full((1,) * (len(self.block) + 1), value, computed(self.kind))
        for each in parts:
            each.buffer.was_read = True
            here = from_bits(each.reading(stored(self.kind)), self.kind)
            value = here if each.chosen is None else np.where(each.chosen, here, value)
        return value

    def write(self, bits: np.ndarray, way: str = "store") -> None:
        """Set their bits. Of two writes to one address, the later one stays.

        Two elements of one program's block with different bits for one address are a finding.
        """
        parts, dtype = self.places("store"), stored(self.kind)
        self.tell(way, parts, bits.view(f"u{self.width}") if bits.itemsize == self.width else bits)
        self.state.execution.changes += 1
        for each in parts:
            shape = np.broadcast_shapes(
                each.index.shape, bits.shape, () if each.chosen is None else each.chosen.shape
            )
            index, values = np.broadcast_to(each.index, shape), np.broadcast_to(bits, shape)
            chosen = None if each.chosen is None else np.broadcast_to(each.chosen, shape)
            if chosen is not None:
                index, values = index[chosen], values[chosen]
            each.buffer.write(dtype, index, values)
            if self.block and not isinstance(each.buffer, Zeros):
                kept = each.buffer.read(dtype, index)
                lost = (kept != values) & ((kept == kept) | (values == values))  # NaN is like NaN
                if lost.any():
                    at = np.arange(index.size) if chosen is None else np.flatnonzero(chosen)
                    rows = at // int(np.prod(shape[1:]))
                    self._report_lost(each.buffer, index.ravel(), lost.ravel(), rows)

    def _report_lost(
        self, buffer: Buffer, index: np.ndarray, lost: np.ndarray, rows: np.ndarray
    ) -> None:
        """Report values of a store that another one of the same program's block has replaced.

        Each value has its place in the buffer, whether it is `lost`, and its program's row. A value
        that another program has replaced is left to races.py.
        """
        met = np.flatnonzero(np.isin(index, index[lost]))[::-1]  # the last value for a place stays
        places_met, first = np.unique(index[met], return_index=True)
        winners = rows[met[first]][np.searchsorted(places_met, index[lost])]
        own = np.flatnonzero(lost)[winners == rows[lost]]
        if own.size:
            width = self.width
            address = buffer.address + buffer.skipped(width) + int(index[own[0]]) * width
            self._find("store_conflict", int(rows[own[0]]), int(own.size), address)


def store(
    state: State,
    op: Op,
    addresses: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None,
    poison: Poison | None,
    way: str = "store",
) -> None:
    """Write a block of values to memory at the addresses of the first operand, under a mask."""
    kind, block = op.operand_types[0].pointee, op.operand_types[0].shape
    elements = Elements(state, op, kind, block, addresses, mask)
    elements.undefined(poison)
    elements.write(to_bits(value, kind), way)
