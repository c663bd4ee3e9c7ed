"""`grader visualize`: what it writes, and what it says where there is nothing to draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commandline import call
from tests.support.small_exercise import ROOT

REFERENCE = ("--submission", ROOT / "reference")


def test_the_page_is_written_where_it_is_wanted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    ran = call(capsys, "visualize", "gelu/triton", "--case", "n=100", *REFERENCE)
    assert ran.code == 0, ran.err
    assert "gelu/triton for n=100 " in ran.out
    assert "written: gelu-triton-visualize.html" in ran.out
    page = (tmp_path / "gelu-triton-visualize.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["silo"], "Did you mean silu?"),
        (["silu/triton", "--case", "n=x"], "n: expected a whole number"),
        (["silu/triton", "--html", "there/is/none.html"], "expected a folder that exists"),
        (["silu/triton", "--submission", "assignment"], "not attempted"),
        (["silu/triton", "--case", "n=100000000"], "Choose a smaller one with --case."),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(ROOT)
    ran = call(capsys, "visualize", *words, *(() if "--submission" in words else REFERENCE))
    assert ran.code == 2
    assert says in " ".join((ran.out + ran.err).split())
