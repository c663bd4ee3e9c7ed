"""Makes the stored samples of `grader profile` from traces that were recorded on a GPU.

    python benchmarks/profile_samples.py manual.json fused.json waiting.json

The traces are those that grader/instruments/profile/collect.py writes of samples/gelu.py, each
named after its function. They are cut to what reading them needs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.instruments.profile import read
from grader.instruments.profile.collect import PROFILED
from grader.instruments.profile.samples import FOLDER

DETAILS = ("correlation", "stream")


def trimmed(whole: dict[str, Any]) -> dict[str, Any]:
    """A trace with only the events and details that are read, in times from its own start."""
    events = whole["traceEvents"]
    profiled = next(each for each in events if each["name"] == PROFILED)
    start, end = profiled["ts"], profiled["ts"] + profiled["dur"]
    about = {**whole["warpgrade"], "target": Path(whole["warpgrade"]["target"]).name}
    return {"traceEvents": list(_kept(events, start, end)), "warpgrade": about}


def _kept(events: list[dict[str, Any]], start: float, end: float) -> Iterator[dict[str, Any]]:
    """Spans that begin while it is profiled, and what the device did from then on."""
    for each in events:
        category = each.get("cat")
        if each["ph"] != "X" or each["ts"] < start:
            continue
        if category in read.DEVICE or (category in read.HOST and each["ts"] < end):
            yield {
                "ph": "X",
                "cat": category,
                "name": each["name"],
                "pid": "device" if category in read.DEVICE else "host",
                "tid": each["tid"],
                "ts": round(each["ts"] - start, 3),
                "dur": each["dur"],
                "args": {key: each["args"][key] for key in DETAILS if key in each.get("args", {})},
            }


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        small = trimmed(json.loads(path.read_text(encoding="utf-8")))
        (FOLDER / path.name).write_text(json.dumps(small, separators=(",", ":")) + "\n")
