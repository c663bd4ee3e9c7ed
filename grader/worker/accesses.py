"""What kernels do to memory while the interpreter runs them, counted as a GPU would.

`Accesses` watches one call of the entry through the interpreter's builder: pointers and mask of
every `tl.load`, `tl.store` and atomic of every program, and the size of every block that comes to
be. How a block is spread over warps: see lanes.py. Nothing is patched outside `with`, so that other
runs cost nothing.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as upstream
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from . import regions
from .allocations import Allocations, tensors
from .lanes import requests
from .regions import Region
from .waves import Waves

MAX_SITES = 300  # told; more make the report incomplete
MAX_FINDINGS = 8
MAX_WAVES = 32  # launches that are told
MAX_SCRATCH = 256  # allocations

# The parts of upstream that are watched, with the parameters that are looked at.
WATCHED = {
    (InterpreterBuilder, "create_masked_load"): ("ptrs", "mask"),
    (InterpreterBuilder, "create_masked_store"): ("ptrs", "value", "mask"),
    (InterpreterBuilder, "create_atomic_rmw"): ("rmwOp", "ptr", "val", "mask"),
    (InterpreterBuilder, "create_atomic_cas"): ("ptr", "cmp", "val"),
    (InterpreterBuilder, "set_grid_idx"): ("x", "y", "z"),
    (TensorHandle, "__post_init__"): (),
}

_watching: Accesses | None = None


def launched(kernel: str, extent: tuple[int, int, int], values: Any) -> None:
    """A kernel is about to run over a grid, with these arguments."""
    if _watching is not None:
        _watching.launched(kernel, extent, values)


def upstream_trouble() -> str:
    """How the builder differs from the one this was written for; "" where it doesn't."""
    for (owner, name), wanted in WATCHED.items():
        method = getattr(owner, name, None)
        if method is None:
            return f"{owner.__name__}.{name} is gone"
        # A patched method keeps the original's signature (functools.wraps).
        have = tuple(inspect.signature(method).parameters)[1 : 1 + len(wanted)]
        if have != wanted:
            return f"{owner.__name__}.{name} takes {have}, not {wanted}"
    return ""


@dataclass
class Site:
    """The accesses of one kind and width that one line of a kernel made."""

    requests: int = 0
    lanes: int = 0
    sectors: int = 0
    useful_bytes: int = 0
    masked: int = 0


