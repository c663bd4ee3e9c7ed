"""Findings about a launch, as in the report of a run.

The fields are those of executors/triton/triton_report.py's Finding. Each kind is kept once per
line, with the first element and the number of elements.
"""

from __future__ import annotations

from typing import Any

from .regions import Region, Regions

MAX_FINDINGS = 16
MAX_KERNEL = 100  # characters of its name
# Kinds of accesses that stay inside a buffer.
_INSIDE = ("data_race", "store_conflict", "uninitialised_read")


class Findings:
    """The findings of one call of the entry.

    `cut` says that there were more than fit.
    """

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._kept: dict[tuple[str, int, int], dict[str, Any]] = {}
        self.cut = False

    def __len__(self) -> int:
        return len(self._kept)

    def add(
        self,
        kind: str,
        line: int,
        kernel: str,
        program: tuple[int, int, int],
        *,
        count: int = 1,
        address: int = 0,
        width: int = 1,
        other: dict[str, Any] | None = None,
    ) -> None:
        """Add `count` elements of one line, the first of them at `address` by `program`.

        `other` has fields about the second access of a pair. The place is described by the nearest
        argument, or the nearest memory that the entry allocated.
        """
        key = (kind, line, (other or {}).get("other_line", 0))
        if key in self._kept:
            self._kept[key]["count"] += count
            return
        if len(self._kept) >= MAX_FINDINGS:
            self.cut = True
            return
        near = self._regions.nearest(address)
        if kind in _INSIDE and near is not None and not near.covers(address, address + width):
            near = None  # it has no address
        self._kept[key] = {
            "kind": kind,
            "line": line,
            "kernel": kernel[:MAX_KERNEL],
            "count": count,
            "program": list(program),
            "argument": None if near is None else near.argument,
            "offset": 0 if near is None else address - near.start,
            "bytes": width,
            **_allocated(near),
            **(other or {}),
        }

    def report(self) -> list[dict[str, Any]]:
        """All findings, as JSON."""
        return list(self._kept.values())


def _allocated(near: Region | None) -> dict[str, Any]:
    """The field about the entry's allocation, where that is the nearest."""
    if near is None or near.argument is not None:
        return {}
    return {"allocated": [near.end - near.start, near.line]}


def coordinates(linear: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The program (x, y, z) of a linear program number."""
    x, y, _ = (max(1, each) for each in grid)
    return int(linear % x), int(linear // x % y), int(linear // (x * y))
