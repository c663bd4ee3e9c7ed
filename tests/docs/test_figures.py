"""docs/figures/ is what docs/make_figures.py draws, and what it counts is right."""

from __future__ import annotations

from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.support.modules import module_of
from tests.support.small_exercise import ROOT

SCRIPT = ROOT / "docs" / "make_figures.py"


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    """docs/make_figures.py as a module."""
    return module_of(SCRIPT)


def test_each_figure_is_what_the_code_draws_and_has_words(figures: ModuleType):
    drawn = figures.drawn()
    kept = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs/figures").glob("*.svg")}
    assert kept == drawn, "run make figures"
    for name, text in drawn.items():
        root = ElementTree.fromstring(text)
        space = "{http://www.w3.org/2000/svg}"
        assert root.findtext(f"{space}title") and root.findtext(f"{space}desc"), name
        assert "prefers-color-scheme:dark" in text


def test_a_figure_that_is_out_of_date_is_named(
    figures: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert figures.main(["--check"]) == 0
    monkeypatch.setattr(figures, "FIGURES", {"grid": figures.flash_tiles})
    assert figures.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/figures/grid.svg is out of date: run make figures\n"


def test_what_figures_count(figures: ModuleType):
    assert [figures.sectors_of(stride) for stride in (1, 2, 8, 100)] == [4, 8, 32, 32]
    assert (figures.column_passes(32), figures.column_passes(33)) == (32, 1)
    assert figures.column_passes(16) == 16
    rows = figures.by_rows(8, 8)
    grouped = figures.in_groups(8, 8, 4)
    assert sorted(rows) == sorted(grouped)
    assert figures.loaded(rows, 100) == figures.loaded(grouped, 100) == 16
    # A row of tiles loads its strip of a and all 8 of b; a group 4 strips of a and 8 of b.
    assert figures.loaded(rows, 6) == 8 * 9 and figures.loaded(grouped, 6) == 2 * 12
