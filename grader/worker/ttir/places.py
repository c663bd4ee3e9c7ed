"""From addresses to elements of buffers, with every address checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .floats import computed, from_bits, stored, to_bits, width_of
from .ir import Op
from .memory import Buffer, Zeros
from .observer import Access
from .poison import Poison, report
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


def elements_mask(state: State, mask: np.ndarray | None, rank: int) -> np.ndarray | None:
    """The mask of an access, without programs that aren't active; None where it is all set."""
    active = state.active_as(rank)
    if mask is None:
        return active
    if mask.ndim <= rank:
        mask = mask.reshape(-1, *(1,) * rank)
    if active is not None:
        mask = mask & active
    return None if mask.all() else mask


def places(
    state: State, op: Op, kind: str, addresses: np.ndarray, mask: np.ndarray | None, width: int
) -> list[Places]:
    """The places of an access; addresses outside of buffers or misaligned are findings.

    `kind` is "load", "store" or "atomic".
    """
    if mask is not None and not mask.any():
        return []
    quick = _in_one_buffer(state, kind, addresses, mask, width)
    if quick is not None:
        return [quick]
    return list(_checked(state, op, kind, addresses, mask, width))


def _in_one_buffer(
    state: State, kind: str, addresses: np.ndarray, mask: np.ndarray | None, width: int
) -> Places | None:
    """The places of a correct access to one buffer; None for any other."""
    buffer = _holding(state, addresses, width)
    if buffer is None:
        if mask is None:
            return None
        shape = np.broadcast_shapes(addresses.shape, mask.shape)
        addresses = np.broadcast_to(addresses, shape)
        mask = np.broadcast_to(mask, shape)
        first = addresses.reshape(-1)[int(np.argmax(mask.reshape(-1)))]
        addresses = np.where(mask, addresses, first)
        buffer = _holding(state, addresses, width)
        if buffer is None:
            return None
    if kind != "load" and not buffer.writable:
        return None
    index = addresses - (buffer.address + buffer.skipped(width))
    if width > 1:
        if (np.bitwise_or.reduce(index, axis=None) & (width - 1)) != 0:
            return None
        index >>= width.bit_length() - 1
    return Places(buffer, index, mask)


def _holding(state: State, addresses: np.ndarray, width: int) -> Buffer | None:
    low, high = int(addresses.min()), int(addresses.max())
    return state.execution.memory.holding(low, high + width)


def _checked(
    state: State, op: Op, kind: str, addresses: np.ndarray, mask: np.ndarray | None, width: int
) -> Iterator[Places]:
    """Check address by address: yields the places in each buffer; others are findings."""
    shape = np.broadcast_shapes(addresses.shape, () if mask is None else mask.shape)
    addresses = np.broadcast_to(addresses, shape)
    chosen = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    memory = state.execution.memory
    numbers = memory.numbers(addresses, width)
    if kind != "load":
        writable = np.array([*(each.writable for each in memory.buffers), False])
        numbers = np.where(writable[numbers], numbers, -1)
    outside = "out_of_bounds_read" if kind == "load" else "out_of_bounds_write"
    _report(state, op, outside, addresses, chosen & (numbers < 0), width)
    chosen = chosen & (numbers >= 0)
    askew = chosen & (addresses % width != 0)
    _report(state, op, "misaligned", addresses, askew, width)
    chosen = chosen & ~askew
    for number in np.unique(numbers[chosen]).tolist():
        buffer = memory.buffers[number]
        here = chosen & (numbers == number)
        index = (addresses - (buffer.address + buffer.skipped(width))) // width
        yield Places(buffer, np.where(here, index, index[here][0]), here)


