"""Runs as one self-contained page: its script is inline and small, and nothing is fetched."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from grader.executors.trace import Launch
from grader.instruments.visualize.tracing import NothingToDraw, Run
from grader.report.html import template
from grader.sandbox.untrusted import brief
from grader.spec import ITEMSIZE

MAX_BYTES = 2 << 20  # of a page
MAX_CODE = 160  # characters of a source line
HERE = Path(__file__).parent


def render(runs: Sequence[Run]) -> str:
    """The page. All that comes from a submission is cleaned and escaped.

    Raises NothingToDraw for runs that make it too large.
    """
    names = ", ".join(dict.fromkeys(str(each.task) for each in runs))
    data = json.dumps([_run(each) for each in runs], separators=(",", ":"))
    page = template("page.html", HERE).render(
        title=names,
        scripts=Markup("; script-src 'unsafe-inline'"),
        data=Markup(data.replace("<", "\\u003c")),  # nothing in it ends a script
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "page.js").read_text(encoding="utf-8")),
    )
    if len(page.encode()) > MAX_BYTES:
        raise NothingToDraw(
            f"{names}: the page would have more than {MAX_BYTES >> 20} MiB. Draw one variant, or "
            "choose a smaller case with --case."
        )
    return page


def _run(run: Run) -> dict[str, Any]:
    events = [event for launch in run.trace.launches for event in launch.events]
    lines = run.source.splitlines()
    shown = [n for n in sorted({event.line for event in events}) if 1 <= n <= len(lines)]
    return {
        "task": str(run.task),
        "case": str(run.case),
        "language": run.task.variant.language,
        "at": {line: run.place(line) for line in shown},
        "wrong": brief(run.wrong),
        "code": {line: " ".join(lines[line - 1].split())[:MAX_CODE] for line in shown},
        "places": list(_places(run)),
        "launches": [_launch(each) for each in run.trace.launches if each.events],
    }


def _places(run: Run) -> Iterator[dict[str, Any]]:
    """Tensors with their shapes, and other memory that has a name or was allocated."""
    for place in sorted(run.trace.places, key=lambda each: each.argument % 64):
        memory = {"space": place.space, "start": place.start, "bytes": place.bytes}
        slot = run.slots.get(place.argument)
        if slot is None:
            scratch = "scratch" if place.space == "global" else "shared"
            yield {**memory, "name": brief(place.name, 60) or scratch}
            continue
        yield {
            **memory,
            "name": slot.name,
            "shape": slot.shape,
            "strides": slot.strides,
            "itemsize": ITEMSIZE[slot.dtype],
            "is_output": slot.role != "input",
        }


def _launch(launch: Launch) -> dict[str, Any]:
    return {
        "kernel": brief(launch.kernel, 100),
        "grid": launch.grid,
        "block": launch.block,
        "events": launch.events,
    }
