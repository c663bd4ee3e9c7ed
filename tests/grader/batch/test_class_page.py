"""The class page: complete without its script, true to the gradebook, and safe with any name."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Entry,
    Gradebook,
    Handin,
    Lateness,
    Member,
    Student,
)
from grader.batch.pages import charts, class_page, overview
from grader.batch.pages.overview import submissions
from grader.evidence import Baseline, PerformanceEvidence
from grader.scoring.score import score
from grader.spec import Milliseconds, Threshold
from grader.status import Status
from tests.support.gradebooks import (
    DUE,
    EXERCISES,
    H100,
    attempt,
    entry,
    failure,
    gradebook,
    make,
    untouched,
    variant_evidence,
)

RMSNORM, SILU = EXERCISES["rmsnorm"], EXERCISES["silu"]
TRITON = RMSNORM.variants["triton"]
UNTRUSTED = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "{{7*7}}${7*7}",
    "Bobby\u202e\u2066gnp.exe",
    "]]> <!-- --!> &amp; ' \" ` \x00\x1b[2J\ud800",
]
VOID = {"meta", "br", "input", "img", "hr", "link"}


class Read(HTMLParser):
    """A page as a browser would take it: elements, text, and whether tags are balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.setdefault(self.open[-1] if self.open else "", []).append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def link(each: Entry) -> str:
    return f"students/{each.student.name}.html"


def rendered(*entries: Entry, **changes: object) -> str:
    return class_page.render(gradebook(*entries, **changes), EXERCISES, link)


def body(text: str) -> str:
    """The page's text between tags, without style and script."""
    text = re.sub(r"(?s)<(style|script).*?</\1>", " ", text)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text)))


def timed(name: str, copy: float, torch: float) -> Attempt:
    ratios = {"copy": copy, "torch": torch}
    return attempt(name, [variant_evidence(RMSNORM, TRITON, ratios=ratios)])


@pytest.fixture(scope="module")
def book() -> Gradebook:
    """A class of 60."""
    return make(60)


@pytest.fixture(scope="module")
def text(book) -> str:
    """Its page."""
    return class_page.render(book, EXERCISES, link)


# --- one file, safe -------------------------------------------------------------------------------


def test_the_page_asks_for_nothing_from_outside(text):
    read = Read(text)
    for tag, attributes in read.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "form", "base")
        assert "src" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
    links = [each["href"] for each in read.of("a")]
    assert all(each.startswith(("#", "./students/")) for each in links)
    assert not re.search(r"@import|url\(|https?://", text)


def test_only_the_pages_own_script_may_run(text):
    [policy] = [m["content"] for m in Read(text).of("meta") if "http-equiv" in m]
    scripts = re.findall(r"(?s)<script>(.*?)</script>", text)
    [told] = re.findall(r"'sha256-([^']+)'", policy)
    [script] = scripts
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() == told
    assert policy.startswith("default-src 'none';")
    assert "unsafe-inline" not in policy.partition("script-src")[2]


def page_naming(name: str) -> str:
    """A page with `name` in the place of every untrusted text."""
    by = Adjustment("x", AdjustmentKind.points, name, only=name, points=1.0, by=name)
    broken = variant_evidence(SILU, SILU.variants["triton"], {("*", "*"): Status.grader_error})
    broken = replace(broken, parts=tuple(replace(part, reason=name) for part in broken.parts))
    why = failure(what=name, hint=name, condition=name)
    wrong = variant_evidence(RMSNORM, TRITON, {("*", "*"): why})
    slow = variant_evidence(RMSNORM, TRITON, ratios={"copy": 0.5, "torch": 0.5})
    student = Student(name, name, name, name, name)
    written = ([wrong, broken], [wrong, broken], [slow])
    made = [attempt(f"{number}{name}", each) for number, each in enumerate(written)]
    entries = [
        Entry(student, (each,), each, 1.0, 1.0, adjustments=(by,), notes=(name,)) for each in made
    ]
    return rendered(
        *entries,
        title=name,
        device=name,
        unmatched_handins=(Handin(name, (Member(name, name, name),), problem=name),),
        unmatched_rows=(name,),
    )


@pytest.mark.parametrize(
    ("title", "heading"), [("Kernels", "Kernels: class report"), ("", "Class report")]
)
def test_a_page_is_headed_with_or_without_a_title(title, heading):
    text = rendered(title=title)
    assert f"<title>{heading}</title>" in text
    assert f"<h1>{heading}</h1>" in text


