"""Feedback: a page per student, the same as Markdown, and Gradescope's results.json."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from grader import report
from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Entry,
    Gradebook,
    Member,
)
from grader.batch.pages import feedback
from grader.evidence import Evidence
from grader.report import gradescope_results
from grader.report.markdown import block, code
from grader.scoring.score import score
from grader.spec.course_file import CourseFile, Late
from grader.status import Status
from tests.grader.report.test_report import _Page, assert_harmless, unwrapped
from tests.support.class_records import (
    DUE,
    UNTRUSTED,
    attempt,
    book,
    evidence,
    exercises,
    handin,
    member,
    timed,
)

COURSE = CourseFile(title="Kernels 1", due=DUE, late=Late(slip_days=1, penalty_per_day=10))
KIND = AdjustmentKind
DECISIONS = (
    Adjustment("ada", KIND.points, "the report was missing", points=-2.5),
    Adjustment("ada", KIND.accept_time, "seen in ncu", only="silu/triton"),
    Adjustment("ada", KIND.note, "for the staff alone"),
    Adjustment("bob", KIND.points, "not ada's business", points=-1),
)
WRONG = evidence(ragged=Status.wrong_values)


def a_book(seen: Evidence = WRONG, **options) -> Gradebook:
    """Ada and Bob are two days and an hour late; what they handed in is half right."""
    late = timedelta(days=2, hours=1)
    made = attempt(0, "submission_12", member("ada"), member("bob"), late=late, seen=seen)
    return book(COURSE, made, adjustments=DECISIONS, **options)


def ada(made: Gradebook) -> Entry:
    return made.entries[0]


def in_html(made: Gradebook) -> str:
    return feedback.to_html(made, ada(made))


def in_markdown(made: Gradebook) -> str:
    return feedback.to_markdown(made, ada(made))


FACTS = (
    "29.5 of 100",
    "2026-12-04 00:59 +00:00",
    "3 started days late, 1 of them paid with slip days: 20 % off",
    "-2.5 points",
    "the report was missing",
    "submission_12: 40 points",
    "in a group with Bob",
    "out[4] is 0",
    "grader check silu --case 'n=5 dtype=float32 seed=7'",
)


# --- the page and its Markdown --------------------------------------------------------------------


def plain(markdown: str) -> str:
    return unwrapped(re.sub("[*`]", "", markdown))


def test_feedback_tells_the_score_and_how_it_came_about():
    made = a_book()
    for text in (unwrapped(_Page(in_html(made)).text), plain(in_markdown(made))):
        for fact in FACTS:
            assert fact in text


def test_feedback_says_nothing_of_others_points_and_of_the_staffs_notes():
    made = a_book()
    for text in (in_html(made), in_markdown(made), feedback.to_results(made, ada(made))):
        assert "not ada" not in text
        assert "for the staff alone" not in text


def test_the_page_stands_alone_and_is_whole():
    page = _Page(in_html(a_book()))
    assert len(page.all("h1")) == len(page.all("title")) == 1
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "form", "base"}
    assert page.all("html") == [{"lang": "en"}]


@pytest.mark.parametrize(
    ("attempts", "told"),
    [
        ((Attempt(handin(problem="not a zip file")),), "can't be read: h1: not a zip file"),
        ((attempt(None),), "not final: not graded yet"),
    ],
)
def test_without_a_graded_hand_in_the_page_says_why(attempts, told):
    made = book(COURSE, *attempts)
    page = _Page(in_html(made))
    assert len(page.all("h1")) == 1
    for text in (unwrapped(page.text), plain(in_markdown(made))):
        assert "no score" in text
        assert told in text
    assert feedback.to_results(made, ada(made)) == ""


def test_a_score_that_may_still_change_is_not_shown_as_one():
    made = a_book(evidence(ragged=Status.grader_error))
    for text in (unwrapped(_Page(in_html(made)).text), plain(in_markdown(made))):
        assert "no score" in text
        assert "not final: the grader failed on silu/triton" in text
        assert "29.5" not in text


def test_the_page_of_a_students_own_run_is_as_it_was():
    seen = WRONG
    text = report.to_html(seen, score(seen, exercises()))
    assert "<h1>Score of ada</h1>" in text
    assert "hand-in" not in text.lower()


def untrusted(text: str) -> Gradebook:
    """A class with `text` in the place of every untrusted text."""
    seen = replace(
        evidence(ragged=Status.wrong_values, what=text, performance=timed()), submission=text
    )
    variants = tuple(
        replace(
            variant,
            parts=tuple(
                replace(
                    each,
                    reason=text,
                    failures=tuple(
                        replace(f, detail=text, where=text, hint=text, pattern=text, reproduce=text)
                        for f in each.failures
                    ),
                )
                for each in variant.parts
            ),
            performance=variant.performance
            and replace(variant.performance, status=Status.crashed, reason=text, device=text),
        )
        for variant in seen.variants
    )
    people = Member("1", text or "x"), Member("2", text or "y")
    made = attempt(0, text or "h", *people, seen=replace(seen, variants=variants), notes=(text,))
    course = COURSE.model_copy(update={"title": text})
    return book(course, made, adjustments=[Adjustment("1", KIND.points, text, points=-1)])


def test_untrusted_text_is_escaped_on_the_page():
    text = in_html(untrusted(UNTRUSTED))
    _Page(text)
    assert "<script" not in text
    assert "<img" not in text
    assert_harmless(text)


def tokens(markdown: str) -> list[Any]:
    """What the text means, block by block and span by span, to a strict reader of Markdown."""
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    found = []
    for token in parser.parse(markdown):
        found += [token, *(token.children or ())]
    return found


def assert_no_markup(markdown: str) -> None:
    """No HTML, no link, no image; what could become one elsewhere stands in code."""
    for token in tokens(markdown):
        assert token.type not in {"html_inline", "html_block", "link_open", "image", "code_block"}
        if token.type == "text":
            assert not re.search(r"https?:|www\.|@|<|\[|evil|alert", token.content), token.content
    assert_harmless(markdown)


def test_untrusted_text_stays_in_code_in_markdown():
    markdown = in_markdown(untrusted(UNTRUSTED))
    assert_no_markup(markdown)
    found = tokens(markdown)
    assert sum(token.type == "heading_open" for token in found) == 4
    assert sum(token.type == "table_open" for token in found) == 1
    assert sum(token.type == "tr_open" for token in found) == 5
    assert any("alert(1)</script>" in t.content for t in found if t.type == "fence")


@given(st.text("`~#<>[]()!|\\*_&;@\n\t -=x\u2028\u202e", max_size=40))
def test_no_text_breaks_out_of_code(text):
    lines = block(text)
    [fence, *_, last] = tokens("\n".join([*lines, "", "after"]))[:1] * 2
    assert (fence.type, last.type) == ("fence", "fence")
    assert fence.content == "\n".join(lines[1:-1]) + "\n"
    span = code(text)
    inline = [token for token in tokens(f"- a: {span} b") if token.type not in {"inline"}]
    spans = [token for token in inline if token.type == "code_inline"]
    assert len(spans) == bool(span)
    if span:
        shown = report.one_line(text)
        assert spans[0].content.strip() == shown.strip()


@example("²")  # a digit, and no number
@given(st.text(st.characters(), max_size=30))
def test_no_name_or_reason_breaks_the_feedback(text):
    made = untrusted(text)
    _Page(in_html(made))
    assert_harmless(in_html(made))
    assert_harmless(in_markdown(made))
    checked(feedback.to_results(made, ada(made)))


# --- Gradescope's results.json --------------------------------------------------------------------

Visibility = Literal["hidden", "after_due_date", "after_published", "visible"]
Format = Literal["text", "html", "simple_format", "md", "ansi"]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class GradescopeTest(_Strict):
    """One entry of `tests`, as Gradescope describes it."""

    score: Number | None = None
    max_score: Number | None = None
    status: Literal["passed", "failed"] | None = None
    name: str | None = None
    name_format: Format | None = None
    number: str | None = None
    output: str | None = None
    output_format: Format | None = None
    tags: list[str] = []
    visibility: Visibility | None = None
    extra_data: dict[str, Any] | None = None


class GradescopeLeaderboardEntry(_Strict):
    name: str
    value: Number | str
    order: Literal["asc", "desc"] | None = None


class GradescopeResults(_Strict):
    """results.json, as Gradescope describes it."""

    score: Number | None = None
    execution_time: Number | None = None
    output: str | None = None
    output_format: Format | None = None
    test_output_format: Format | None = None
    test_name_format: Format | None = None
    visibility: Visibility | None = None
    stdout_visibility: Visibility | None = None
    extra_data: dict[str, Any] | None = None
    tests: list[GradescopeTest] | None = None
    leaderboard: list[GradescopeLeaderboardEntry] | None = None

    @model_validator(mode="after")
    def _something_to_show(self) -> GradescopeResults:
        assert self.score is not None or self.tests is not None
        return self


def checked(text: str) -> GradescopeResults:
    """The file, held to the format, to what is ours on top, and to plain ASCII or UTF-8."""
    assert text.encode("utf-8")
    results = GradescopeResults.model_validate_json(text)
    assert results.score is not None and results.tests is not None
    for test in results.tests:
        assert test.status is not None
        assert test.visibility is not None
        assert test.score is not None and test.max_score is not None
        assert 0 <= test.score <= test.max_score
    assert len({test.number for test in results.tests}) == len(results.tests)
    return results


def results_of(seen: Evidence, **options) -> GradescopeResults:
    return checked(report.to_gradescope(seen, score(seen, exercises()), **options))


def test_each_check_is_a_test_with_its_status_said():
    results = results_of(WRONG)
    assert [(t.name, t.number, t.status, t.score, t.max_score) for t in results.tests] == [
        ("silu/triton: aligned", "1.1", "passed", 40, 40),
        ("silu/triton: ragged", "1.2", "failed", 0, 40),
        ("silu/triton: performance", "1.3", "failed", 0, 20),
        ("silu/extra (bonus): ragged", "1.4", "failed", 0, 5),
    ]
    assert (results.score, results.execution_time) == (40, 1.5)
    assert results.test_output_format == results.output_format == "text"
    assert "out[4] is 0" in results.tests[1].output
    assert "Reproduce: grader check silu --case" in results.tests[1].output
    assert results.tests[2].output == "not timed: the kernel must be right first"
    assert "earned 40 of 100" in results.output
    assert results.tests[0].tags == ["silu", "triton"]


def test_what_could_not_be_decided_is_told_and_is_no_failed_test():
    results = results_of(evidence(gpu=None))
    assert [test.name for test in results.tests] == [
        *("silu/triton: aligned", "silu/triton: ragged", "silu/extra (bonus): ragged")
    ]
    assert "silu/triton performance: not measured here: needs a GPU" in results.output
    assert sum(test.max_score for test in results.tests if "bonus" not in test.name) == 80
    broken = results_of(evidence(Status.grader_error))
    assert "The grader failed on a part." in broken.output
    assert "silu/triton: aligned" not in {test.name for test in broken.tests}


def test_a_check_worth_nothing_has_a_status_too():
    [exercise] = exercises().values()
    triton = exercise.variants["triton"].model_copy(update={"points": {"aligned": 0, "ragged": 1}})
    free = {"silu": exercise.model_copy(update={"variants": {"triton": triton}})}
    seen = evidence(aligned=Status.wrong_values)
    [aligned, _] = checked(report.to_gradescope(seen, score(seen, free))).tests
    assert (aligned.score, aligned.max_score, aligned.status) == (0, 0, "failed")


def test_an_untouched_submission_fails_its_tests_with_the_reason():
    variants = tuple(replace(v, not_attempted="still the stub", parts=()) for v in WRONG.variants)
    results = results_of(replace(WRONG, variants=variants))
    assert results.score == 0
    assert {test.status for test in results.tests} == {"failed"}
    assert {test.output for test in results.tests} == {"not attempted: still the stub"}


def test_a_bonus_is_in_the_score():
    assert results_of(evidence(extra=Status.passed)).score == 105


def test_a_missed_target_is_a_failed_test():
    results = results_of(evidence(performance=timed(ratio=0.5)))
    assert (results.tests[2].status, results.tests[2].score) == ("failed", 0)


def test_the_final_score_and_how_it_came_about_stand_on_top():
    made = a_book()
    results = checked(feedback.to_results(made, ada(made)))
    assert results.score == 29.5
    for fact in ("Kernels 1: 29.5 of 100", "20 % off", "-2.5 points: the report was missing"):
        assert fact in results.output
    assert results.extra_data["warpgrade"]["score"] == 40


def test_hidden_tests_are_marked_and_no_text_tells_their_points():
    def visibility(exercise: str, variant: str, check: str) -> str:
        return "after_published" if check == "ragged" else "visible"

    seen = evidence(ragged=Status.wrong_values)
    results = results_of(seen, visibility=visibility)
    assert [test.visibility for test in results.tests] == [
        *("visible", "after_published", "visible", "after_published")
    ]
    assert "40" not in results.output
    made = a_book()
    counted, header = ada(made).counted, feedback.header_of(made, ada(made))
    final = checked(gradescope_results.render(counted.evidence, counted.grade, header, visibility))
    assert "29.5" not in final.output
    assert "40" not in final.output
    undecided = results_of(evidence(Status.grader_error), visibility=lambda *_: "hidden")
    assert "aligned" not in undecided.output


def test_a_flood_of_output_is_cut():
    seen = evidence(ragged=Status.wrong_values, what="x" * 100_000)
    assert len(report.to_gradescope(seen, score(seen, exercises()))) < 60_000


def test_untrusted_text_leaves_results_whole():
    results = checked(feedback.to_results(untrusted(UNTRUSTED), ada(untrusted(UNTRUSTED))))
    assert_harmless(results.output)
    for test in results.tests:
        assert_harmless(test.output)
