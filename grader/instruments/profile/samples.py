"""What was recorded of samples/gelu.py on a GPU: for machines without one, and for tests.

    python -m grader.instruments.profile.samples manual.json fused.json waiting.json

trims such traces, which collect.py wrote, to what reading them needs, and stores them here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.instruments.profile import read, tools
from grader.instruments.profile.collect import PROFILED
from grader.instruments.profile.read import Profile
from grader.mistakes import Mistake

FOLDER = Path(__file__).resolve().parent / "samples"
PROGRAM = FOLDER / "gelu.py"
FUNCTIONS = ("manual", "fused", "waiting")
_DETAILS = ("correlation", "stream")


def profile(name: str) -> Profile:
    """The stored profile of a function of the program."""
    path = trace(name)
    if not path.is_file():
        raise Mistake("There is no NVIDIA GPU here, and this version has no stored sample.")
    return read.read(path)


def trace(name: str) -> Path:
    """The stored trace."""
    return FOLDER / f"{name}.json"


def reports(name: str) -> tuple[tools.ToolReport, ...]:
    """What ncu counted of the function's kernels, where that is stored."""
    path = FOLDER / f"ncu-{name}.csv"
    if not path.is_file():
        return ()
    counted = tools.read_ncu(path.read_text(encoding="utf-8"))
    line = f"ncu --nvtx --nvtx-include {PROFILED}/ --metrics … gelu.py:{name}"
    return (tools.ToolReport("ncu", line, counted=counted),)


def trimmed(whole: dict[str, Any]) -> dict[str, Any]:
    """A trace with only the events and details that are read, in times from its own start."""
    events = whole["traceEvents"]
    profiled = next(each for each in events if each["name"] == PROFILED)
    start, end = profiled["ts"], profiled["ts"] + profiled["dur"]
    about = {**whole["warpgrade"], "target": Path(whole["warpgrade"]["target"]).name}
    kept = list(_kept(events, start, end))
    return {"traceEvents": kept, "warpgrade": about}


def _kept(events: list[dict[str, Any]], start: float, end: float) -> Iterator[dict[str, Any]]:
    """Spans that begin while it is profiled, and what the device did from then on."""
    for each in events:
        category = each.get("cat")
        if each["ph"] != "X" or each["ts"] < start:
            continue
        if category in read.DEVICE or (category in read.HOST and each["ts"] < end):
            details = {key: each["args"][key] for key in _DETAILS if key in each.get("args", {})}
            yield {
                "ph": "X",
                "cat": category,
                "name": each["name"],
                "pid": "device" if category in read.DEVICE else "host",
                "tid": each["tid"],
                "ts": round(each["ts"] - start, 3),
                "dur": each["dur"],
                "args": details,
            }


def main(paths: list[str]) -> None:
    """Store each trace under its own name."""
    for path in map(Path, paths):
        small = trimmed(json.loads(path.read_text(encoding="utf-8")))
        (FOLDER / path.name).write_text(json.dumps(small, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
