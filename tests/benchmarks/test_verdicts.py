"""The benchmark of verdicts: what it runs, what it takes up again, what it calls a difference."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from grader.staff.calibration import corpus
from tests.support import attacks
from tests.support.modules import module_of

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "benchmarks" / "verdicts.py"


@pytest.fixture(scope="module")
def verdicts():
    return module_of(PATH)


def record(status: str = "passed", **changes: Any) -> dict[str, Any]:
    base = {
        "expected": "passed",
        "parts": {"float32 ragged": status},
        "memory": None,
        "metrics": {},
        "message": "",
        "where": "",
        "accepted": status == "passed",
        "trouble": "",
        "error": "",
        "seconds": 1.0,
    }
    return {**base, **changes}


def test_every_submission_of_the_corpus_is_run(verdicts):
    names = verdicts.submissions()
    kinds = [(kind, language) for kind in ("wrong", "honest") for language in ("triton", "cuda")]
    for kind, language in kinds:
        assert {f"{kind}/{entry.id}" for entry in corpus.load(kind, language)} <= names.keys()
    assert {f"attacks/{attack.name}" for attack in attacks.load()} <= names.keys()
    assert "honest/styles/silu_class" in names


def test_a_wrong_submission_is_recorded_with_its_parts_and_message(verdicts):
    seen = verdicts.record_of("wrong/silu-no_mask")
    assert seen["error"] == "" and seen["accepted"]
    assert "wrote_out_of_bounds" in seen["parts"].values()
    assert "of out, which has" in seen["message"]


def test_on_a_gpu_what_it_may_say_anything_of_is_left_out(verdicts):
    on_gpu = verdicts.submissions_on_a_gpu()
    assert on_gpu.keys() < verdicts.submissions().keys()
    assert "wrong/silu-no_mask" in on_gpu
    assert not any(name.startswith(("attacks/", "honest/styles/")) for name in on_gpu)


def test_what_cannot_be_run_is_an_error_and_not_accepted(verdicts, monkeypatch):
    def fails() -> None:
        raise TypeError("no such argument")

    monkeypatch.setattr(verdicts, "submissions", lambda: {"wrong/one": fails})
    seen = verdicts.record_of("wrong/one")
    assert seen["error"] == "TypeError: no such argument"
    assert not seen["accepted"]


def test_what_the_file_holds_already_is_not_run_again(verdicts, tmp_path):
    out = tmp_path / "out.json"
    verdicts._write(out, {"wrong/one": record("not_written")})
    console = Console(file=io.StringIO())
    given = argparse.Namespace(out=out, jobs=1, checkout=ROOT, gpu=False)
    assert verdicts.collect(["wrong/one"], given, console) == 0
    assert verdicts._read(out) == {"wrong/one": record("not_written")}
    assert "0 of 1 accepted" in console.file.getvalue()


def test_a_difference_is_named_by_what_differs(verdicts):
    old = {name: record() for name in ("same", "status", "memory", "message", "gone")}
    new = {name: record() for name in ("same", "added")}
    new["status"] = record("wrong_values")
    new["memory"] = record(memory="not_measured")
    new["message"] = record(message="another")
    assert verdicts.differences(old, new) == {
        "status": ("parts", "accepted"),
        "memory": ("memory",),
        "gone": ("missing",),
    }
    assert verdicts.differences(old, new, messages=True)["message"] == ("message",)
    assert verdicts.worse(old, new) == ["status", "gone"]


def test_a_comparison_prints_both_statuses_and_fails_where_something_is_worse(verdicts):
    console = Console(file=io.StringIO(), width=120)
    old, new = {"one": record()}, {"one": record("crashed", message="it ended", where="silu.py:3")}
    assert verdicts._print_comparison(old, new, False, console) == 1
    text = console.file.getvalue()
    assert "passed: float32 ragged" in text and "crashed: float32 ragged" in text
    assert "silu.py:3 it ended" in text
    assert verdicts._print_comparison(new, old, False, console) == 0
