"""Atomic operations: read, change and write as one, for one program after another.

Updates of one element are made in the order of their programs, which is an order that a GPU allows.
Programs that wait for others take turns, and an update that changes memory ends a turn: on a GPU
others may see it before the program's next operation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from .errors import NotModelled
from .floats import computed, from_bits, is_float, round_to, stored, to_bits, width_of
from .ir import Op, Type, first_word
from .places import Elements, Places
from .poison import Poison, check, check_address, report
from .registry import Run, control_flow
from .state import Frame, State

Change = Callable[[np.ndarray, np.ndarray], np.ndarray]

_CHANGES: dict[str, Change] = {
    "add": np.add,
    "fadd": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "max": np.maximum,
    "min": np.minimum,
    "umax": np.maximum,
    "umin": np.minimum,
    "exch": lambda old, new: new,
}
_ADDABLE = {np.dtype(np.float32), np.dtype(np.float64)}


def _updates(value: np.ndarray, shape: tuple[int, ...], chosen: np.ndarray | None) -> np.ndarray:
    value = np.broadcast_to(value, shape)
    return value.reshape(-1) if chosen is None else value[chosen]


def _occurrence(index: np.ndarray) -> np.ndarray:
    """For each element, how often its index occurs before it."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    runs = np.diff(np.append(starts, len(index)))
    turn = np.empty(len(index), np.int64)
    turn[order] = np.arange(len(index)) - np.repeat(starts, runs)
    return turn


def _in_turns(memory: np.ndarray, index: np.ndarray, change: Change) -> np.ndarray:
    """The old value of each update. `change(updates, old)` gives the values after some of them."""
    if not index.size:
        return np.empty(0, memory.dtype)
    turn = _occurrence(index)
    turns = int(turn.max()) + 1
    old_values = np.empty(len(index), memory.dtype)
    if turns == 1:
        old_values[:] = memory[index]
        memory[index] = change(np.arange(len(index)), old_values)
        return old_values
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn, minlength=turns))
    start = 0
    for end in ends.tolist():
        updates = by_turn[start:end]
        start = end
        old = memory[index[updates]]
        old_values[updates] = old
        memory[index[updates]] = change(updates, old)
    return old_values


class _Atomic:
    """The common parts of atomic operations."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.block: Type = op.operand_types[0]
        self.kind = self.block.pointee

    def located(
        self, state: State, addresses: np.ndarray, mask: np.ndarray | None
    ) -> tuple[Elements, list[Places]]:
        """All updates, and where they go."""
        elements = Elements(state, self.op, self.kind, self.block.shape, addresses, mask)
        if elements.mask is not None:
            elements.mask = np.broadcast_to(elements.mask, elements.shape)
        parts = elements.places("atomic")
        if self.op.used:
            for each in parts:
                each.buffer.was_read = True
        elements.tell("atomic", parts)
        return elements, parts

    def put_old(
        self,
        frame: Frame,
        elements: Elements,
        parts: list[tuple[np.ndarray | None, np.ndarray]],
    ) -> None:
        """Make the old values the operation's result; what a mask leaves out is undefined."""
        if not self.op.results:
            return
        shape = elements.shape
        result: np.ndarray = np.zeros(shape, computed(self.kind))
        for chosen, bits in parts:
            values = from_bits(bits, self.kind)
            if chosen is None:
                result = values.reshape(shape)
            else:
                result[chosen] = values
        frame.put(self.op.results, [(result, elements.masked_off())])

    def check(self, state: State, frame: Frame, value: int, mask_slot: int | None) -> None:
        """Undefined addresses, masks and values are findings."""
        if not frame.poison:
            return
        check_address(state, frame, self.op, mask_slot)
        poison: Poison | None = frame.poison.get(value)
        if poison is not None:
            mask = None if mask_slot is None else frame.values[mask_slot]
            addresses = frame.values[self.op.operands[0]]
            report(state, poison, self.op, mask, addresses, width_of(self.kind))


