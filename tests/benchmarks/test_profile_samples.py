"""Traces cut to what `grader profile` reads of them show the same."""

from __future__ import annotations

import json

import pytest

from benchmarks.profile_samples import trimmed
from grader.instruments.profile import samples
from grader.instruments.profile.read import from_trace


@pytest.mark.parametrize("name", samples.FUNCTIONS)
def test_a_trimmed_trace_shows_what_the_whole_one_does(name):
    stored = json.loads(samples.trace(name).read_text())
    late = [{**each, "ts": each["ts"] + 1000.0} for each in stored["traceEvents"]]
    before = {"ph": "X", "cat": "cpu_op", "name": "aten::zeros", "ts": 5.0, "dur": 1.0, "tid": 1}
    about = {**stored["warpgrade"], "target": f"/home/somebody/{stored['warpgrade']['target']}"}
    marks = {"ph": "M", "name": "process_name"}
    whole = {"traceEvents": [before, marks, *late], "warpgrade": about, "deviceProperties": []}
    small = trimmed(whole)
    assert small.keys() == {"traceEvents", "warpgrade"}
    assert len(small["traceEvents"]) == len(stored["traceEvents"])
    assert from_trace(small) == from_trace(stored) == samples.profile(name)
