"""The gradebook: which hand-in counts, what lateness costs, and what people decided."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch.course.decisions import TO_RUN, decided
from grader.batch.course.lateness import days_late, judge
from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Entry,
    Handin,
    Member,
    Student,
)
from grader.batch.course.roster import Roster
from grader.batch.gradebook import incomplete, page_stem
from grader.mistakes import Mistake
from grader.scoring.score import score
from grader.spec.course_file import CourseFile, Late, duration_of, load
from grader.status import Status
from tests.support import documents
from tests.support.class_records import (
    DUE,
    UNTRUSTED,
    attempt,
    book,
    earning,
    entry,
    evidence,
    exercises,
    handin,
    member,
    timed,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
POLICY = Late(
    grace=timedelta(minutes=15), slip_days=2, penalty_per_day=10, cap=50, refuse_after=7 * DAY
)
COURSE = CourseFile(title="Kernels 1", due=DUE, late=POLICY)
KIND = AdjustmentKind


def only(course: CourseFile, *attempts: Attempt, **options) -> Entry:
    """The gradebook's only entry."""
    [found] = book(course, *attempts, **options).entries
    return found


def class_of(*students: Student) -> Roster:
    """A roster of these students, from row 2 on."""
    rows = {each.id: row for row, each in enumerate(students, start=2)}
    return Roster("plain", "roster.csv", students, rows=rows)


def points(value: float, student: str = "ada") -> Adjustment:
    return Adjustment(student, KIND.points, "a reason", points=value)


# --- lateness -------------------------------------------------------------------------------------


def test_an_exercise_may_be_due_at_a_time_of_its_own():
    late = attempt(100, late=-DAY + HOUR)  # in time for all else
    assert late.grade is not None
    [name] = [each.name for each in late.grade.exercises if each.score]
    policy = Late(penalty_per_day=10)
    course = CourseFile(due=DUE, late=policy, due_dates={name: DUE - 2 * DAY})
    found = only(course, late)
    assert (found.raw, found.score, found.lateness.days) == (100, 80, 0)
    assert any(f"{name} was due " in note and ": 20% off" in note for note in found.notes)
    later = {"due_dates": {name: DUE}, "extensions": {"ada": DUE + 2 * DAY}}
    assert only(CourseFile(due=DUE, late=policy, **later), attempt(100, late=DAY)).score == 100
    assert only(CourseFile(due=DUE, late=policy, due_dates={name: DUE + DAY}), late).score == 100


@pytest.mark.parametrize("offset", [-23, 0, 23])
@pytest.mark.parametrize("time", [datetime.min, datetime(9996, 2, 29), datetime.max])
def test_a_commit_of_any_year_is_judged(time, offset):
    made = Handin("a", (Member("ada"),), time.replace(tzinfo=timezone(timedelta(hours=offset))))
    late = judge(made, COURSE, DUE)
    assert late.refused == (late.days > 0) == (time.year > 9000)
    assert made.known_time.astimezone(timezone(-timedelta(hours=offset))).tzinfo is not None


@pytest.mark.parametrize(
    ("late", "days", "slip_days", "expected"),
    [
        (-HOUR, 0, 0, 100),
        (timedelta(), 0, 0, 100),
        (timedelta(minutes=15), 0, 0, 100),
        (timedelta(minutes=15, seconds=1), 1, 1, 100),
        (2 * DAY, 2, 2, 100),
        (2 * DAY + HOUR, 3, 2, 90),
        (5 * DAY, 5, 2, 70),
        (6 * DAY + 20 * HOUR, 7, 2, 50),
    ],
)
def test_started_days_after_the_grace_are_paid_with_slip_days_and_then_with_points(
    late, days, slip_days, expected
):
    found = only(COURSE, attempt(100, late=late))
    assert (found.lateness.days, found.lateness.slip_days) == (days, slip_days)
    assert (found.raw, found.score) == (100, expected)
    assert found.lateness.due == DUE


def test_lateness_takes_no_more_than_its_cap_and_what_is_too_late_scores_nothing():
    course = CourseFile(
        due=DUE, late=Late(grace="15m", penalty_per_day=10, cap=50, refuse_after="10d")
    )
    assert only(course, attempt(100, late=9 * DAY)).score == 50
    refused = only(course, attempt(100, late=10 * DAY + HOUR))
    assert (refused.score, refused.raw, refused.lateness.refused) == (0, 100, True)
    assert "h1 came too late to be accepted: it scores 0" in refused.notes
    edge = only(course, attempt(100, late=10 * DAY + timedelta(minutes=15)))
    assert not edge.lateness.refused


