"""What kernels do to memory while the interpreter runs them, counted as a GPU would.

`Accesses` sees what `Bounds` sees and counts it by line and by argument; it looks at the size of
every block that comes to be, too. How a block is spread over warps: see lanes.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from .bounds import Bounds, addresses_of
from .lanes import requests
from .regions import Region
from .waves import Waves

MAX_SITES = 300  # told; more make the report incomplete
MAX_WAVES = 32  # launches that are told


@dataclass
class Site:
    """The accesses of one kind and width that one line of a kernel made."""

    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    useful_bytes: int = 0
    masked: int = 0


class Accesses(Bounds):
    """One call of the entry, counted while `watching` lasts; `report` is what was seen.

    `path` and `arguments` as for Bounds; `wave` is how many consecutive programs run at once, 0
    where that isn't asked for.
    """

    def __init__(self, path: str, arguments: Sequence[Any], wave: int = 0) -> None:
        super().__init__(path, arguments)
        self.wave = wave
        self.sites: dict[tuple[str, int, str, int], Site] = {}
        self.largest_tile = 0  # elements
        self.tile_line = 0
        self._waves: Waves | None = None
        self._wave_counts: list[dict[str, int]] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what happens inside."""
        made = TensorHandle.__post_init__
        TensorHandle.__post_init__ = self._on_handle(made)
        try:
            with super().watching():
                yield
        finally:
            TensorHandle.__post_init__ = made
            self._end_of_launch()

    def report(self) -> dict[str, Any]:
        """What was seen, as JSON can hold it: the fields of grader/triton_report.py."""
        sites = [
            {"kernel": kernel[:100], "line": line, "kind": kind, "bytes": width, **vars(site)}
            for (kernel, line, kind, width), site in self.sites.items()
        ]
        buffers = [region.counted() for region in self.regions if region.argument is not None]
        return {
            **super().report(),
            "sites": sites[:MAX_SITES],
            "buffers": buffers,
            "waves": self._wave_counts[:MAX_WAVES],
            "largest_tile": self.largest_tile,
            "tile_line": self.tile_line,
            "scratch_bytes": self.scratch_bytes,
            "copied_bytes": self.copied_bytes,
            "cut": self.cut or len(sites) > MAX_SITES or len(self._wave_counts) > MAX_WAVES,
        }

    def launched(self, kernel: str, extent: tuple[int, int, int], values: Any) -> None:
        """As for Bounds; its programs are counted in waves where those are asked for."""
        self._end_of_launch()
        super().launched(kernel, extent, values)
        if self.wave:
            first = 0
            for region in self.regions:
                region.first_sector = first
                first += region.sectors
            self._waves = Waves(self.wave, extent, first)

    def _end_of_launch(self) -> None:
        if self._waves is not None:
            self._wave_counts.append(self._waves.counted())
            self.cut = self.cut or self._waves.cut
            self._waves = None

    def _hooks(self, builder: InterpreterBuilder) -> dict[str, Any]:
        set_grid_idx = builder.set_grid_idx

        def next_program(x, y, z):
            if self._waves is not None:
                self._waves.begin(x, y, z)
            return set_grid_idx(x, y, z)

        return {**super()._hooks(builder), "set_grid_idx": next_program}

    def _on_handle(self, original: Any) -> Any:
        def made(handle: TensorHandle) -> None:
            original(handle)
            size = getattr(handle.data, "size", 1)
            if size > self.largest_tile:
                self.largest_tile, self.tile_line = size, self._line()

        return made

    def _access(self, kind: str, pointers: TensorHandle, mask: TensorHandle | None) -> None:
        addresses, width = addresses_of(pointers)
        asked = requests(addresses, True if mask is None else mask.data, width)
        site = self.sites.setdefault((self._kernel, self._line(), kind, width), Site())
        site.masked += addresses.size - asked.lanes
        if not asked.lanes:
            return
        site.requests += asked.count
        site.lanes += asked.lanes
        site.sectors += asked.sectors
        site.useful_bytes += asked.addresses.size * width
        astray = asked.addresses[(asked.addresses & (width - 1)) != 0]
        if astray.size:
            self._find("misaligned", astray, width)
        self._attribute(kind, asked.addresses, width)

    def _inside(self, kind: str, region: Region, addresses: np.ndarray, width: int) -> None:
        region.add(kind, addresses, width)
        if self._waves is not None:
            self._waves.add(kind, region, addresses)