@pytest.mark.parametrize("name", UNTRUSTED)
def test_an_untrusted_name_is_text_wherever_it_stands(name):
    text = page_naming(name)
    read, harmless = Read(text), Read(page_naming("Ada"))
    assert [tag for tag, _ in read.elements] == [tag for tag, _ in harmless.elements]
    assert [sorted(a) for _, a in read.elements] == [sorted(a) for _, a in harmless.elements]
    assert "{{49}}" not in text
    assert not re.search("[\x00\x1b\u202e\u2066\ud800]", text)
    text.encode()
    [data] = re.findall(r'(?s)<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(data)["strips"]
    assert not set("<>&") & set(data)


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=40))
def test_a_link_is_a_path_below_the_page_whatever_it_is_called(path):
    made = class_page.href(path)
    assert made == "" or re.fullmatch(r"\./[\w./%~-]*", made, re.ASCII)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("students/ada.html", "./students/ada.html"),
        ("javascript:alert(1)", "./javascript%3Aalert%281%29"),
        ("//example.org/x", "./example.org/x"),
        ("students/a b#1?.html", "./students/a%20b%231%3F.html"),
        ("", ""),
    ],
)
def test_links_are_quoted_and_relative(path, expected):
    assert class_page.href(path) == expected


def test_without_pages_of_students_there_are_no_links():
    text = class_page.render(gradebook(entry("Ada", timed("a", 1, 1))), EXERCISES)
    assert "students/" not in text
    assert "Ada" in text


# --- what it says ---------------------------------------------------------------------------------


def test_every_student_is_a_row_with_score_link_and_notes(book, text):
    rows = re.findall(r'(?s)<tr data-tags="([^"]*)">(.*?)</tr>', text)
    assert len(rows) == len(book.entries)
    for each, (tags, row) in zip(book.entries, rows, strict=True):
        assert class_page.href(link(each)) in row
        assert each.student.id in row
        assert ("unscored" in tags) == (each.score is None)
        if each.score is not None:
            assert f'data-value="{each.score}"' in row


def test_tables_have_headers_and_regions_names(text):
    read = Read(text)
    assert all("scope" in each for each in read.of("th"))
    assert all(each.get("aria-label") for each in read.of("div") if each.get("role") == "region")
    assert all(each.get("aria-label") for each in read.of("svg") if each.get("role") == "img")
    wrapped = [each for each in read.of("input") if each["type"] == "number"]
    assert wrapped
    assert all(each["aria-label"] for each in wrapped)


def test_what_the_grader_failed_on_stands_at_the_top_with_everybody_it_concerns():
    broken = variant_evidence(SILU, SILU.variants["triton"], {("ragged", "*"): Status.grader_error})
    entries = [entry(name, attempt(name, [broken])) for name in ("Ada", "Bob")]
    text = rendered(*entries, entry("Cyd", timed("c", 1, 1)))
    top = text[: text.index("<nav")]
    assert 'class="note loud" role="alert"' in top
    assert "The grader failed on silu/triton" in body(top)
    assert body(top).count("The grader failed on") == 1
    assert "Ada" in top
    assert "Bob" in top
    assert "Cyd" not in top
    assert len(re.findall(r'data-tags="[^"]*failed', text)) == 2
    assert "The grader failed" not in body(rendered(entry("Cyd", timed("c", 1, 1))))


def test_an_implausible_time_asks_for_a_person():
    doubtful = PerformanceEvidence(Status.implausible_time, "0.1 us for 256 MB", H100)
    made = variant_evidence(RMSNORM, TRITON, performance=doubtful)
    text = body(rendered(entry("Ada", attempt("a", [made]))))
    assert "rmsnorm/triton is faster than the hardware can be for Ada" in text


def test_an_interrupted_grading_and_a_missing_sandbox_are_said():
    whole = timed("a", 1, 1)
    cut = replace(whole, grade=replace(whole.grade, complete=False))
    loose = replace(whole, grade=replace(whole.grade, environment={"sandbox": "limits"}))
    assert "Grading was interrupted for Ada" in body(rendered(entry("Ada", cut)))
    assert "1 submission ran with limits only" in body(rendered(entry("Ada", loose)))
    assert "limits only" not in body(rendered(entry("Ada", whole)))


def test_who_handed_in_nothing_and_what_cannot_be_read_are_told_apart():
    torn = Attempt(Handin("b", problem="b.zip: the archive is damaged"))
    text = body(
        rendered(
            Entry(Student("1", name="Ada"), notes=("nothing handed in",)),
            Entry(Student("2", name="Bob"), (torn,)),
        )
    )
    assert "2 students; 1 handed something in" in text
    assert "1 handed in and has no score" in text
    assert "No submission has a final score yet." in text
    assert "nothing handed in" in text
    assert "b.zip: the archive is damaged" in text


def test_a_score_that_is_not_final_says_why():
    text = rendered(entry("Ada", timed("a", 1, 1), waiting=("a time to decide on",)))
    assert "1 score isn't final" in body(text)
    assert "a time to decide on" in body(text[text.index('id="students"') :])


