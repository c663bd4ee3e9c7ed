"""Observes whether kernels stay inside the elements of their arguments, without counting.

Execution itself checks that accesses stay inside buffers. The gaps between an argument's padded
rows are in its buffer but not in the argument: `Bounds` reports accesses to them, and misaligned
addresses. `Counters` reports the same where accesses are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .findings import Findings, coordinates
from .observer import Observer
from .regions import Regions

if TYPE_CHECKING:
    from .executor import Launch
    from .observer import Access


class Bounds(Observer):
    """Adds accesses outside every region, and misaligned ones, to `findings`."""

    def __init__(self, regions: Regions, findings: Findings) -> None:
        self._regions = regions
        self._findings = findings
        self._kernel = ""
        self._grid = (1, 1, 1)

    def begin(self, launch: Launch) -> None:
        """Begin a launch."""
        self._kernel = launch.module.entry.name
        self._grid = launch.grid

    def access(self, access: Access) -> None:
        """Check an access of a chunk's programs to a block each."""
        compact, width = access.addresses, access.width  # axes of equal elements may have length 1
        if not compact.size:
            return
        low, high = int(compact.min()), int(compact.max()) + width
        whole = self._regions.whole(low, high)
        if whole is not None and not (np.bitwise_or.reduce(compact, axis=None) & (width - 1)):
            return
        addresses = access.full()
        if access.active is None:
            rows = np.repeat(np.arange(len(addresses)), addresses[:1].size)
            addresses = addresses.reshape(-1)
        else:
            active = np.broadcast_to(access.active, addresses.shape)
            rows, addresses = np.nonzero(active)[0], addresses[active]
        owners = access.programs[rows]
        astray = np.flatnonzero(addresses & (width - 1))
        self._find("misaligned", access, owners, addresses, astray)
        for region, chosen in self._regions.attribute(addresses, width):
            if region is None:
                kind = "out_of_bounds_read" if access.kind == "load" else "out_of_bounds_write"
                self._find(kind, access, owners, addresses, chosen)

    def _find(
        self,
        kind: str,
        access: Access,
        owners: np.ndarray,
        addresses: np.ndarray,
        chosen: np.ndarray,
    ) -> None:
        if not chosen.size:
            return
        first = int(chosen[0])
        self._findings.add(
            kind,
            access.op.line[1],
            self._kernel,
            coordinates(int(owners[first]), self._grid),
            count=int(chosen.size),
            address=int(addresses[first]),
            width=access.width,
        )
