"""Happens-before: the accesses of two programs that atomics order, by the PTX memory model.

A releasing atomic publishes what its program did before. A later acquiring atomic on the same
address, whose result its program uses, comes after all of that. Chains of such pairs order accesses
(a lock, a counter that finds the last program). An atomic whose result isn't used acquires nothing,
since it can't inform its program.

A program's time is its stamp: the number of ordering atomics it has executed. Nothing is computed
until `Ordering.ordered` asks about pairs of accesses that would otherwise race.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .distinct import distinct

_COLUMNS = ("address", "program", "stamp", "acquires", "releases")  # of events
MAX_EVENTS = 1 << 18  # of one launch: an address and a program that orders by it
MAX_CELLS = 1 << 26  # of all vector clocks in memory


class Undecidable(Exception):
    """A launch has too many ordering atomics."""


@dataclass(frozen=True)
class Synchronisation:
    """The accesses that an atomic orders."""

    acquires: bool
    releases: bool


@dataclass(frozen=True)
class _Events:
    """One atomic instruction of a chunk; entry i is one address of program `programs[i]`."""

    addresses: np.ndarray
    programs: np.ndarray
    stamps: np.ndarray
    kind: Synchronisation


class Ordering:
    """The ordering atomics of one launch, in the order of execution."""

    def __init__(self, programs: int) -> None:
        self.stamps = np.zeros(programs, dtype=np.int32)
        self._events: list[_Events] = []

    def add(
        self,
        addresses: np.ndarray,
        rows: np.ndarray,
        programs: np.ndarray,
        kind: Synchronisation,
    ) -> None:
        """Add an atomic of programs: address i belongs to program `programs[rows[i]]`."""
        owners = programs[rows]
        self._events.append(_Events(addresses, owners, self.stamps[owners], kind))
        self.stamps[programs] += 1

    def ordered(
        self,
        sources: tuple[np.ndarray, np.ndarray],
        targets: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """bool, for each pair: whether the source's work at its stamp comes first.

        `sources` and `targets` are (programs, stamps). Raises Undecidable.
        """
        events = self._relevant()
        if events is None or not len(sources[0]):
            return np.zeros(len(sources[0]), dtype=bool)
        pairs = np.stack([*sources, *targets], axis=1).astype(np.int64)
        different, back = np.unique(pairs, axis=0, return_inverse=True)
        return _Clocks(events, different).answers()[back.reshape(-1)]

    def _relevant(self) -> dict[str, np.ndarray] | None:
        """The events at addresses that some program acquires from, as columns, or None."""
        acquired = [each.addresses for each in self._events if each.kind.acquires]
        if not acquired:
            return None
        known = distinct(np.concatenate(acquired))
        rows = []
        for each in self._events:
            place = np.searchsorted(known, each.addresses)
            place = np.minimum(place, known.size - 1)
            chosen = known[place] == each.addresses
            kinds = (each.kind.acquires, each.kind.releases)
            whole_row = (place, each.programs, each.stamps, *kinds)
            rows.append([np.broadcast_to(part, chosen.shape)[chosen] for part in whole_row])
        whole = dict(zip(_COLUMNS, map(np.concatenate, zip(*rows, strict=True)), strict=True))
        if whole["address"].size > MAX_EVENTS:
            raise Undecidable(
                f"a search for data races where more than {MAX_EVENTS:,} atomics order programs"
            )
        return whole


class _Clocks:
    """Vector clocks along the events of a launch, for distinct pairs (p, stamp, q, stamp).

    A clock has a column for each program that is the source of a pair: 0, or one more than the
    stamp up to which the clock's owner knows that program's work.
    """

    def __init__(self, events: dict[str, np.ndarray], pairs: np.ndarray) -> None:
        self._events = events
        self._pairs = pairs
        sources = distinct(pairs[:, 0])
        self._column = {int(program): column for column, program in enumerate(sources)}
        self._columns = len(sources)
        self._of_program: dict[int, np.ndarray] = {}
        self._of_address: dict[int, np.ndarray] = {}
        self._answers = np.zeros(len(pairs), dtype=bool)
        self._waiting = self._queries()
        self._last_release = self._last_releases()

    def answers(self) -> np.ndarray:
        """bool for each pair: whether the source comes first."""
        for event in zip(*(self._events[name].tolist() for name in _COLUMNS), strict=True):
            _, program, stamp, *_ = event
            self._answer(program, stamp)
            self._step(*event)
        for program in list(self._waiting):
            self._answer(program, None)
        return self._answers

    def _queries(self) -> dict[int, list[tuple[int, np.ndarray]]]:
        """For each target program: (stamp, indices of pairs), the latest first."""
        order = np.lexsort((self._pairs[:, 3], self._pairs[:, 2]))
        ordered = self._pairs[order]
        changed = (np.diff(ordered[:, 2:], axis=0) != 0).any(axis=1)
        groups = np.split(order, np.flatnonzero(changed) + 1)
        queries: dict[int, list[tuple[int, np.ndarray]]] = {}
        for group in reversed(groups):
            _, _, program, stamp = self._pairs[group[0]].tolist()
            queries.setdefault(program, []).append((stamp, group))
        return queries

    def _last_releases(self) -> dict[int, int]:
        """For each program, the stamp of its last event that releases."""
        releasing = self._events["releases"]
        programs = self._events["program"][releasing].tolist()
        return dict(zip(programs, self._events["stamp"][releasing].tolist(), strict=True))

    def _answer(self, program: int, before: int | None) -> None:
        """Answer the queries about a program's accesses up to the event with stamp `before`."""
        queries = self._waiting.get(program)
        while queries and (before is None or queries[-1][0] <= before):
            _, indices = queries.pop()
            clock = self._of_program.get(program)
            if clock is not None:
                columns = [self._column[each] for each in self._pairs[indices, 0].tolist()]
                self._answers[indices] = clock[columns] > self._pairs[indices, 1]
        if not queries:
            self._waiting.pop(program, None)

    def _step(self, address: int, program: int, stamp: int, acquires: bool, releases: bool) -> None:
        shared = self._of_address.get(address)
        needed = program in self._waiting or self._last_release.get(program, -1) > stamp
        mine = self._of_program.get(program)
        if acquires and shared is not None and needed:
            mine = self._of_program[program] = self._merged(mine, shared)
        if releases:
            if shared is None:
                shared = self._of_address[address] = self._fresh()
            if mine is not None:
                np.maximum(shared, mine, out=shared)
            column = self._column.get(program)
            if column is not None:
                shared[column] = max(int(shared[column]), stamp + 1)
        if not needed:
            self._of_program.pop(program, None)

    def _merged(self, mine: np.ndarray | None, shared: np.ndarray) -> np.ndarray:
        if mine is None:
            self._check_room()
            return np.array(shared)
        np.maximum(mine, shared, out=mine)
        return mine

    def _fresh(self) -> np.ndarray:
        self._check_room()
        return np.zeros(self._columns, dtype=np.int32)

    def _check_room(self) -> None:
        alive = len(self._of_program) + len(self._of_address) + 1
        if alive * self._columns > MAX_CELLS:
            raise Undecidable(f"a search for data races by more than {MAX_CELLS:,} clocks")
