"""What kernels do to memory, counted by line and by argument as ncu counts on a GPU.

A request is one instruction of one warp; it moves the distinct 32-byte sectors that its active
lanes touch, and the distinct bytes that they ask for are the useful ones. How a block is spread
over warps follows accesses.py, or the layout that the compiler chose where layouts are given.
Differences to a GPU's counters under the first rule: a lane there may take up to 16 bytes, which
makes fewer requests of the same sectors; a scalar is one request here and one per warp there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .accesses import LaneReader, Requests
from .findings import MAX_KERNEL, Findings, coordinates
from .layouts import Layouts
from .observer import Observer
from .regions import Regions
from .waves import Waves

if TYPE_CHECKING:
    from .executor import Launch
    from .observer import Access

MAX_SITES = 300  # of a report; more make it incomplete
MAX_WAVES = 32  # launches of a report


@dataclass
class Site:
    """The accesses of one kind and width that one line of a kernel made."""

    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    useful_bytes: int = 0
    masked: int = 0


class Counters(Observer):
    """The counters of one call of the entry.

    `wave` is how many consecutive programs run at once, 0 where waves aren't asked for. `layouts`
    has the compiled kernels' layouts by name of the kernel. What lies outside every region is
    added to `findings`.
    """

    def __init__(
        self,
        regions: Regions,
        findings: Findings,
        *,
        wave: int = 0,
        layouts: dict[str, Layouts] | None = None,
        reader: LaneReader | None = None,
    ) -> None:
        self.cut = False
        self.largest_tile = 0  # elements
        self.tile_line = 0
        self._regions = regions
        self._findings = findings
        self._wave = wave
        self._layouts = layouts or {}
        self._reader = reader or LaneReader()
        self._sites: dict[tuple[str, int, str, int], Site] = {}
        self._kernel = ""
        self._grid = (1, 1, 1)
        self._waves: Waves | None = None
        self._wave_counts: list[dict[str, int]] = []

    def begin(self, launch: Launch) -> None:
        """A launch begins."""
        self._kernel = launch.module.entry.name
        self._grid = launch.grid
        if self._wave:
            self._waves = Waves(self._wave, int(np.prod(launch.grid, dtype=np.int64)))

    def end(self) -> None:
        """The launch ended."""
        if self._waves is not None:
            self._wave_counts.append(self._waves.counted())
            self.cut = self.cut or self._waves.cut
            self._waves = None

    def value(self, op: Any, size: int) -> None:
        """A block of `size` elements came to be."""
        if size > self.largest_tile:
            self.largest_tile, self.tile_line = size, op.line[1]

    def access(self, access: Access) -> None:
        """Programs of a chunk access a block each."""
        line, kind = access.op.line[1], access.kind
        layout = self._layout_of(access)
        if layout is None:
            requests = self._reader.requests(access)
            elements = self._reader.lanes(access).addresses.size
        else:
            requests = layout.requests(access)
            elements = requests.addresses.size
        key = (self._kernel[:MAX_KERNEL], line, kind, requests.width)
        site = self._sites.setdefault(key, Site())
        site.masked += elements - requests.lanes
        if not requests.lanes:
            return
        site.requests += requests.count
        site.lanes += requests.lanes
        site.sectors += requests.sectors
        site.useful_bytes += requests.distinct().size * requests.width
        astray = requests.misaligned()
        if astray.size:
            self._find("misaligned", line, requests, astray)
        self._attribute(kind, line, requests)

    def report(self) -> dict[str, Any]:
        """The counters, as JSON can hold them: fields of grader/triton_report.py's Report."""
        sites = [
            {"kernel": kernel, "line": line, "kind": kind, "bytes": width, **vars(site)}
            for (kernel, line, kind, width), site in self._sites.items()
        ]
        return {
            "sites": sites[:MAX_SITES],
            "buffers": [region.counted() for region in self._regions.arguments],
            "waves": self._wave_counts[:MAX_WAVES],
            "largest_tile": self.largest_tile,
            "tile_line": self.tile_line,
            "scratch_bytes": self._regions.scratch_bytes,
            "cut": self.cut or len(sites) > MAX_SITES or len(self._wave_counts) > MAX_WAVES,
        }

    def _layout_of(self, access: Access) -> Any:
        layouts = self._layouts.get(self._kernel)
        return None if layouts is None else layouts.of(access)

    def _attribute(self, kind: str, line: int, requests: Requests) -> None:
        """Count by region; what lies in none is a finding."""
        whole = self._regions.whole(*requests.span())
        if whole is not None:
            whole.add(kind, requests.distinct(), requests.width)
            if self._waves is not None:
                self._waves.add(kind, whole, requests)
            return
        addresses = requests.distinct()
        for region, chosen in self._regions.attribute(addresses, requests.width):
            if region is None:
                if chosen.size:
                    name = "out_of_bounds_read" if kind == "load" else "out_of_bounds_write"
                    self._find(name, line, requests, chosen)
                continue
            region.add(kind, addresses[chosen], requests.width)
            if self._waves is not None:
                self._waves.add_some(kind, region, requests, chosen)

    def _find(self, kind: str, line: int, requests: Requests, chosen: np.ndarray) -> None:
        first = int(chosen[0])
        program = int(requests.programs_of_distinct()[first])
        self._findings.add(
            kind,
            line,
            self._kernel,
            coordinates(program, self._grid),
            count=int(chosen.size),
            address=int(requests.distinct()[first]),
            width=requests.width,
        )
