"""Launches without a kernel: observers are given accesses that a test writes down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from grader.worker.ttir.findings import Findings
from grader.worker.ttir.observer import Access, Observer
from grader.worker.ttir.regions import Region, Regions, of_argument
from grader.worker.ttir.warp_requests import Layouts

BASE = 1 << 40  # the address of argument 0; argument i lies at (i + 1) times that


@dataclass
class FakeOp:
    """As much of an operation as observers ask for."""

    line: tuple[str, int]
    text: str = ""
    used: bool = True
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = "tt.atomic_rmw"


def argument(index: int, size: int, itemsize: int = 4, *, writable: bool = True) -> Region:
    """A flat argument of `size` elements."""
    return of_argument(index, (index + 1) * BASE, itemsize, (size,), (1,), writable=writable)


def launch(grid: tuple[int, int, int], layouts: Layouts | None = None) -> Any:
    """A launch of a kernel named `kernel`."""
    module = SimpleNamespace(entry=SimpleNamespace(name="kernel"))
    return SimpleNamespace(module=module, grid=grid, layouts=layouts)


def access(
    kind: str,
    line: int,
    addresses: Any,
    *,
    programs: Sequence[int] | None = None,
    active: Any = None,
    stored: Any = None,
    width: int = 4,
    order: str = "acq_rel",
    scope: str = "gpu",
    used: bool = True,
    **attributes: Any,
) -> Access:
    """An access of addresses (programs, *block); `used` is whether the result is."""
    addresses = np.asarray(addresses, dtype=np.int64)
    if active is not None:
        active = np.broadcast_to(np.asarray(active, dtype=bool), addresses.shape)
    if stored is not None:
        stored = np.broadcast_to(np.asarray(stored, dtype=f"u{width}"), addresses.shape)
    op: Any = FakeOp(("kernel.py", line), f"fadd, {order}, {scope}, %release, %1", used, attributes)
    return Access(
        op,
        kind,
        width,
        addresses,
        None
        if active is None
        else np.broadcast_to(np.asarray(active, dtype=bool), addresses.shape),
        np.arange(len(addresses)) if programs is None else np.asarray(programs, dtype=np.int64),
        stored,
        addresses.shape[1:],
    )


AnyObserver = TypeVar("AnyObserver", bound=Observer)


def observe(
    make: Callable[[Regions, Findings], AnyObserver],
    regions: Sequence[Region],
    grid: tuple[int, int, int],
    accesses: Sequence[Access],
    layouts: Layouts | None = None,
) -> tuple[AnyObserver, list[dict[str, Any]]]:
    """(the observer that `make(regions, findings)` gives, findings) after one launch."""
    known = Regions(regions)
    findings = Findings(known)
    observer = make(known, findings)
    observer.begin(launch(grid, layouts))
    for each in accesses:
        observer.access(each)
    observer.end()
    return observer, findings.report()