def test_a_penalty_takes_exact_points():
    course = CourseFile(due=DUE, late=Late(penalty_per_day=0.1))
    assert only(course, attempt(80, late=3 * DAY)).score == 79.76


def test_time_is_the_platforms_whatever_its_offset():
    at = (DUE + HOUR).astimezone(timezone(timedelta(hours=-8)))
    assert only(COURSE, attempt(100, submitted_at=at)).lateness.days == 1


def test_without_a_time_lateness_is_not_known_and_costs_nothing():
    marked = only(COURSE, attempt(100, late=None, marked_late=True))
    assert (marked.score, marked.lateness.days) == (100, 0)
    note = "the platform marks it as late but tells no time: whether it was late is not known"
    assert note in marked.notes
    plain = only(COURSE, attempt(100, submitted_at=datetime(2030, 1, 1)))
    assert plain.score == 100
    assert "the platform tells no time: whether it was late is not known" in plain.notes
    assert only(CourseFile(), attempt(100, late=None)).notes == ()


def test_a_day_late_is_the_same_time_of_the_next_day_where_clocks_are_turned():
    berlin = ZoneInfo("Europe/Berlin")
    due = datetime(2026, 10, 24, 23, 59, tzinfo=berlin)  # the next day has 25 hours
    for day in (1, 2, 3):
        at = datetime(2026, 10, 24 + day, 23, 59, tzinfo=berlin)
        assert days_late(at, due, timedelta()) == day
        assert days_late(at + timedelta(seconds=1), due, timedelta()) == day + 1
    due = datetime(2026, 3, 28, 23, 59, tzinfo=berlin)  # the next day has 23 hours
    at = datetime(2026, 3, 29, 23, 59, tzinfo=berlin)
    assert days_late(at, due, timedelta()) == 1
    assert days_late(at + timedelta(seconds=1), due, timedelta()) == 2


def test_an_extension_is_ones_own_due_date():
    course = CourseFile(due=DUE, late=POLICY, extensions={"ADA": DUE + DAY})
    found = only(course, attempt(100, late=DAY))
    assert (found.lateness.due, found.lateness.days) == (DUE + DAY, 0)
    assert "extension until 2026-12-02 23:59 +00:00" in found.notes


def test_the_example_in_the_documentation_is_what_happens(tmp_path):
    text = documents.read("docs/batch.md")
    [example] = [each for each in documents.blocks(text) if each.info == "yaml"]
    (tmp_path / "course.yaml").write_text(example.text, encoding="utf-8")
    course = load(tmp_path / "course.yaml").model_copy(update={"due": DUE, "extensions": {}})
    rows = re.findall(r"^\| (\d.*) \| (\d) \| (\d) \| (\d+ %|refused) \| (\d+) \|$", text, re.M)
    assert len(rows) == 7
    for after, days, slip_days, taken, final in rows:
        found = only(course, attempt(80, late=duration_of(after)))
        late = found.lateness
        share = "refused" if late.refused else f"{100 * late.penalty:g} %"
        assert (late.days, late.slip_days, share, found.score) == (
            int(days), int(slip_days), taken, float(final)
        ), after  # fmt: skip


# --- which one counts -----------------------------------------------------------------------------

EARLY, LATE = attempt(80, "h1", late=-HOUR), attempt(100, "h2", late=2 * DAY + HOUR)
LATER = attempt(40, "h3", late=3 * DAY + HOUR)


@pytest.mark.parametrize(
    ("counts", "counted", "final"),
    [("last", "h3", 32), ("best", "h2", 90), ("last_on_time", "h1", 80)],
)
def test_which_hand_in_counts(counts, counted, final):
    course = CourseFile(due=DUE, late=POLICY, counts=counts)
    found = only(course, EARLY, LATE, LATER)
    assert (found.counted.handin.id, found.score) == (counted, final)
    assert [each.handin.id for each in found.attempts] == ["h1", "h2", "h3"]
    assert any(note.startswith(f"3 hand-ins, of which {counted} counts") for note in found.notes)