def test_only_final_scores_are_in_the_histogram():
    final = entry("Bob", timed("b", 1, 1))
    waiting = entry("Ada", timed("a", 0.1, 0.1), waiting=("not graded yet",))
    assert "the median of 1 student " in body(rendered(final, waiting))
    assert "No submission has a final score yet." in body(rendered(waiting))


def test_what_matches_nobody_is_listed():
    handin = Handin("submission_9", (Member("77", "Guest"),), DUE, problem="torn")
    rows = ("line 4: 's9' names nobody",)
    text = body(rendered(unmatched_handins=(handin,), unmatched_rows=rows))
    assert "1 hand-in of nobody on the roster, 1 row that names nobody" in text
    assert "submission_9" in text
    assert "Guest, 77" in text
    assert "line 4: 's9' names nobody" in text


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (Lateness(days=1, slip_days=1), "1 day, 1 slip"),
        (Lateness(days=3, slip_days=2, penalty=0.1), "3 days, 2 slip, −10 %"),
        (Lateness(days=9, penalty=1.0, refused=True), "9 days: too late to count"),
        (Lateness(), ""),
    ],
)
def test_lateness_in_words(late, told):
    made = timed("a", 1, 1)
    text = rendered(entry("Ada", made, lateness=late))
    assert f'<td data-value="{late.days}">{told}</td>' in text


def test_adjustments_have_their_reasons():
    by = Adjustment("x", AdjustmentKind.points, "typo in it", "softmax/online", -1.5, "kim")
    text = body(rendered(entry("Ada", timed("a", 1, 1), adjustments=(by,))))
    assert "−1.5 (softmax/online) typo in it kim" in text


# --- counts ---------------------------------------------------------------------------------------


def test_the_tally_counts_groups_once_and_tells_statuses(book, text):
    wrong = attempt("w", [variant_evidence(RMSNORM, TRITON, {("*", "*"): failure()})])
    group = timed("g", 0.95, 1.2)
    stub = attempt("s", [untouched(RMSNORM, TRITON)])
    entries = [entry("Ada", group), entry("Bob", group), entry("Cyd", wrong), entry("Dan", stub)]
    [row] = overview.tally(submissions(gradebook(*entries)), EXERCISES)
    assert (row.asked, row.attempted, row.passed) == (3, 2, 1)
    assert dict(row.statuses) == {Status.passed: 1, Status.wrong_values: 1}
    everyone = submissions(book)
    for each in overview.tally(everyone, EXERCISES):
        assert sum(count for _, count in each.statuses) == each.attempted
        assert (
            each.attempted
            <= each.asked
            == len([s for s in everyone if s.variant(each.exercise, each.variant)])
        )


def test_a_strip_gives_each_submission_the_points_of_its_score():
    full = TRITON.performance.thresholds[0].at_least
    entries = [
        entry("Ada", timed("a", full, 1.2)),  # all points
        entry("Bob", timed("b", full - 1e-5, 1.0)),  # half
        entry("Cyd", timed("c", 0.5, 0.9)),  # none
        entry("Dan", attempt("d", [variant_evidence(RMSNORM, TRITON, {("*", "*"): failure()})])),
        entry("Eve", attempt("e", [untouched(RMSNORM, TRITON)])),
    ]
    [strip] = overview.strips(submissions(gradebook(*entries)), EXERCISES)
    assert strip.measures == ("copy", "torch")
    assert [each.points for each in strip.timings] == [2.5, 1.25, 0.0]
    assert [overview.reached(t.at_best, strip.thresholds) for t in strip.timings] == [0, 1, -1]
    assert strip.untimed == 1


def test_what_a_threshold_gives_agrees_with_the_score_for_the_whole_class(book):
    for strip in overview.strips(submissions(book), EXERCISES):
        for timing in strip.timings:
            number = overview.reached(timing.at_best, strip.thresholds)
            points = 0.0 if number == -1 else strip.thresholds[number].points
            assert points == timing.points


def test_of_several_cases_the_worst_counts():
    gemm = EXERCISES["gemm"]
    made = variant_evidence(gemm, gemm.variants["triton_v4"], ratios={"torch": 0.9})
    slow = replace(made.performance.further[2], baselines=(Baseline("torch", 1.0, 0.41),))
    further = (*made.performance.further[:2], slow, *made.performance.further[3:])
    made = replace(made, performance=replace(made.performance, further=further))
    [strip] = overview.strips(submissions(gradebook(entry("Ada", attempt("a", [made])))), EXERCISES)
    [timing] = strip.timings
    assert timing.values == {"torch": 0.41}
    assert timing.points == 1.5