def _report(
    state: State, op: Op, kind: str, addresses: np.ndarray, wrong: np.ndarray, width: int
) -> None:
    count = int(np.count_nonzero(wrong))
    if count:
        first = int(np.argmax(wrong.reshape(-1)))
        rows = len(addresses)
        program = state.linear[first // (wrong.size // rows) if rows > 1 else _first_active(state)]
        address = int(addresses.reshape(-1)[first])
        state.execution.find(kind, op, int(program), count=count, address=address, width=width)


def _first_active(state: State) -> int:
    return 0 if state.active is None else int(np.argmax(state.active))


def tell(  # noqa: PLR0913 - what an access is
    state: State,
    op: Op,
    kind: str,
    width: int,
    addresses: np.ndarray,
    mask: np.ndarray | None,
    block: tuple[int, ...],
    parts: list[Places],
    stored: np.ndarray | None = None,
) -> None:
    """Report an access to `parts` to the observers."""
    if not state.execution.observers:
        return
    shape = (state.programs, *block)
    active = None if mask is None else np.broadcast_to(mask, shape)
    bits = None if stored is None else np.broadcast_to(stored, shape)
    may_race = kind != "load" or any(each.buffer.writable for each in parts)
    access = Access(op, kind, width, addresses, active, state.linear, bits, block, may_race)
    for observer in state.execution.observers:
        observer.access(access)


def read(
    state: State,
    op: Op,
    kind: str,
    addresses: np.ndarray,
    inside: np.ndarray | None,
    block: tuple[int, ...],
    padding: float,
) -> np.ndarray:
    """The elements of a block at addresses; those that aren't `inside` a tensor are padding."""
    width = width_of(kind)
    mask = elements_mask(state, inside, len(block))
    parts = places(state, op, "load", addresses, mask, width)
    tell(state, op, "load", width, addresses, mask, block, parts)
    value: np.ndarray = np.full((1,) * (len(block) + 1), padding, computed(kind))
    for each in parts:
        here = from_bits(each.reading(stored(kind)), kind)
        value = here if each.chosen is None else np.where(each.chosen, here, value)
    return value


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
    mask = elements_mask(state, mask, len(block))
    if poison is not None:
        report(state, poison, op, mask, addresses, width_of(kind))
    write(state, op, way, kind, addresses, to_bits(value, kind), mask, block)


def write(
    state: State,
    op: Op,
    way: str,
    kind: str,
    addresses: np.ndarray,
    bits: np.ndarray,
    mask: np.ndarray | None,
    block: tuple[int, ...],
) -> None:
    """Write bits to memory at addresses. Of two writes to one address, the later one stays.

    Two elements of one program's block with different bits for one address are a finding.
    """
    width = width_of(kind)
    parts = places(state, op, "store", addresses, mask, width)
    as_bits = bits.view(f"u{width}") if bits.dtype.itemsize == width else bits
    tell(state, op, way, width, addresses, mask, block, parts, as_bits)
    state.execution.changes += 1
    for each in parts:
        shape = np.broadcast_shapes(
            each.index.shape, bits.shape, () if each.chosen is None else each.chosen.shape
        )
        index, values = np.broadcast_to(each.index, shape), np.broadcast_to(bits, shape)
        chosen = None if each.chosen is None else np.broadcast_to(each.chosen, shape)
        if chosen is not None:
            index, values = index[chosen], values[chosen]
        each.buffer.write(stored(kind), index, values)
        if block and not isinstance(each.buffer, Zeros):
            kept = each.buffer.read(stored(kind), index)
            lost = (kept != values) & ((kept == kept) | (values == values))  # NaN is like NaN
            if lost.any():
                at = np.arange(index.size) if chosen is None else np.flatnonzero(chosen)
                rows = at // int(np.prod(shape[1:]))
                _report_lost(state, op, each.buffer, width, index.ravel(), lost.ravel(), rows)


def _report_lost(
    state: State,
    op: Op,
    buffer: Buffer,
    width: int,
    index: np.ndarray,
    lost: np.ndarray,
    rows: np.ndarray,
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
        address = buffer.address + buffer.skipped(width) + int(index[own[0]]) * width
        program = int(state.linear[rows[own[0]]])
        count = int(own.size)
        state.execution.find(
            "store_conflict", op, program, count=count, address=address, width=width
        )
