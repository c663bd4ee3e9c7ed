"""On a phone no table of a page breaks a word, and no page is wider than the window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grader import report
from grader.batch.pages import class_page
from grader.evidence import LineCounters, SourceLine
from grader.scoring.score import score
from grader.status import Status
from tests.grader.batch.test_class_page_browser import browser  # noqa: F401
from tests.support.gradebooks import EXERCISES, attempt, failure, make, untouched, variant_evidence

ROOT = Path(__file__).resolve().parents[3]

# The words, and the parts of words at hyphens between letters, that stand on more than one line.
BROKEN = r"""() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const broken = [];
  for (const cell of document.querySelectorAll("th, td, h1, h2, h3, h4, dt, .heading, .total")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      for (const found of node.data.matchAll(/(?:[^\s-]|-(?=\d))+/g)) {
        const range = document.createRange();
        range.setStart(node, found.index);
        range.setEnd(node, found.index + found[0].length);
        const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
        if (new Set(boxes.map((box) => Math.round(box.top))).size > 1) broken.push(found[0]);
      }
    }
  }
  return [...new Set(broken)];
}"""
BROKEN_OPTIONS = r"""() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const words = [...document.querySelectorAll(".command span")];
  const lines = (word) => {
    const range = document.createRange();
    range.selectNodeContents(word);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
  };
  return [words.length, words.filter((word) => lines(word) > 1).map((word) => word.textContent)];
}"""
# The lines of all code frames as the text has them, and as they stand on the page.
LINES_OF_CODE = r"""() => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const frames = [...document.querySelectorAll("pre.code")];
  const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
  const inside = (frame) => {
    const style = getComputedStyle(frame);
    const padding = parseFloat(style.paddingTop) + parseFloat(style.paddingBottom);
    return Math.round((frame.scrollHeight - padding) / parseFloat(style.lineHeight));
  };
  return [sum(frames.map((frame) => frame.textContent.trimEnd().split("\n").length)),
          sum(frames.map(inside))];
}"""
HIDDEN = """() => [...document.querySelectorAll(".overview, .checks")]
  .filter((each) => each.getBoundingClientRect().right > innerWidth).length"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """A student's page with every exercise and all sorts of results, and their class's."""
    made = []
    command = "grader check flash_attention/triton --fresh-worker --no-sandbox-needed --case 'a=1'"
    code = SourceLine(
        33, "output[i] = x / (1.0f + expf(-x));  // of each element", "it writes here"
    )
    wrong = replace(failure(Status.uninitialised_read), reproduce=command, code=(code,))
    for number, (exercise, variant) in enumerate(
        (e, v) for e in EXERCISES.values() for v in e.variants.values()
    ):
        seen = variant_evidence(exercise, variant, {("*", "*"): wrong} if number % 3 == 1 else None)
        if number % 7 == 6:
            seen = untouched(exercise, variant)
        if seen.memory is not None:
            line = LineCounters(
                kernel="kernel", line=141, space="global", access="load", requests=12_345
            )
            seen = replace(seen, memory=replace(seen.memory, lines=(line,)))
        made.append(seen)
    observed = attempt("submission_123456", made).evidence
    assert observed is not None
    folder = tmp_path_factory.mktemp("pages")
    graded = report.to_html(observed, score(observed, EXERCISES))
    (folder / "grade.html").write_text(graded, encoding="utf-8")
    book = make(40)
    (folder / "class.html").write_text(class_page.render(book, EXERCISES), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, pages, request) -> Iterator[object]:  # noqa: F811
    """A page in a window of so many pixels."""
    name, width = request.param
    context = browser.new_context(viewport={"width": width, "height": 844}, locale="en")
    tab = context.new_page()
    tab.goto((pages / f"{name}.html").as_uri())
    yield tab
    context.close()


WINDOWS = [(name, width) for name in ("grade", "class") for width in (320, 390, 768)]


@pytest.mark.parametrize("opened", WINDOWS, indirect=True)
def test_no_table_and_no_heading_breaks_a_word(opened):
    assert opened.evaluate(BROKEN) == []


@pytest.mark.parametrize("opened", WINDOWS, indirect=True)
def test_no_page_is_wider_than_the_window(opened):
    width = opened.evaluate("innerWidth")
    assert opened.evaluate("document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("opened", [("grade", 320), ("grade", 390)], indirect=True)
def test_an_option_of_a_command_to_paste_is_not_broken(opened):
    count, broken = opened.evaluate(BROKEN_OPTIONS)
    assert count > 5
    assert broken == []


@pytest.mark.parametrize("opened", [("grade", 390)], indirect=True)
def test_a_students_points_are_seen_without_scrolling(opened):
    assert opened.evaluate(HIDDEN) == 0


@pytest.mark.parametrize("opened", [("grade", 320)], indirect=True)
def test_a_line_of_code_is_one_line_so_that_a_mark_stays_below_its_place(opened):
    lines, count = opened.evaluate(LINES_OF_CODE)
    assert count and lines == count


# Without a browser, the rules that this rests on.


def test_tables_are_not_squeezed_below_their_words():
    style = (ROOT / "grader/report/style.html").read_text(encoding="utf-8")
    assert re.search(r"^table, .*\{ overflow-wrap: break-word; \}$", style, re.M)
    for file in ("report/style.html", "batch/pages/class.html"):
        text = (ROOT / "grader" / file).read_text(encoding="utf-8")
        rules = re.findall(r"([^{}]+)\{[^{}]*overflow-wrap: anywhere", text)
        named = [each.split()[-1] for each in rules]
        assert set(named) <= {"body", "pre"}, f"{file}: {named}"
        assert not re.search(r"word-break|hyphens: auto", text)


def test_every_table_but_the_overview_scrolls_in_its_own_box():
    text = (ROOT / "grader/report/grade.html").read_text(encoding="utf-8")
    tables = re.findall(r"(<div class=\"wide\"[^\n]*>)?\s*<table( class=\"overview\")?", text)
    assert len(tables) == 3
    assert all(bool(box) != bool(overview) for box, overview in tables)
