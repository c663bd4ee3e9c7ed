"""Tracks undefined values: masked-off elements of loads and atomics, and others.

A load's have no value without `other`. What tl.gather takes from outside its block has none either.
A value with such elements has a `Poison`: which elements, and the loads they come from. Operations
pass it on. Values without any, which are nearly all, cost nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from .ir import Op

if TYPE_CHECKING:
    from .state import Frame, State


MAX_ORIGINS = 4  # of one value


@dataclass(frozen=True)
class Poison:
    """The undefined elements of a value, and the loads that they came from.

    `where` is bool and has the value's shape, or axes of length 1 in it. `origin` is the first
    load. Where there are several, `parts` has the elements of each, in arrays of `where`'s shape;
    beyond MAX_ORIGINS the rest is in `where` alone. `pairs` is known of a value that may exchange
    the elements of another.
    """

    where: np.ndarray
    origin: Op
    parts: tuple[tuple[np.ndarray, Op], ...] = ()
    pairs: Pairs | None = None

    def moved(self, function: Callable[[np.ndarray], np.ndarray]) -> Poison:
        """The poison of a value whose elements `function` takes from this one's."""
        parts = tuple((function(where), origin) for where, origin in self.parts)
        return Poison(function(self.where), self.origin, parts)

    def any_along(self, axis: int, keepdims: bool = False) -> Poison:
        """The poison of values that depend on all elements along an axis."""
        return self.moved(lambda where: np.asarray(where.any(axis=axis, keepdims=keepdims)))

    def under(self, mask: np.ndarray) -> Poison | None:
        """Its part under a mask, or None."""
        kept = self.moved(lambda where: where & mask)
        return kept if kept.where.any() else None

    def origin_at(self, element: int, shape: tuple[int, ...]) -> Op:
        """The load of an element, by its index in a flat array of `shape`."""
        place = np.unravel_index(element, shape)
        for where, origin in self.parts:
            if np.broadcast_to(where, shape)[place]:
                return origin
        return self.origin


@dataclass(frozen=True)
class Pairs:
    """What a value is that has `a ^ b` for each two elements a and b of `value` along an axis.

    With `value` it makes `value` with its elements exchanged, as `tl.flip` does step by step:
    a ^ (a ^ b) is b, also where a is undefined. `expanded`: the axis is there again.
    """

    value: np.ndarray
    poison: Poison
    axis: int
    expanded: bool = False


def exchanged(frame: Frame, operands: Sequence[int]) -> Poison | None:
    """The poison of an exclusive or that exchanges the elements of one operand, else None."""
    for of, by in (operands, operands[::-1]):
        poison = frame.poison.get(by)
        pairs = poison.pairs if poison is not None else None
        if pairs is not None and pairs.expanded and pairs.value is frame.values[of]:
            return pairs.poison.moved(functools.partial(np.flip, axis=pairs.axis))
    return None


def keep_pairs(frame: Frame, source: int, out: int, expanded: int | None) -> None:
    """Mark what an operation makes of pairs: it adds the axis `expanded`, or repeats elements."""
    poison = frame.poison.get(source)
    pairs = poison.pairs if poison is not None else None
    if pairs is not None and (pairs.expanded if expanded is None else pairs.axis == expanded):
        frame.mark(out, replace(frame.poison[out], pairs=replace(pairs, expanded=True)))


def union(poisons: Sequence[Poison | None]) -> Poison | None:
    """The poison of a result that is undefined where any operand is."""
    present = [each for each in poisons if each is not None]
    if not present:
        return None
    where, origin = present[0].where, present[0].origin
    for each in present[1:]:
        if each is not present[0]:  # a square
            where = where | each.where
    if all(each.origin is origin and not each.parts for each in present):
        return Poison(where, origin)
    parts: dict[int, tuple[np.ndarray, Op]] = {}
    for each in present:
        for some_where, load in each.parts or ((each.where, each.origin),):
            known = parts.get(id(load))
            if known is not None:
                parts[id(load)] = (known[0] | some_where, load)
            elif len(parts) < MAX_ORIGINS:
                parts[id(load)] = (some_where, load)
    # Of one shape, so that moving the elements of one moves those of the others.
    shaped = ((np.broadcast_to(part, where.shape), load) for part, load in parts.values())
    return Poison(where, origin, tuple(shaped))


def some(where: np.ndarray, origin: Op) -> Poison | None:
    """A poison, or None where nothing is undefined."""
    return Poison(where, origin) if where.any() else None


def spread(frame: Frame, operands: Sequence[int], out: int) -> None:
    """Mark a result of an elementwise operation as undefined where an operand is."""
    frame.mark(out, union([frame.poison.get(slot) for slot in operands]))


def reshaped(
    frame: Frame, source: int, out: int, function: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Move the poison of a value whose elements an operation moves."""
    poison = frame.poison.get(source)
    if poison is not None:
        shape = np.broadcast_shapes(poison.where.shape, frame.values[source].shape)
        poison = poison.moved(lambda where: function(np.broadcast_to(where, shape)))
    frame.mark(out, poison)


def check(state: State, frame: Frame, slot: int, op: Op, mask: np.ndarray | None = None) -> None:
    """Add a finding where an undefined element of a value affects active programs.

    `mask` selects the elements that matter, None: all.
    """
    poison = frame.poison.get(slot)
    if poison is not None:
        report(state, poison, op, mask)


def check_address(state: State, frame: Frame, op: Op, mask: int | None) -> None:
    """Undefined addresses, the first operand, and masks are findings."""
    active = None
    if mask is not None:
        check(state, frame, mask, op)
        active = frame.values[mask]
    check(state, frame, op.operands[0], op, active)


def report(
    state: State,
    poison: Poison,
    op: Op,
    mask: np.ndarray | None = None,
    addresses: np.ndarray | None = None,
    width: int = 0,
) -> None:
    """Add a finding for the undefined elements under `mask` in active programs, if there are any.

    `op` uses them; for stores `addresses` are their targets.
    """
    where = poison.where
    rank = max(where.ndim, 0 if mask is None else mask.ndim) - 1
    active = state.active_as(rank)
    for each in (mask, active):
        if each is not None:
            where = where & each
    if not where.any():
        return
    if addresses is not None:
        shape = np.broadcast_shapes(where.shape, addresses.shape)
        where, addresses = np.broadcast_to(where, shape), np.broadcast_to(addresses, shape)
    first = int(np.argmax(where.reshape(-1)))
    origin = poison.origin_at(first, where.shape)
    row = first // (where.size // len(where))
    state.execution.find(
        "gathered_outside" if origin.name == "tt.gather" else "uninitialised_read",
        origin,
        int(state.linear[row]),
        count=int(np.count_nonzero(where)),
        address=0 if addresses is None else int(addresses.reshape(-1)[first]),
        width=width,
        other=op,
    )