def test_of_equally_good_ones_the_first_counts():
    course = CourseFile(due=DUE, late=POLICY, counts="best")
    same = attempt(100, "a", late=-HOUR), attempt(100, "b", late=DAY)
    assert only(course, *same).counted.handin.id == "a"


def test_where_none_is_in_time_the_last_one_counts():
    course = CourseFile(due=DUE, late=POLICY, counts="last_on_time")
    assert only(course, LATE, LATER).counted.handin.id == "h3"


def test_the_last_one_that_can_be_read_counts_and_a_note_says_so():
    broken = Attempt(handin("h9", late=DAY, problem="not a zip file"))
    found = only(COURSE, EARLY, broken)
    assert (found.counted.handin.id, found.score) == ("h1", 80)
    assert "can't be read: h9: not a zip file" in found.notes
    assert "the last hand-in can't be read: h1, from before it, counts" in found.notes
    assert only(COURSE, LATE, Attempt(handin("h0", late=-DAY, problem="x"))).score == 90


def test_nothing_that_can_be_read_is_no_score_and_no_zero():
    found = only(COURSE, Attempt(handin(problem="not a zip file")))
    assert (found.counted, found.raw, found.score, found.waiting) == (None, None, None, ())
    assert found.notes == ("can't be read: h1: not a zip file",)


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        ("h1: assignment.zip is damaged", "can't be read: h1: assignment.zip is damaged"),
        ("h1 is damaged: it is cut off", "can't be read: h1 is damaged: it is cut off"),
        ("h11.zip is damaged", "can't be read: h1: h11.zip is damaged"),
    ],
)
def test_what_cannot_be_read_is_named_once(problem, told):
    assert only(COURSE, Attempt(handin("h1", problem=problem))).notes == (told,)


def test_what_was_refused_does_not_replace_what_was_accepted():
    found = only(COURSE, EARLY, attempt(100, "h8", late=8 * DAY))
    assert (found.counted.handin.id, found.score) == ("h1", 80)
    assert "h8 came too late to be accepted" in found.notes


def test_an_extension_never_makes_a_worse_hand_in_count():
    course = CourseFile(due=DUE, late=Late(penalty_per_day=10), counts="last_on_time")
    handins = attempt(40, "h1", late=DAY), attempt(100, "h2", late=3 * DAY)
    assert only(course, *handins).score == 70
    longer = course.model_copy(update={"extensions": {"ada": DUE + DAY}})
    assert only(longer, *handins).score == 80  # the better one, one day less late


def test_what_has_no_time_is_in_the_order_of_its_name():
    ids = ["submission_10", "submission_9", "submission_1"]
    found = only(COURSE, *(attempt(100, id, late=None) for id in ids))
    assert [each.handin.id for each in found.attempts] == ids[::-1]
    assert "hand-ins without a time are taken to be in the order of their names" in found.notes


def test_an_empty_hand_in_counts_but_not_in_silence():
    empty = attempt(0, "h2", late=HOUR, files={})
    found = only(COURSE, EARLY, empty)
    assert found.score == 0
    assert "h2, which counts, has no file of any exercise; another has" in found.notes


# --- who ------------------------------------------------------------------------------------------


def test_who_handed_in_nothing_is_in_the_gradebook():
    found = book(COURSE, roster=class_of(Student("1", "ada"), Student("2", "bob")))
    assert [each.notes for each in found.entries] == [("nothing handed in",)] * 2
    assert {each.score for each in found.entries} == {None}
    assert (found.unmatched_handins, found.unmatched_rows) == ((), ())


def test_hand_ins_and_rows_that_match_nobody_are_listed():
    roster = class_of(Student("1", "ada"), Student("2", "zoe", "Zoe Smith"))
    course = CourseFile(due=DUE, extensions={"adda": DUE + DAY, "ADA": DUE + DAY})
    found = book(
        course,
        attempt(100, "h1"),
        attempt(100, "h2", member("zsmith", name="Zoe Smith")),
        roster=roster,
        adjustments=[points(1, "nobody")],
    )
    assert entry(found, "1").score == 100
    assert entry(found, "2").notes == ("nothing handed in",)
    [unmatched] = found.unmatched_handins
    assert unmatched.id == "h2"
    assert "by the name it could be Zoe Smith (2), roster.csv: row 3" in unmatched.notes[-1]
    assert found.unmatched_rows == (
        "course.yaml: extensions: 'adda' names nobody",
        "adjustments: 'nobody' names nobody",
        "roster.csv: row 3: no hand-in of Zoe Smith (2)",
    )


