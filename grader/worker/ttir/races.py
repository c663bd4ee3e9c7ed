"""Data races between the programs of one launch.

Two programs race where they touch one byte, at least one of them writes it, not both by an atomic,
and no atomic orders them (see ordering.py). An atomic of scope "cta" counts as a plain store. Two
stores of the same value are no finding, since kernels set flags that way. The log keeps runs of
neighbouring addresses, not elements, and is evaluated at the end of the launch, so the order in
which programs ran doesn't matter. Where runs of two programs overlap, overlaps.py compares the
elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .access_log import Log, Site
from .accesses import LaneReader, Lanes
from .distinct import distinct
from .findings import Finder, Findings
from .ordering import Ordering, Undecidable
from .overlaps import Pairs, conflicts
from .semantics import access_of, synchronisation

if TYPE_CHECKING:
    from .executor import Launch
    from .observer import Access

MAX_RUNS = 1 << 24  # of neighbouring addresses, in one launch


class Races(Finder):
    """Finds data races between the programs of a launch; of one that is too large not all."""

    def __init__(self, findings: Findings, *, reader: LaneReader | None = None) -> None:
        super().__init__(findings)
        self._reader = reader or LaneReader()
        self._programs = 1
        self._log = Log()
        self._ordering = Ordering(1)

    def begin(self, launch: Launch) -> None:
        super().begin(launch)
        self._programs = int(np.prod(launch.grid, dtype=np.int64))
        self._log = Log()
        self._ordering = Ordering(self._programs)

    def access(self, access: Access) -> None:
        if self._programs == 1:
            return
        sync = synchronisation(access.op, access.kind)
        if sync is None and not access.may_race:
            return
        lanes = self._reader.lanes(access)
        if self._log.runs < MAX_RUNS:
            stamps = self._ordering.stamps[lanes.programs]
            site = Site(access.op.line[1], access_of(access.op, access.kind))
            self._log.add(lanes, site, stamps, sync is not None)
        else:
            self._undecided(f"a search for data races in more than {MAX_RUNS:,} runs of addresses")
        if sync is not None:
            self._synchronise(lanes, sync)

    def end(self) -> None:
        """Compare the accesses of the launch's programs."""
        log, self._log = self._log, Log()
        self._reader.forget()
        for pairs in conflicts(log):
            try:
                ordered = self._ordering.ordered(
                    (pairs.programs[0], pairs.stamps[0]), (pairs.programs[1], pairs.stamps[1])
                )
            except Undecidable as error:
                self._undecided(str(error))
                return
            self._report(pairs, np.flatnonzero(~ordered))

    def _undecided(self, reason: str) -> None:
        self._findings.undecided = self._findings.undecided or reason

    def _synchronise(self, lanes: Lanes, sync: Any) -> None:
        if lanes.active is None:
            rows = np.repeat(np.arange(len(lanes.programs)), lanes.addresses.shape[1])
            addresses = lanes.addresses.reshape(-1)
        else:
            rows, _ = np.nonzero(lanes.active)
            addresses = lanes.addresses[lanes.active]
        self._ordering.add(addresses, rows, lanes.programs, sync)

    def _report(self, pairs: Pairs, chosen: np.ndarray) -> None:
        """Add a finding for each pair of lines."""
        keys = pairs.sites[0][chosen].astype(np.int64) << 32 | pairs.sites[1][chosen]
        by_lines: dict[tuple[int, int], list[np.ndarray]] = {}
        for key in distinct(keys):
            alike = chosen[keys == key]
            mine, other = self._sides(pairs, int(alike[0]))
            by_lines.setdefault((mine[0], other[0]), []).append(alike)
        for groups in by_lines.values():
            first = int(groups[0][0])
            self._find_race(
                *self._sides(pairs, first),
                count=int(distinct(pairs.addresses[np.concatenate(groups)]).size),
                address=int(pairs.addresses[first]),
                width=pairs.unit,
            )

    def _sides(self, pairs: Pairs, index: int) -> tuple[tuple[int, str, int], tuple[int, str, int]]:
        """(line, kind, program) of a pair's accesses: the later write, or the only one, first."""
        earlier, later = (
            (pairs.site(side, index).line, pairs.site(side, index).kind, int(programs[index]))
            for side, programs in enumerate(pairs.programs)
        )
        return (later, earlier) if later[1] != "load" else (earlier, later)