@dataclass
class Accesses:
    """One call of the entry, watched while `with` lasts; `report` is what was seen.

    `path` is the submission's file, `arguments` what the entry is called with; `wave` is how many
    consecutive programs run at once, 0 where that isn't asked for.
    """

    path: str
    arguments: Sequence[Any]
    wave: int = 0
    regions: list[Region] = field(default_factory=list)
    sites: dict[tuple[str, int, str, int], Site] = field(default_factory=dict)
    findings: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    largest_tile: int = 0
    tile_line: int = 0
    scratch_bytes: int = 0
    copied_bytes: int = 0
    cut: bool = False

    def __post_init__(self) -> None:
        self._kernel = ""
        self._waves: Waves | None = None
        self._wave_counts: list[dict[str, int]] = []
        self._given: list[Region] = []  # the memory that arguments lie in, guard zones included
        self._kept: list[Any] = []  # scratch stays alive, so that no address is used twice
        for index, value in enumerate(self.arguments):
            if isinstance(value, torch.Tensor):
                self.regions.append(regions.of_argument(index, value))
                self._given.append(regions.of_storage(value))

    # --- watching --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what happens inside."""
        global _watching
        builder = upstream.interpreter_builder
        made = TensorHandle.__post_init__
        hooks = self._hooks(builder)
        for name, hook in hooks.items():
            setattr(builder, name, hook)
        TensorHandle.__post_init__ = self._on_handle(made)
        _watching = self
        try:
            with Allocations(self.own) as allocations:
                yield
            self.copied_bytes = allocations.copied_bytes
        finally:
            _watching = None
            TensorHandle.__post_init__ = made
            for name in hooks:
                delattr(builder, name)
            self._end_of_launch()

    def _hooks(self, builder: InterpreterBuilder) -> dict[str, Any]:
        load, store = builder.create_masked_load, builder.create_masked_store
        rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas
        set_grid_idx = builder.set_grid_idx

        def create_masked_load(ptrs, mask, *others, **named):
            self._access("load", ptrs, mask)
            return load(ptrs, mask, *others, **named)

        def create_masked_store(ptrs, value, mask, *others, **named):
            self._access("store", ptrs, mask)
            return store(ptrs, value, mask, *others, **named)

        def create_atomic_rmw(rmwOp, ptr, val, mask, *others, **named):
            self._access("atomic", ptr, mask)
            return rmw(rmwOp, ptr, val, mask, *others, **named)

        def create_atomic_cas(ptr, cmp, val, *others, **named):
            self._access("atomic", ptr, None)
            return cas(ptr, cmp, val, *others, **named)

        def next_program(x, y, z):
            if self._waves is not None:
                self._waves.begin(x, y, z)
            return set_grid_idx(x, y, z)

        return {
            "create_masked_load": create_masked_load,
            "create_masked_store": create_masked_store,
            "create_atomic_rmw": create_atomic_rmw,
            "create_atomic_cas": create_atomic_cas,
            "set_grid_idx": next_program,
        }

    def _on_handle(self, original: Any) -> Any:
        def made(handle: TensorHandle) -> None:
            original(handle)
            size = getattr(handle.data, "size", 1)
            if size > self.largest_tile:
                self.largest_tile, self.tile_line = size, self._line()

        return made

    def launched(self, kernel: str, extent: tuple[int, int, int], values: Any) -> None:
        """Note which kernel runs, and tensors of the entry's own that it is given."""
        self._end_of_launch()
        self._kernel = kernel
        for tensor in tensors(values):
            self.own(tensor)
        if self.wave:
            first = 0
            for region in self.regions:
                region.first_sector = first
                first += region.sectors
            self._waves = Waves(self.wave, extent, first)

    def own(self, tensor: torch.Tensor) -> None:
        """A tensor of the entry's: scratch, unless it is an argument or known already."""
        found = regions.of_storage(tensor)
        known = (each.holds_span(found.start, found.end) for each in (*self._given, *self.regions))
        if found.start == found.end or any(known):
            return
        if len(self._kept) >= MAX_SCRATCH:
            self.cut = True
            return
        self._kept.append(tensor.untyped_storage())
        self.regions.append(found)
        self.scratch_bytes += found.end - found.start

    def _end_of_launch(self) -> None:
        if self._waves is not None:
            self._wave_counts.append(self._waves.counted())
            self.cut = self.cut or self._waves.cut
            self._waves = None

    # --- one access ------------------------------------------------------------------------------

    def _access(self, kind: str, pointers: TensorHandle, mask: TensorHandle | None) -> None:
        width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        addresses = np.asarray(pointers.data).astype(np.int64)
        asked = requests(addresses, True if mask is None else mask.data, width)
        site = self.sites.setdefault((self._kernel, self._line(), kind, width), Site())
        site.masked += addresses.size - asked.lanes
        if not asked.lanes:
            return
        distinct = asked.addresses
        site.requests += asked.count
        site.lanes += asked.lanes
        site.sectors += asked.sectors
        site.useful_bytes += distinct.size * width
        astray = distinct[(distinct & (width - 1)) != 0]
        if astray.size:
            self._find("misaligned", astray, width)
        self._attribute(kind, distinct, width)

    def _attribute(self, kind: str, addresses: np.ndarray, width: int) -> None:
        """Count the accesses to the regions they lie in; what lies in none is a finding."""
        low, high = int(addresses.min()), int(addresses.max()) + width
        for region in self.regions:
            if high <= region.start or low >= region.end:
                continue
            if region.holds_span(low, high) and not region.steps:
                inside, addresses = addresses, addresses[:0]
            else:
                held = region.holds(addresses, width)
                inside, addresses = addresses[held], addresses[~held]
            if inside.size:
                region.add(kind, inside, width)
                if self._waves is not None:
                    self._waves.add(kind, region, inside)
            if not addresses.size:
                return
        kinds = {"load": "out_of_bounds_read"}
        self._find(kinds.get(kind, "out_of_bounds_write"), addresses, width)

    def _find(self, kind: str, addresses: np.ndarray, width: int) -> None:
        """Something wrong: told for its first address, beside the nearest argument."""
        key = (kind, self._line())
        if key in self.findings:
            self.findings[key]["count"] += addresses.size
        elif len(self.findings) < MAX_FINDINGS:
            address = int(addresses[0])
            given = [each for each in self.regions if each.argument is not None]
            near = min(given, key=lambda each: _distance(each, address), default=None)
            self.findings[key] = {
                "kind": kind,
                "line": key[1],
                "kernel": self._kernel,
                "count": int(addresses.size),
                "program": list(upstream.interpreter_builder.grid_idx),
                "argument": None if near is None else near.argument,
                "offset": 0 if near is None else address - near.start,
                "bytes": width,
            }

    def _line(self) -> int:
        """The innermost line of the submission's file that is being run."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename != self.path:
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno

    # --- telling ---------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """What was seen, as JSON can hold it: the fields of grader/triton_report.py."""
        sites = [
            {"kernel": kernel[:100], "line": line, "kind": kind, "bytes": width, **vars(site)}
            for (kernel, line, kind, width), site in self.sites.items()
        ]
        buffers = [
            {
                "argument": region.argument,
                "load_bytes": region.loads,
                "store_bytes": region.stores,
                "distinct_load_bytes": int(np.count_nonzero(region.loaded)) * region.itemsize,
                "distinct_store_bytes": int(np.count_nonzero(region.stored)) * region.itemsize,
            }
            for region in self.regions
            if region.argument is not None
        ]
        return {
            "sites": sites[:MAX_SITES],
            "buffers": buffers,
            "findings": list(self.findings.values()),
            "waves": self._wave_counts[:MAX_WAVES],
            "largest_tile": self.largest_tile,
            "tile_line": self.tile_line,
            "scratch_bytes": self.scratch_bytes,
            "copied_bytes": self.copied_bytes,
            "cut": self.cut or len(sites) > MAX_SITES or len(self._wave_counts) > MAX_WAVES,
        }


def _distance(region: Region, address: int) -> int:
    return max(region.start - address, address - region.end, 0)