def test_a_row_without_a_platform_id_is_listed_unless_its_hand_in_was_found():
    people = Student("1", "", "Ada", "ada@x.org"), Student("2", "", "Bob")
    unlinked = {"1": "row 2: no login", "2": "row 3: no login"}
    roster = Roster("plain", "roster.csv", people, unlinked=unlinked)
    found = book(COURSE, attempt(100, "h", member("x", email="ADA@x.org")), roster=roster)
    assert entry(found, "1").score == 100
    assert found.unmatched_rows == ("row 3: no login",)


def nobodys(each: Attempt) -> Attempt:
    """A hand-in that names no people."""
    return replace(each, handin=replace(each.handin, members=()))


def test_a_folder_named_like_a_student_is_theirs():
    found = book(COURSE, nobodys(attempt(100, "ada")), roster=class_of(Student("1", "ada")))
    assert entry(found, "1").score == 100


def test_without_a_roster_the_class_is_who_handed_in():
    people = Member("7", "Zoe"), Member("", "Bob", email="bob@x.org")
    found = book(COURSE, attempt(100, "h1", *people), nobodys(attempt(80, "h2")))
    assert [(e.student.id, e.student.name, e.student.email) for e in found.entries] == [
        ("bob@x.org", "Bob", "bob@x.org"),
        ("h2", "", ""),
        ("7", "Zoe", ""),
    ]


def test_a_group_shares_a_score_but_not_slip_days_or_extensions_or_points():
    course = CourseFile(due=DUE, late=POLICY, extensions={"bob": DUE + 2 * DAY})
    shared = attempt(100, "h1", member("ada"), member("bob"), member("cyd"), late=4 * DAY)
    found = book(course, shared, adjustments=[points(-5, "cyd")])
    ada, bob, cyd = (entry(found, id) for id in ("ada", "bob", "cyd"))
    assert [each.raw for each in (ada, bob, cyd)] == [100, 100, 100]
    assert [each.score for each in (ada, bob, cyd)] == [80, 100, 75]
    assert [each.lateness.slip_days for each in (ada, bob, cyd)] == [2, 2, 2]
    assert "in a group with Bob, Cyd" in ada.notes
    assert ada.adjustments == ()


def test_a_group_with_somebody_unknown_is_listed_and_the_others_have_their_score():
    shared = attempt(100, "h1", member("ada"), member("eve"))
    found = book(COURSE, shared, roster=class_of(Student("1", "ada")))
    assert entry(found, "1").score == 100
    assert [each.notes for each in found.unmatched_handins] == [
        ("Eve (eve) is nobody in roster.csv",)
    ]


def test_entries_stand_by_name():
    handins = [attempt(80, id, member(id, name=name)) for id, name in
               (("1", "zoe"), ("2", "Ada"), ("3", "bob"))]  # fmt: skip
    assert [each.student.name for each in book(COURSE, *handins).entries] == ["Ada", "bob", "zoe"]


# --- adjustments ----------------------------------------------------------------------------------


def test_points_are_added_after_the_penalty_and_a_score_is_never_below_zero():
    late = attempt(100, late=3 * DAY)
    assert only(COURSE, late, adjustments=[points(5)]).score == 95
    assert only(COURSE, late, adjustments=[points(0.1), points(0.2)]).score == 90.3
    found = only(COURSE, late, adjustments=[points(-500)])
    assert (found.score, found.raw) == (0, 100)
    assert [each.points for each in found.adjustments] == [-500]


def test_points_without_a_hand_in_are_a_score():
    roster = class_of(Student("ada"))
    assert entry(book(COURSE, roster=roster, adjustments=[points(12)])).score == 12
    assert entry(book(COURSE, roster=roster, adjustments=[points(-12)])).score == 0


def test_a_note_changes_nothing():
    note = Adjustment("ada", KIND.note, "spoke with her", points=50)
    assert only(COURSE, attempt(80), adjustments=[note]).score == 80


def decision(kind: KIND, only: str = "silu/triton", student: str = "ada", at=None) -> Adjustment:
    return Adjustment(student, kind, "seen in ncu", only=only, at=at)


IMPLAUSIBLE = evidence(performance=timed(Status.implausible_time))