def test_the_doubt_and_linear_points_count_on_the_page_as_they_do_in_the_score():
    linear = Threshold(**{"speed_vs": "copy", "from": 0.5, "at_least": 0.9, "points": 2.0})
    block = TRITON.performance.model_copy(update={"thresholds": (linear,)})
    variant = TRITON.model_copy(update={"performance": block})
    specs = {"rmsnorm": RMSNORM.model_copy(update={"variants": {"triton": variant}})}
    made = timed("a", 0.853, 1)
    seen = made.evidence.variants[0]
    doubtful = (Baseline("copy", 90.0, 0.853, 0.845, 0.862),)
    seen = replace(seen, performance=replace(seen.performance, baselines=doubtful))
    evidence = replace(made.evidence, variants=(seen,))
    again = replace(made, evidence=evidence, grade=score(evidence, specs))
    [strip] = overview.strips(submissions(gradebook(entry("Ada", again))), specs)
    [timing] = strip.timings
    assert (timing.values, timing.at_best) == ({"copy": 0.853}, {"copy": 0.862})
    reached = strip.thresholds[overview.reached(timing.at_best, strip.thresholds)]
    assert (reached.at_least, reached.points, timing.points) == (0.86, 1.8, 1.8)
    text = class_page.render(gradebook(entry("Ada", again)), specs)
    assert "0.86 of copy" in body(text)


def test_milliseconds_are_held_against_their_own_gpu_only():
    in_time = Threshold(milliseconds=Milliseconds(gpu="H100", at_most=0.2), points=2.0)
    elsewhere = Threshold(milliseconds=Milliseconds(gpu="A100", at_most=0.2), points=2.0)
    made = timed("a", 0.5, 0.5)
    for threshold, expected in ((in_time, {"ms": 0.1}), (elsewhere, {})):
        block = TRITON.performance.model_copy(update={"thresholds": (threshold,)})
        variant = TRITON.model_copy(update={"performance": block})
        specs = {"rmsnorm": RMSNORM.model_copy(update={"variants": {"triton": variant}})}
        again = replace(made, grade=score(made.evidence, specs))
        strips = overview.strips(submissions(gradebook(entry("Ada", again))), specs)
        found = [dict(timing.values) for strip in strips for timing in strip.timings]
        assert found == ([expected] if expected else [])
        assert "0.2 ms" in class_page.render(gradebook(entry("Ada", again)), specs) or not expected


def test_nothing_timed_is_said():
    made = attempt("a", [variant_evidence(RMSNORM, TRITON)], gpu=None)
    page = body(rendered(entry("Ada", made), device="cpu"))
    assert "Nothing was timed: there was no GPU." in page and "Device: cpu (no GPU)." in page
    page = body(rendered(entry("Ada", made), device="NVIDIA H100"))
    assert "Nothing was timed on NVIDIA H100." in page and "Device: NVIDIA H100." in page


def test_a_mistake_of_one_is_counted_and_of_two_is_shown():
    def wrong(name: str) -> Entry:
        made = variant_evidence(RMSNORM, TRITON, {("*", "*"): failure()})
        return entry(name, attempt(name, [made]))

    assert "1 mistake was made by one submission alone" in body(rendered(wrong("Ada")))
    both = rendered(wrong("Ada"), wrong("Bob"))
    assert "2 submissions fail only where cols &gt; 1024" in both
    assert 'data-show="0 1"' in both


# --- drawings -------------------------------------------------------------------------------------


def test_full_marks_are_in_the_last_bar_and_a_bonus_beyond_it():
    bars = charts.histogram([0.0, 4.99, 5.0, 99.0, 100.0], 100.0)
    assert len(bars) == 20
    assert (bars[0].count, bars[1].count, bars[-1].count) == (2, 1, 2)
    assert len(charts.histogram([1e300], 100.0)) == 2 * charts.BARS
    more = charts.histogram([100.0, 104.0, -3.0], 100.0)
    assert (more[0].count, more[19].count, more[20].count) == (1, 1, 1)
    assert sum(bar.width for bar in more) == pytest.approx(100)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-10, 120), max_size=40), st.sampled_from([0.0, 0.3, 7.0, 100.0]))
def test_a_histogram_loses_nobody(scores, most):
    assert sum(bar.count for bar in charts.histogram(scores, most)) == len(scores)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.001, 50), max_size=60), st.lists(st.floats(0.01, 5), max_size=3))
def test_dots_and_lines_lie_on_the_scale(values, limits):
    scale = charts.axis(values, limits)
    places = charts.swarm(values, scale)
    assert len(places) == len(values)
    assert all(0 <= across <= 100 and abs(away) <= charts.DOTS_HIGH for across, away in places)
    assert all(scale.low <= limit <= scale.high for limit in limits)
    assert 1 <= len(scale.ticks) <= 12
