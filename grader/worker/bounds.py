"""Whether kernels stay inside their tensors, while the interpreter runs them.

`Bounds` watches one call of the entry through the interpreter's builder: pointers and mask of every
`tl.load`, `tl.store` and atomic. An element under the mask that lies in no tensor argument (in a
guard zone, or between padded rows) and in no memory of the entry's own is a finding, whatever
becomes of its value: on a GPU the read may hit a page that isn't there.

Nothing is patched outside `with`.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter as upstream
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from . import regions
from .allocations import Allocations, tensors
from .regions import Region

MAX_FINDINGS = 8
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

_watching: Bounds | None = None


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


class Bounds:
    """One call of the entry, watched while `watching` lasts; `report` is what was seen.

    `path` is the submission's file, `arguments` what the entry is called with.
    """

    def __init__(self, path: str, arguments: Sequence[Any]) -> None:
        self.path = path
        self.regions: list[Region] = []
        self.findings: dict[tuple[str, int], dict[str, Any]] = {}
        self.scratch_bytes = 0
        self.copied_bytes = 0
        self.cut = False  # whether something found no room
        self._kernel = ""
        self._given: list[Region] = []  # the memory that arguments lie in, guard zones included
        self._kept: list[Any] = []  # scratch stays alive, so that no address is used twice
        for index, value in enumerate(arguments):
            if isinstance(value, torch.Tensor):
                self.regions.append(regions.of_argument(index, value))
                self._given.append(regions.of_storage(value))

    def report(self) -> dict[str, Any]:
        """The findings, as JSON can hold them: see grader/triton_report.py."""
        return {"findings": list(self.findings.values())}

    # --- watching --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what happens inside."""
        global _watching
        builder = upstream.interpreter_builder
        hooks = self._hooks(builder)
        for name, hook in hooks.items():
            setattr(builder, name, hook)
        _watching = self
        try:
            with Allocations(self.own) as allocations:
                yield
            self.copied_bytes = allocations.copied_bytes
        finally:
            _watching = None
            for name in hooks:
                delattr(builder, name)

    def _hooks(self, builder: InterpreterBuilder) -> dict[str, Any]:
        load, store = builder.create_masked_load, builder.create_masked_store
        rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

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

        return {
            "create_masked_load": create_masked_load,
            "create_masked_store": create_masked_store,
            "create_atomic_rmw": create_atomic_rmw,
            "create_atomic_cas": create_atomic_cas,
        }

    def launched(self, kernel: str, extent: tuple[int, int, int], values: Any) -> None:
        """Note which kernel runs, and tensors of the entry's own that it is given."""
        self._kernel = kernel
        for tensor in tensors(values):
            self.own(tensor)

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

    # --- one access ------------------------------------------------------------------------------

    def _access(self, kind: str, pointers: TensorHandle, mask: TensorHandle | None) -> None:
        """A block is accessed where its mask is true; None masks nothing."""
        addresses, width = addresses_of(pointers)
        low, high = int(addresses.min()), int(addresses.max()) + width
        if any(each.holds_span(low, high) and not each.steps for each in self.regions):
            return
        if mask is not None:
            addresses = addresses[np.broadcast_to(mask.data, addresses.shape)]
        if addresses.size:
            self._attribute(kind, addresses.reshape(-1), width)

    def _attribute(self, kind: str, addresses: np.ndarray, width: int) -> None:
        """Find the regions that addresses lie in; what lies in none is a finding."""
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
                self._inside(kind, region, inside, width)
            if not addresses.size:
                return
        if self.cut:
            return  # it may be scratch that there was no room for
        kinds = {"load": "out_of_bounds_read"}
        self._find(kinds.get(kind, "out_of_bounds_write"), addresses, width)

    def _inside(self, kind: str, region: Region, addresses: np.ndarray, width: int) -> None:
        """Addresses that belong to a region; for those who count."""

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
                "kernel": self._kernel[:100],
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


def addresses_of(pointers: TensorHandle) -> tuple[np.ndarray, int]:
    """A block's addresses (int64, its shape), and the bytes of an element."""
    width = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
    return np.asarray(pointers.data).astype(np.int64), width


def _distance(region: Region, address: int) -> int:
    return max(region.start - address, address - region.end, 0)
