"""Counts kernels' accesses to memory, by line and by argument.

A request moves the distinct 32-byte sectors that its active lanes touch; the distinct bytes that
they ask for are the useful ones. Two rules make requests of an access:

    by elements   32 elements of a block, in the order of accesses.py, are one; a scalar is one.
                  Metrics use this rule, so that points depend on a block's place in memory, and
                  not on the compiler's version.
    as compiled   an instruction of a warp is one, as ncu counts on a GPU: see warp_requests.py. The
                  counters of lines use it where the compiled kernel is known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .accesses import LaneReader, Requests
from .distinct import distinct
from .findings import MAX_KERNEL, Finder, Findings
from .records import Records
from .regions import SECTOR_BYTES, Regions
from .warp_requests import Layouts, WarpRequests
from .waves import Waves

if TYPE_CHECKING:
    from .executor import Launch
    from .observer import Access

MAX_SITES = 300  # of a report; more make it incomplete
MAX_WAVES = 32  # launches of a report


@dataclass
class Site:
    """The accesses of one kind and width by one line of a kernel.

    `compiled` are the requests of the compiled kernel; None where its layout is unknown.
    """

    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    useful_bytes: int = 0
    masked: int = 0
    compiled: WarpRequests | None = None


class Counters(Finder):
    """The counters of one call of the entry.

    `wave` is the number of consecutive programs that run at once, 0 without waves. Accesses outside
    of every region are added to `findings`, and all of them to `records`, where there are any.
    """

    def __init__(
        self,
        regions: Regions,
        findings: Findings,
        *,
        wave: int = 0,
        reader: LaneReader | None = None,
        records: Records | None = None,
    ) -> None:
        super().__init__(findings)
        self.cut = False
        self.largest_tile = 0  # elements
        self.tile_line = 0
        self._regions = regions
        self._wave = wave
        self._reader = reader or LaneReader()
        self._records = records
        self._sites: dict[tuple[str, int, str, int, bool], Site] = {}
        self._layouts: Layouts | None = None  # of the current kernel
        self._waves: Waves | None = None
        self._wave_counts: list[dict[str, int]] = []
        self._footprints = Footprints(0)  # of the launch's programs
        self._largest_bytes = 0
        self._largest_footprint = 0
        self._most_programs = 0
        self._storing = np.zeros(0, dtype=bool)  # whether each program of the launch stores
        self._most_storing = 0
        self._returned_bytes = 0

    def begin(self, launch: Launch) -> None:
        super().begin(launch)
        self._layouts = launch.layouts
        programs = int(np.prod(launch.grid, dtype=np.int64))
        self._most_programs = max(self._most_programs, programs)
        self._footprints = Footprints(programs)
        self._storing = np.zeros(programs, dtype=bool)
        if self._wave:
            self._waves = Waves(self._wave, programs)
        if self._records is not None:
            self._records.begin(launch)

    def end(self) -> None:
        if self._records is not None:
            self._records.end()
        self._largest_bytes += int(self._footprints.moved.max(initial=0))
        self._largest_footprint += self._footprints.largest()
        self._footprints = Footprints(0)
        self._most_storing = max(self._most_storing, int(np.count_nonzero(self._storing)))
        if self._waves is not None:
            self._wave_counts.append(self._waves.counted())
            self.cut = self.cut or self._waves.cut
            self._waves = None

    def value(self, op: Any, size: int) -> None:
        if size > self.largest_tile:
            self.largest_tile, self.tile_line = size, op.line[1]

    def access(self, access: Access) -> None:
        line, kind = access.op.line[1], access.kind
        requests = self._reader.requests(access)
        compiled = None if self._layouts is None else self._layouts.counted(access)
        key = (self._kernel[:MAX_KERNEL], line, kind, requests.width, compiled is not None)
        site = self._sites.setdefault(key, Site())
        if compiled is not None:
            site.compiled = site.compiled or WarpRequests()
            site.compiled.add(compiled)
        site.masked += self._reader.lanes(access).addresses.size - requests.lanes
        if not requests.lanes:
            return
        site.requests += requests.count
        site.lanes += requests.lanes
        site.sectors += requests.sectors
        site.useful_bytes += requests.distinct().size * requests.width
        if self._records is not None:
            self._records.add(kind, line, self._reader.lanes(access), requests)
        moved = requests.distinct_of_programs() * requests.width
        self._footprints.add(kind, requests, moved)
        if kind == "atomic" and access.op.used:
            self._returned_bytes += requests.distinct().size * requests.width
        if kind != "load":
            self._storing[requests.programs[moved > 0]] = True
        astray = requests.misaligned()
        if astray.size:
            self._note("misaligned", line, requests, astray)
        self._attribute(kind, line, requests)

    def report(self) -> dict[str, Any]:
        """The counters as JSON: fields of executors/triton/triton_report.py's Report."""
        sites = [
            {"kernel": kernel, "line": line, "kind": kind, "bytes": width, **asdict(site)}
            for (kernel, line, kind, width, _), site in self._sites.items()
        ]
        return {
            "sites": sites[:MAX_SITES],
            "buffers": [region.counted() for region in self._regions.arguments],
            "waves": self._wave_counts[:MAX_WAVES],
            "largest_tile": self.largest_tile,
            "tile_line": self.tile_line,
            "scratch_bytes": self._regions.scratch_bytes,
            "scratch_stored_bytes": self._regions.scratch_stored_bytes,
            "largest_bytes": self._largest_bytes,
            "largest_footprint": self._largest_footprint,
            "programs": self._most_programs,
            "storing_programs": self._most_storing,
            "returned_bytes": self._returned_bytes,
            "cut": self.cut or len(sites) > MAX_SITES or len(self._wave_counts) > MAX_WAVES,
        }

    def _attribute(self, kind: str, line: int, requests: Requests) -> None:
        """Count by region; an access outside of all is a finding."""
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
                    self._note(name, line, requests, chosen)
                continue
            region.add(kind, addresses[chosen], requests.width)
            if self._waves is not None:
                self._waves.add_some(kind, region, requests, chosen)

    def _note(self, kind: str, line: int, requests: Requests, chosen: np.ndarray) -> None:
        program = int(requests.programs_of_distinct()[chosen[0]])
        place = {"address": int(requests.distinct()[chosen[0]]), "width": requests.width}
        self._find(kind, line, program, count=int(chosen.size), **place)