Update = Callable[[Places, np.ndarray, tuple[int, ...]], np.ndarray]


def updating(op: Op, kind: str) -> Update:
    """What updates places by the elements of a value, broadcast to a shape; gives the old ones.

    The old ones may be none where nothing uses a result. Raises NotModelled.
    """
    how = first_word(op)
    if how not in _CHANGES:
        raise NotModelled(f"atomic {how}")
    unsigned = how in ("umax", "umin")
    change = _CHANGES[how]

    def update(place: Places, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        index = _updates(place.index, shape, place.chosen)
        value = _updates(value, shape, place.chosen)
        dtype = np.dtype(stored(kind))
        memory = place.buffer.view(stored(kind))
        if not op.used and how in ("add", "fadd") and (dtype in _ADDABLE or not is_float(kind)):
            np.add.at(memory, index, value)
            return value[:0]
        if unsigned:
            memory = memory.view(dtype.str.replace("i", "u"))
            value = value.view(memory.dtype)
        if not is_float(kind) or dtype in _ADDABLE:
            return _in_turns(memory, index, lambda updates, old: change(old, value[updates])).view(
                dtype
            )

        def narrow(updates: np.ndarray, old: np.ndarray) -> np.ndarray:
            return to_bits(round_to(change(from_bits(old, kind), value[updates]), kind), kind)

        return _in_turns(memory, index, narrow)

    return update


@control_flow("tt.atomic_rmw")
def _read_modify_write(op: Op) -> Run:
    atomic = _Atomic(op)
    kind, slots = atomic.kind, op.operands
    update = updating(op, kind)

    def run(state: State, frame: Frame) -> Generator[None, None, None]:
        values = frame.values
        given = values[slots[2]] if len(slots) > 2 else None
        atomic.check(state, frame, slots[1], slots[2] if len(slots) > 2 else None)
        addresses, value = values[slots[0]], values[slots[1]]
        elements, placed = atomic.located(state, addresses, given)
        takes_turns = state.execution.interleaved
        before = [each.reading(stored(kind)).tobytes() for each in placed if takes_turns]
        parts = [(each.chosen, update(each, value, elements.shape)) for each in placed]
        atomic.put_old(frame, elements, parts if op.used else [])
        after = [each.reading(stored(kind)).tobytes() for each in placed if takes_turns]
        state.execution.changes += before != after or not takes_turns
        if before != after:
            yield

    return run


@control_flow("tt.atomic_cas")
def _compare_and_swap(op: Op) -> Run:
    atomic = _Atomic(op)
    kind = atomic.kind
    pointer, expected, new = op.operands[:3]
    dtype = stored(kind)

    def update(
        place: Places, wanted: np.ndarray, value: np.ndarray, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, int]:
        index = _updates(place.index, shape, place.chosen)
        wanted = _updates(wanted, shape, place.chosen)
        value = _updates(value, shape, place.chosen)
        swapped = 0

        def swap(updates: np.ndarray, old: np.ndarray) -> np.ndarray:
            nonlocal swapped
            same = old == wanted[updates]
            swapped += int(np.count_nonzero(same & (old != value[updates])))
            return np.where(same, value[updates], old)

        return _in_turns(place.buffer.view(dtype), index, swap), swapped

    def run(state: State, frame: Frame) -> Generator[None, None, None]:
        values = frame.values
        changes = state.execution.changes
        atomic.check(state, frame, new, None)
        check(state, frame, expected, op)
        addresses = values[pointer]
        elements, placed = atomic.located(state, addresses, None)
        wanted, value = (to_bits(values[slot], kind) for slot in (expected, new))
        parts = []
        for each in placed:
            old, swapped = update(each, wanted, value, elements.shape)
            state.execution.changes += swapped
            parts.append((each.chosen, old))
        atomic.put_old(frame, elements, parts)
        if state.execution.interleaved and changes != state.execution.changes:
            yield

    return run
