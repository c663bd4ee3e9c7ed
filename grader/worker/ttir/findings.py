"""Findings about a launch, as in the report of a run.

The fields are those of executors/triton/triton_report.py's Finding. Each kind is kept once per
line, with the first element and the number of elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import NotModelled
from .observer import Observer
from .regions import Region, Regions

if TYPE_CHECKING:
    from .executor import Launch

MAX_FINDINGS = 16
MAX_KERNEL = 100  # characters of its name
# Kinds of accesses that stay inside a buffer.
_INSIDE = ("data_race", "store_conflict", "uninitialised_read", "gathered_outside")


class Findings:
    """The findings of one call of the entry.

    `cut` says that there were more than fit, `undecided` why races can't be told from none.
    """

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._kept: dict[tuple[str, int, int], dict[str, Any]] = {}
        self.cut = False
        self.undecided = ""

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
        """All findings, as JSON. Raises NotModelled if none are found and races are undecided."""
        if self.undecided and not self._kept:
            raise NotModelled(self.undecided)
        return list(self._kept.values())


class Finder(Observer):
    """An observer that adds what is wrong with the accesses of a launch to `findings`."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._kernel = ""
        self._grid = (1, 1, 1)

    def begin(self, launch: Launch) -> None:
        self._kernel, self._grid = launch.module.entry.name, launch.grid

    def _find(self, kind: str, line: int, program: int, other: Any = None, **place: int) -> None:
        """Add elements, the first of them by a program, given by its linear number.

        `place` is the elements' count, and the address and the width of the first.
        """
        where = coordinates(program, self._grid)
        self._findings.add(kind, line, self._kernel, where, other=other, **place)

    def _find_race(
        self, mine: tuple[int, str, int], other: tuple[int, str, int], **place: int
    ) -> None:
        """Add elements that two accesses race for, each by its line, its kind and its program."""
        about = {
            "access": mine[1],
            "other_line": other[0],
            "other_program": list(coordinates(other[2], self._grid)),
            "other_access": other[1],
        }
        self._find("data_race", mine[0], mine[2], about, **place)


def _allocated(near: Region | None) -> dict[str, Any]:
    """The field about the entry's allocation, where that is the nearest."""
    if near is None or near.argument is not None:
        return {}
    return {"allocated": [near.end - near.start, near.line]}


def coordinates(linear: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The program (x, y, z) of a linear program number."""
    x, y, _ = (max(1, each) for each in grid)
    return int(linear % x), int(linear // x % y), int(linear // (x * y))