MAX_KEYS = 1 << 24  # of a program and a sector that it touches, in one launch
COMPACT_AT = 1 << 21  # keys, beyond which duplicates are dropped
# A key is a program, whether it loads, and a sector's number: buffers lie within 2**44 bytes.
_LOADS = 1 << 39
_PROGRAM_BIT = 40
MAX_PROGRAMS = 1 << (63 - _PROGRAM_BIT)


class Footprints:
    """The bytes that each program of one launch moves, and how many of them are different ones.

    A program that does all of the work touches all of a case's bytes. One that goes over its own
    part again and again, as a stencil does, touches no more than that part.

    Different bytes are counted by whole sectors, which is cheaper by far, and never as more than a
    program moves. A sector that is loaded and stored counts twice, as it does in what a case needs.
    """

    def __init__(self, programs: int) -> None:
        self.moved = np.zeros(programs, dtype=np.int64)
        self._cut = programs > MAX_PROGRAMS  # too many to keep
        self._keys: list[np.ndarray] = []  # the first of them without duplicates
        self._pending = 0

    def add(self, kind: str, requests: Requests, moved: np.ndarray) -> None:
        """Add requests, with the bytes that each of their programs moves."""
        np.add.at(self.moved, requests.programs, moved)
        if self._cut:
            return
        programs, sectors = requests.moved_sectors()
        keys = (programs << _PROGRAM_BIT) + (sectors & (_LOADS - 1))
        self._keys.append(keys + _LOADS if kind == "load" else keys)
        self._pending += keys.size
        if self._pending > max(COMPACT_AT, self._keys[0].size):
            self._compact()

    def largest(self) -> int:
        """The different bytes of the program that touches the most; all that it moves if cut."""
        keys = self._compact()
        if self._cut:
            return int(self.moved.max(initial=0))
        touched = np.bincount(keys >> _PROGRAM_BIT, minlength=self.moved.size) * SECTOR_BYTES
        return int(np.minimum(touched, self.moved).max(initial=0))

    def _compact(self) -> np.ndarray:
        keys = distinct(np.concatenate(self._keys)) if self._keys else np.empty(0, np.int64)
        self._cut = self._cut or keys.size > MAX_KEYS
        self._keys, self._pending = [] if self._cut else [keys], 0
        return keys