def test_an_implausible_time_waits_for_a_person():
    found = book(COURSE, attempt(seen=IMPLAUSIBLE))
    assert entry(found).waiting == ("a person has to decide on the time of silu/triton",)
    assert entry(found).raw == 80
    assert incomplete(found) == (
        "1 of 1 students has no final score (ada; the first: a person has to decide on the time of "
        "silu/triton)"
    )


@pytest.mark.parametrize("only_", ["", "silu", "silu/triton"])
@pytest.mark.parametrize(("kind", "expected"), [(KIND.accept_time, 100), (KIND.reject_time, 80)])
def test_a_person_decides_on_an_implausible_time(kind, expected, only_):
    found = book(COURSE, attempt(seen=IMPLAUSIBLE), adjustments=[decision(kind, only_)])
    assert (entry(found).score, incomplete(found)) == (expected, "")
    assert entry(found).counted.grade.gradable == 100
    [check] = [c for c in checks(entry(found)) if c.name == "performance"]
    lost = kind is KIND.reject_time
    assert ("does not believe it: seen in ncu" in check.message) is lost
    other = book(COURSE, attempt(seen=IMPLAUSIBLE), adjustments=[decision(kind, "silu/extra")])
    assert entry(other).waiting


def checks(found: Entry):
    return found.counted.grade.exercises[0].variants[0].checks


def test_the_later_decision_holds_and_all_of_a_group_have_it():
    at = DUE.replace(tzinfo=None)
    first = decision(KIND.reject_time, student="bob", at=at)
    second = decision(KIND.accept_time, student="ada", at=at + DAY)
    shared = attempt(100, "h1", member("ada"), member("bob"), seen=IMPLAUSIBLE)
    for adjustments in ([first, second], [second, first]):
        found = book(COURSE, shared, adjustments=adjustments)
        assert [each.score for each in found.entries] == [100, 100]
        assert all(set(each.adjustments) == {first, second} for each in found.entries)


def test_a_decision_changes_no_time_that_was_plausible_and_no_stored_evidence():
    seen = evidence()
    assert decided(seen, [decision(KIND.reject_time)]) is seen
    assert decided(seen, [decision(KIND.accept_time)]) is seen
    assert decided(seen, [points(3)]) is seen
    decided(IMPLAUSIBLE, [decision(KIND.accept_time)])
    assert IMPLAUSIBLE.variants[0].performance.status is Status.implausible_time


def test_every_case_of_a_time_is_decided():
    further = (timed(Status.implausible_time),)
    both = replace(timed(), further=further)
    accepted = decided(evidence(performance=both), [decision(KIND.accept_time)])
    assert [each.status for each in accepted.variants[0].performance.every] == [Status.passed] * 2
    rejected = decided(evidence(performance=both), [decision(KIND.reject_time)])
    assert rejected.variants[0].performance.status is Status.target_missed


TOO_FAST = replace(timed(), microseconds=20.0, bytes=268435456)  # 78 us at an H100's peak


@pytest.mark.parametrize(("kind", "expected"), [(KIND.accept_time, 100), (KIND.reject_time, 80)])
def test_a_person_decides_on_a_time_that_scoring_found_too_short(kind, expected):
    seen = evidence(performance=TOO_FAST)
    waiting = entry(book(COURSE, attempt(seen=seen)))
    assert waiting.waiting == ("a person has to decide on the time of silu/triton",)
    assert (waiting.raw, waiting.counted.grade.gradable) == (80, 80)
    found = entry(book(COURSE, attempt(seen=seen), adjustments=[decision(kind)]))
    assert (found.score, found.waiting) == (expected, ())


VIOLATION = evidence(Status.policy_violation, Status.policy_violation)


def test_lifted_rules_take_nothing_and_wait_for_the_run_without_them():
    assert only(COURSE, attempt(seen=VIOLATION)).score == 0
    lifted = book(COURSE, attempt(seen=VIOLATION), adjustments=[decision(KIND.lift)])
    assert entry(lifted).waiting == (f"silu/triton: {TO_RUN}",)
    assert entry(lifted).counted.grade.gradable == 0
    again = evidence(rules_lifted=True)
    run = book(COURSE, attempt(seen=again), adjustments=[decision(KIND.lift)])
    assert (entry(run).score, incomplete(run)) == (100, "")
    assert decided(evidence(), [decision(KIND.lift)]) == evidence()


# --- what isn't final -----------------------------------------------------------------------------


