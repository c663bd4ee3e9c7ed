"""The picture of a failure as a small SVG and its words, for the template picture.html."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from grader.evidence import Picture, Touch

_BAR = 200  # units of a tensor's bar
_BESIDE = 30  # units on either side of it, for what lies outside


def drawn(picture: Picture | None) -> dict[str, Any] | None:
    """What the template needs; None where there is nothing to draw."""
    if picture is None:
        return None
    if picture.rows:
        return _map(picture)
    return _bar(picture) if picture.touches and picture.size > 0 else None


def _map(picture: Picture) -> dict[str, Any]:
    high, wide = picture.cell
    shape = " x ".join(map(str, picture.shape))
    tensor = f"{picture.tensor} ({shape})"
    words = f"{tensor}: {picture.wrong:,} wrong, in red"
    if high * wide > 1:
        words += f"; a square is {high} x {wide} elements"
    listed = ", ".join(f"{who} ({count:,})" for who, count in picture.writers)
    return {
        "kind": "map",
        "words": f"{words}.",
        "writers": f"The wrong elements were written last by {listed}." if listed else "",
        "width": max(map(len, picture.rows)),
        "height": len(picture.rows),
        "path": "".join(_runs(picture.rows)),
    }


def _runs(rows: tuple[str, ...]) -> Iterator[str]:
    """The wrong cells, as a path of one rectangle for each run of neighbours."""
    for y, row in enumerate(rows):
        for run in re.finditer("x+", row):
            width = len(run[0])
            yield f"M{run.start()} {y}h{width}v1h-{width}z"


def _bar(picture: Picture) -> dict[str, Any]:
    """A tensor from its first byte to its last, and where it was accessed."""
    share = picture.offset / picture.size
    at = _BESIDE + min(max(share, -0.1), 1.1) * _BAR
    if picture.offset < 0:
        where = f"{-picture.offset:,} bytes before {picture.tensor}"
    else:
        where = f"offset {picture.offset:,} of {picture.tensor}"
    return {
        "kind": "bar",
        "words": f"{where}, which has {picture.size:,} bytes",
        "is_outside": not 0 <= picture.offset < picture.size,
        "at": round(at, 1),
        "first": _touch(picture.touches[0]),
        "second": _touch(picture.touches[1]) if len(picture.touches) > 1 else "",
    }


def _touch(touch: Touch) -> str:
    return f"{touch.who} {touch.does}" + (f", line {touch.line}" if touch.line else "")
