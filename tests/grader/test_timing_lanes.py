"""What stands by for the clock: a candidate and its yardsticks, each with buffers of its own."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from grader.cases import fixed_case
from grader.spec import load_all
from grader.timing import lanes

EXERCISES = load_all()
ROOT = Path(__file__).resolve().parents[2]
EXERCISE = EXERCISES["rmsnorm"]
VARIANT = EXERCISE.variants["triton"]
CASE = fixed_case(EXERCISE, VARIANT, {"rows": 16, "cols": 512, "dtype": "float32"}, 7)
MOVED = 2 * 16 * 512 * 4


@pytest.fixture
def opened():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("name", ["copy", "torch", "reference"])
def test_a_yardstick_gives_pairs(python_sandbox, opened, name):
    lane = lanes.yardstick(python_sandbox, name, EXERCISE, VARIANT, CASE, MOVED, opened).ready()
    lane.settle()
    pair = lane.pair()
    assert pair.long_seconds > 0 and 0 < pair.inside_seconds < pair.long_seconds


def test_the_solution_is_a_candidate_like_any_other(python_sandbox, opened):
    source = (ROOT / "reference" / VARIANT.file).read_bytes()
    path = python_sandbox.hold(VARIANT.file, source)
    lane = lanes.candidate(python_sandbox, EXERCISE, VARIANT, CASE, path, opened)
    lane.settle()
    lane.pair()


def test_where_too_little_is_free_it_is_said(python_sandbox, opened, monkeypatch):
    monkeypatch.setattr(lanes, "_room", lambda on_gpu: 4096)
    with pytest.raises(lanes.TooLittleMemory, match=r"4 sets of buffers have \d+ MiB"):
        lanes.yardstick(python_sandbox, "torch", EXERCISE, VARIANT, CASE, MOVED, opened).ready()


def test_where_students_work_there_is_no_reference(monkeypatch, tmp_path):
    assert lanes.has_reference(VARIANT)
    monkeypatch.setattr(lanes, "REFERENCE", tmp_path)
    assert not lanes.has_reference(VARIANT)