def test_what_is_not_graded_yet_has_no_score_and_no_older_one_takes_its_place():
    found = book(COURSE, EARLY, attempt(None, "h2", late=HOUR))
    assert (entry(found).score, entry(found).waiting) == (None, ("not graded yet",))
    assert entry(found).counted.handin.id == "h2"
    told = "1 of 1 students has no final score (ada; the first: not graded yet)"
    assert incomplete(found) == told


def test_the_best_one_is_not_known_before_all_are_graded():
    course = CourseFile(due=DUE, counts="best")
    found = only(course, EARLY, attempt(None, "h2", late=HOUR))
    assert (found.score, found.waiting) == (80, ("not graded yet",))
    assert only(COURSE, attempt(None, "h0", late=-DAY), EARLY).waiting == ()


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (evidence(Status.grader_error), "the grader failed on silu/triton"),
        (evidence(performance=timed(Status.grader_error)), "the grader failed on silu/triton"),
        (evidence(extra=Status.grader_error), "the grader failed on silu/extra"),
        (evidence(complete=False), "its grading was interrupted"),
    ],
)
def test_what_the_grader_failed_on_is_never_a_final_score(seen, words):
    assert only(COURSE, attempt(seen=seen)).waiting == (words,)


def test_without_a_gpu_a_score_is_final_all_the_same():
    seen = evidence(gpu=None)
    found = book(COURSE, attempt(seen=seen), device="cpu")
    assert (entry(found).score, incomplete(found), found.max_score) == (80, "", 100)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (evidence(gpu=None), "the device NVIDIA H100 80GB HBM3; 2 hand-ins had another: a: cpu"),
        (evidence(gpu="NVIDIA A100"), "2 hand-ins had another: a: NVIDIA A100"),
        (evidence(seed=8), "the seed 7; 2 hand-ins had another: a: 8"),
    ],
)
def test_a_gradebook_never_mixes_devices_or_seeds(seen, words):
    others = attempt(seen=seen, id="a"), attempt(seen=seen, id="b")
    with pytest.raises(Mistake) as raised:
        book(COURSE, attempt(), *others)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_stored_score_is_taken_as_it_is_and_a_missing_one_worked_out():
    graded = attempt(100)
    older = replace(graded, grade=score(earning(40), exercises()))
    assert only(COURSE, older).raw == 40
    assert only(COURSE, replace(graded, grade=None)).raw == 100


def test_a_bonus_is_in_the_score_and_not_in_the_maximum():
    found = book(COURSE, attempt(seen=evidence(extra=Status.passed)))
    assert (entry(found).score, found.max_score) == (105, 100)


def test_untrusted_words_stay_on_their_line():
    broken = Attempt(handin(UNTRUSTED, member("ada", name=UNTRUSTED), problem=UNTRUSTED))
    for note in only(COURSE, broken, attempt(None, UNTRUSTED, notes=(UNTRUSTED,))).notes:
        assert "\n" not in note
        assert "\x1b" not in note


# --- files ----------------------------------------------------------------------------------------


def test_a_students_files_have_names_that_are_safe_and_their_own():
    ids = ["ada", "Ada", "../../x", "", ".", "con/x", "a b", "a-b", "ä", "x" * 300, "\ud800"]
    stems = [page_stem(Student(id)) for id in ids]
    # Ids that were chosen to be the stems of others.
    ids = list(dict.fromkeys([*ids, *stems]))
    stems = [page_stem(Student(id)) for id in ids]
    assert stems[0] == "ada"
    assert len({stem.lower() for stem in stems}) == len(ids)
    for stem in stems:
        assert stem.isascii()
        assert 0 < len(stem) <= 80
        assert not set(stem) & set("/\\ \0:")
        assert stem[0] not in ".-"


# --- what always holds ----------------------------------------------------------------------------

_lates = st.integers(-3 * 24 * 60, 12 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes))
_policies = st.builds(
    Late,
    grace=st.sampled_from(["0m", "15m", "2h"]),
    slip_days=st.integers(0, 4),
    penalty_per_day=st.sampled_from([0, 0.1, 7.5, 10, 33.3, 100]),
    cap=st.sampled_from([0, 12.5, 50, 100]),
    refuse_after=st.sampled_from([None, "0d", "36h", "7d"]),
)
_counts = st.sampled_from(["last", "best", "last_on_time"])
_scores = st.sampled_from([0, 40, 80, 100])
_handins = st.lists(st.tuples(_scores, _lates), min_size=1, max_size=4, unique_by=lambda x: x[1])


