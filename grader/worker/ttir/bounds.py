"""Observes whether kernels stay inside the elements of their arguments, without counting.

Execution itself checks that accesses stay inside buffers. The gaps between an argument's padded
rows are in its buffer but not in the argument: `Bounds` reports accesses to them, and misaligned
addresses. `Counters` reports the same where accesses are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .findings import Finder, Findings
from .regions import Regions

if TYPE_CHECKING:
    from .observer import Access


class Bounds(Finder):
    """Adds accesses outside every region, and misaligned ones, to `findings`."""

    def __init__(self, regions: Regions, findings: Findings) -> None:
        super().__init__(findings)
        self._regions = regions

    def access(self, access: Access) -> None:
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
        self._note("misaligned", access, owners, addresses, astray)
        for region, chosen in self._regions.attribute(addresses, width):
            if region is None:
                kind = "out_of_bounds_read" if access.kind == "load" else "out_of_bounds_write"
                self._note(kind, access, owners, addresses, chosen)

    def _note(
        self,
        kind: str,
        access: Access,
        owners: np.ndarray,
        addresses: np.ndarray,
        chosen: np.ndarray,
    ) -> None:
        if chosen.size:
            line, program, address = access.op.line[1], owners[chosen[0]], addresses[chosen[0]]
            place = {"address": int(address), "width": access.width}
            self._find(kind, line, int(program), count=int(chosen.size), **place)
