"""tests/benchmarks/boundary.py: what its figures are made of, and that every way runs."""

from __future__ import annotations

import pytest

from tests.benchmarks import boundary
from tests.benchmarks.boundary import WAYS, Seen
from tests.grader.small_exercise import ROOT


def test_of_every_case_the_shortest_counts_whichever_round_and_set_it_is_of():
    quick = {"checked": [[2.0, 8.0], [3.0, 4.0]], "two": [[4.0, 9.0], [9.0, 6.0]]}
    slow = {"checked": [[6.0, 4.0]], "two": [[6.0, 5.0]]}
    quick["apart"], slow["apart"] = [[6.0, 6.0]], [[7.0, 9.0]]
    seen = Seen(2, [quick, slow])
    assert seen.of("checked") == pytest.approx((2.0 + 4.0) / 2)
    assert seen.of("two") == pytest.approx((4.0 + 5.0) / 2)
    assert seen.share("checked") == pytest.approx(1 - 6 / 9)
    assert seen.span("checked") == pytest.approx((1 - 10 / 11, 1 - 6 / 10))
    assert seen.share("checked", of="apart") == pytest.approx(1 - 6 / 12)


def test_every_way_is_taken_with_every_case(monkeypatch):
    """Two rounds of one part of silu's cases, in processes as `make bench` starts them."""
    exercise = boundary.load_all()["silu"]
    variant = exercise.variants["triton"]
    few = boundary.parts_of(exercise, variant)[:1]
    monkeypatch.setattr(boundary, "parts_of", lambda *_: few)
    seen = boundary.measure(exercise, variant, ROOT / "reference", sets=1, rounds=2)
    assert seen.cases == len(few[0]) > 1
    [told] = seen.sets
    assert {way: len(rounds) for way, rounds in told.items()} == {
        way: 2 if way in boundary.OFTEN else 1 for way in WAYS
    }
    assert all(len(each) == seen.cases for rounds in told.values() for each in rounds)
    assert all(seen.of(way) > 0 for way in WAYS)


def test_a_process_that_fails_ends_the_benchmark(tmp_path):
    exercise = boundary.load_all()["silu"]
    variant = exercise.variants["triton"]
    (tmp_path / variant.file).write_text("def silu(x, out):\n    pass\n")  # nothing is written
    with pytest.raises(SystemExit, match="a process that times cases ended with status 1"):
        boundary.measure(exercise, variant, tmp_path, sets=1, rounds=1)