def attempts_of(works: list[tuple[int, timedelta]], *people: Member) -> list[Attempt]:
    return [READY[points].at(f"h{i}", late, people) for i, (points, late) in enumerate(works)]


class _Ready:
    """A graded hand-in, scored once: only its time and people differ."""

    def __init__(self, points: int) -> None:
        self.attempt = attempt(points)

    def at(self, id: str, late: timedelta, people: tuple[Member, ...]) -> Attempt:
        return replace(self.attempt, handin=handin(id, *people, late=late))


READY = {points: _Ready(points) for points in (0, 40, 80, 100)}


@given(_policies, _counts, _scores, _lates, _lates)
def test_later_never_scores_more_for_the_same_work(policy, counts, work, one, other):
    course = CourseFile(due=DUE, late=policy, counts=counts)
    first, second = sorted((one, other))
    early = only(course, *attempts_of([(work, first)])).score
    assert early >= only(course, *attempts_of([(work, second)])).score


@given(_policies, _counts, _handins, st.integers(0, 200))
def test_an_extension_never_lowers_a_score(policy, counts, works, hours):
    course = CourseFile(due=DUE, late=policy, counts=counts)
    longer = course.model_copy(update={"extensions": {"ada": DUE + hours * HOUR}})
    attempts = attempts_of(works)
    assert only(longer, *attempts).score >= only(course, *attempts).score


@given(_policies, _counts, _handins)
def test_lateness_takes_no_more_than_the_cap_unless_it_was_refused(policy, counts, works):
    found = only(CourseFile(due=DUE, late=policy, counts=counts), *attempts_of(works))
    least = found.raw * (1 - policy.cap / 100)
    assert found.score == 0 if found.lateness.refused else found.score >= least - 1e-4
    assert found.score <= found.raw
    assert 0 <= found.lateness.penalty <= policy.cap / 100
    assert found.lateness.slip_days <= min(policy.slip_days, found.lateness.days)


@given(_policies, _counts, _handins)
def test_more_slip_days_never_cost_points(policy, counts, works):
    attempts = attempts_of(works)
    course = CourseFile(due=DUE, late=policy, counts=counts)
    kinder = course.model_copy(update={
        "late": policy.model_copy(update={"slip_days": policy.slip_days + 1})
    })  # fmt: skip
    assert only(kinder, *attempts).score >= only(course, *attempts).score


@given(_policies, _counts, _handins, st.integers(0, 200), st.sampled_from([-3.5, 0, 2]))
def test_members_of_a_group_differ_by_their_own_time_and_points_only(
    policy, counts, works, hours, added
):
    extensions = {"bob": DUE + hours * HOUR}
    course = CourseFile(due=DUE, late=policy, counts=counts).model_copy(
        update={"extensions": extensions}
    )
    people = member("ada"), member("bob"), member("cyd")
    found = book(course, *attempts_of(works, *people), adjustments=[points(added, "cyd")])
    ada, bob, cyd = (entry(found, id) for id in ("ada", "bob", "cyd"))
    assert ada.attempts == bob.attempts == cyd.attempts
    assert cyd.score == max(0, round(ada.score + added, 4))
    assert (ada.counted, ada.raw, ada.lateness) == (cyd.counted, cyd.raw, cyd.lateness)
    alone = [replace(a, handin=replace(a.handin, members=(member("bob"),))) for a in ada.attempts]
    assert only(course, *alone).score == bob.score


@given(_policies, _counts, _handins, st.randoms(use_true_random=False))
def test_the_order_in_which_things_come_changes_nothing(
    policy, counts, works, shuffler: random.Random
):
    course = CourseFile(due=DUE, late=policy, counts=counts)
    attempts = attempts_of(works, member("ada"), member("bob"))
    attempts += [attempt(80, "x", member("cyd"), late=None), attempt(None, "y", member("ada"))]
    adjustments = [points(1), points(2.5), points(-1, "bob"), decision(KIND.accept_time)]
    expected = book(course, *attempts, adjustments=adjustments)
    shuffler.shuffle(attempts)
    shuffler.shuffle(adjustments)
    assert book(course, *attempts, adjustments=adjustments) == expected
