"""The class page in a real browser: sorting, filtering, the what-if, and a student's link."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.batch.course.records import Gradebook
from grader.batch.pages import class_page, overview
from grader.batch.pages.overview import Strip, submissions
from tests.support.browser import chromium
from tests.support.gradebooks import EXERCISES, make

PHONE = {"width": 400, "height": 800}


def link(entry) -> str:
    return f"students/{entry.student.id}.html"


@pytest.fixture(scope="module")
def book() -> Gradebook:
    """A class of 40."""
    return make(40)


@pytest.fixture(scope="module")
def folder(book, tmp_path_factory):
    """The page of that class, and a page for each student."""
    made = tmp_path_factory.mktemp("class")
    (made / "students").mkdir()
    (made / "class.html").write_text(class_page.render(book, EXERCISES, link), encoding="utf-8")
    for entry in book.entries:
        text = f"<!doctype html><title>{entry.student.id}</title>"
        (made / link(entry)).write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def opened(browser, folder) -> Iterator[object]:
    """The page, just loaded; what it reports as errors fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en")
    tab = context.new_page()
    tab.set_default_timeout(10_000)
    trouble: list[str] = []
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on("console", lambda told: trouble.append(told.text) if told.type == "error" else None)
    tab.goto((folder / "class.html").as_uri())
    yield tab
    context.close()
    assert trouble == []


def column(tab, number: int) -> list[str]:
    """The text of the visible rows' cells."""
    return tab.eval_on_selector_all(
        f"#table tbody tr:not([hidden]) > :nth-child({number})",
        "cells => cells.map(cell => cell.textContent.trim())",
    )


def heading(tab, name: str):
    return tab.locator("#table thead th").filter(has_text=name).first


def strip_of(book: Gradebook, exercise: str) -> tuple[int, Strip]:
    every = overview.strips(submissions(book), EXERCISES)
    return next((n, each) for n, each in enumerate(every) if each.exercise == exercise)


def test_a_click_on_a_heading_sorts_and_says_so(opened, book):
    scores = sorted((e.score for e in book.entries if e.score is not None), reverse=True)
    score = heading(opened, "Score")
    score.get_by_role("button").click()
    assert score.get_attribute("aria-sort") == "descending"
    shown = column(opened, 4)
    assert [float(each) for each in shown if each != "–"] == pytest.approx(scores, abs=0.006)
    assert set(shown[len(scores) :]) <= {"–"}
    score.get_by_role("button").press("Enter")
    assert score.get_attribute("aria-sort") == "ascending"
    shown = column(opened, 4)
    assert [float(each) for each in shown if each != "–"] == pytest.approx(scores[::-1], abs=0.006)
    assert set(shown[len(scores) :]) <= {"–"}
    heading(opened, "Id").get_by_role("button").click()
    assert score.get_attribute("aria-sort") is None
    assert column(opened, 2) == sorted(entry.student.id for entry in book.entries)


def test_typing_filters_and_counts(opened, book):
    wanted = book.entries[7].student
    opened.get_by_label("Search").fill(wanted.id.upper())
    names = [e.student.name for e in book.entries if wanted.id in e.student.id]
    assert column(opened, 1) == names
    assert opened.locator("#found").inner_text() == f"{len(names)} of 40 shown"
    opened.get_by_label("Search").fill("")
    opened.get_by_label("Show", exact=True).select_option("late")
    assert column(opened, 2) == [e.student.id for e in book.entries if e.lateness.days]
    opened.get_by_role("button", name="Show everyone").click()
    assert len(column(opened, 1)) == 40


def test_a_mistake_shows_its_students(opened):
    card = opened.locator(".mistakes > li").first
    card.locator("summary").click()
    names = card.locator("details a").all_inner_texts()
    card.get_by_role("button", name="Show them in the table").click()
    assert sorted(column(opened, 1)) == sorted(names)
    assert 2 <= len(names) < 40


def test_the_what_if_counts_as_the_score_does(opened, book):
    number, strip = strip_of(book, "rmsnorm")
    shown = opened.locator(f'[data-strip="{number}"]')
    counts = shown.locator("[data-would]")
    before = [int(text) for text in counts.all_inner_texts()]
    reached = [overview.reached(each.values, strip.thresholds) for each in strip.timings]
    assert before == [reached.count(0), reached.count(1), reached.count(-1)]

    lower = [strip.thresholds[0].model_copy(update={"at_least": 0.7}), *strip.thresholds[1:]]
    then = [overview.reached(each.values, lower) for each in strip.timings]
    shown.get_by_role("spinbutton").first.fill("0.7")
    after = [int(text) for text in counts.all_inner_texts()]
    assert after == [then.count(0), then.count(1), then.count(-1)]
    assert after[0] > before[0]
    gained = sum(a == 0 and b != 0 for a, b in zip(then, reached, strict=True))
    assert shown.locator("[data-summary]").inner_text().startswith(f"{gained} would gain, 0 would")

    shown.get_by_role("button", name="Reset").click()
    assert [int(text) for text in counts.all_inner_texts()] == before


def test_a_line_can_be_dragged(opened, book):
    number, _ = strip_of(book, "silu")
    shown = opened.locator(f'[data-strip="{number}"]')
    line = shown.locator('g[data-threshold="0"] .limit')
    line.scroll_into_view_if_needed()
    box = line.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    opened.mouse.move(x, y)
    opened.mouse.down()
    opened.mouse.move(x + 60, y, steps=3)
    opened.mouse.up()
    assert float(shown.get_by_role("spinbutton").first.input_value()) > 0.9
    assert "would lose" in shown.locator("[data-summary]").inner_text()
    assert line.bounding_box()["x"] == pytest.approx(box["x"] + 60, abs=2)


def test_a_link_leads_to_the_students_page(opened, book):
    entry = book.entries[3]
    opened.locator("#table").get_by_role("link", name=entry.student.name, exact=True).first.click()
    assert opened.title() == entry.student.id


def test_on_a_phone_nothing_is_wider_than_the_screen(opened):
    opened.set_viewport_size(PHONE)
    widest = "document.documentElement.scrollWidth"
    assert opened.evaluate(widest) == PHONE["width"]


def test_without_scripts_the_page_is_a_plain_table(browser, folder, book):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((folder / "class.html").as_uri())
    assert tab.locator("#table tbody tr").count() == 40
    for control in ("#search", "#show", "[data-would]", "input", "#table button"):
        assert tab.locator(control).locator("visible=true").count() == 0
    assert tab.get_by_role("heading", name="Timings").is_visible()
    context.close()
