"""The course file: what it may say, and one line for each thing that it says wrong."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

import pytest
from pydantic import ValidationError

from grader.spec import SpecError
from grader.spec.course_file import CourseFile, Late, duration_of, load, time_text
from tests.support.class_records import exercises

WHOLE = """\
title: Kernels 1
due: 2026-12-01T23:59
timezone: Europe/Berlin
late: {grace: 15m, slip_days: 5, penalty_per_day: 10, cap: 50, refuse_after: 7d}
extensions: {ada: 2026-12-03T23:59, "00123": 2d, bob: 36h}
counts: best
device: NVIDIA H100
seed: 7
lifted: [silu/triton]
"""
DUE = "due: 2026-12-01T23:59Z\n"


def read(tmp_path: Path, text: str, **options) -> CourseFile:
    path = tmp_path / "course.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path, **options)


def refused(tmp_path: Path, text: str, **options) -> str:
    """The one line that answers a course file with one mistake."""
    with pytest.raises(SpecError) as raised:
        read(tmp_path, text, **options)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def utc(year: int, month: int, day: int, hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)


def test_a_course_has_what_its_file_says(tmp_path):
    course = read(tmp_path, WHOLE, exercises=exercises())
    assert course.due == utc(2026, 12, 1, 22, 59)
    assert course.late == Late(
        grace="15m", slip_days=5, penalty_per_day=10, cap=50, refuse_after="7d"
    )
    assert course.late.refuse_after == timedelta(days=7)
    assert course.extensions == {
        "ada": utc(2026, 12, 3, 22, 59),
        "00123": utc(2026, 12, 3, 22, 59),
        "bob": utc(2026, 12, 3, 10, 59),
    }
    assert (course.counts, course.device, course.seed) == ("best", "NVIDIA H100", 7)
    assert course.lifted == ("silu/triton",)
    assert time_text(course.extensions["ada"]) == "2026-12-03 23:59 Europe/Berlin"


def test_without_a_due_date_nothing_is_late_and_the_last_hand_in_counts(tmp_path):
    course = CourseFile()
    assert (course.due, course.counts, course.late.penalty(100)) == (None, "last", 0)
    assert read(tmp_path, "title: Kernels 1").due is None


def test_a_course_never_changes():
    with pytest.raises(ValidationError):
        CourseFile().seed = 8


@pytest.mark.parametrize(
    ("due", "expected"),
    [
        ("2026-12-01T23:59+01:00", utc(2026, 12, 1, 22, 59)),
        ("2026-12-01 23:59:00 +01:00", utc(2026, 12, 1, 22, 59)),
        ("2026-12-01T23:59:30Z", utc(2026, 12, 1, 23, 59, 30)),
        ("2026-12-01T23:59Z", utc(2026, 12, 1, 23, 59)),
        ('"2026-12-01T23:59-08:00"', utc(2026, 12, 2, 7, 59)),
    ],
)
def test_a_due_date_with_an_offset_needs_no_time_zone(tmp_path, due, expected):
    assert read(tmp_path, f"due: {due}").due == expected


def test_an_hour_that_comes_twice_is_the_later_one_and_one_that_never_comes_too(tmp_path):
    autumn = read(tmp_path, "due: 2026-10-25T02:30\ntimezone: Europe/Berlin")
    assert autumn.due.astimezone(timezone.utc) == utc(2026, 10, 25, 1, 30)
    spring = read(tmp_path, "due: 2026-03-29T02:30\ntimezone: Europe/Berlin")
    assert spring.due.astimezone(timezone.utc) == utc(2026, 3, 29, 1, 30)


def test_an_extension_by_days_ends_at_the_same_time_of_day_where_clocks_are_turned(tmp_path):
    text = "due: 2026-10-24T23:59\ntimezone: Europe/Berlin\nextensions: {ada: 1d}"
    course = read(tmp_path, text)
    assert course.due.astimezone(timezone.utc) == utc(2026, 10, 24, 21, 59)
    assert course.extensions["ada"].astimezone(timezone.utc) == utc(2026, 10, 25, 22, 59)


def test_an_extension_without_an_offset_has_that_of_the_due_date(tmp_path):
    course = read(tmp_path, "due: 2026-12-01T23:59+05:30\nextensions: {ada: 2026-12-02T23:59}")
    assert course.extensions["ada"] - course.due == timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("due: 2026-12-01", "course.yaml:1: due: expected a date and a time such as "
         "2026-12-01T23:59, got '2026-12-01'"),
        ("due: 2026-12-01T23:59", "course.yaml:1: due: expected an offset from UTC"),
        ("title: 3", "course.yaml:1: title: expected text, got 3"),
        (f"{DUE}timezone: Berlin", "course.yaml:2: timezone: expected the name of a time zone such "
         "as Europe/Berlin, got 'Berlin'"),
        (f"{DUE}timezone: ../../etc/passwd", "timezone: expected the name of a time zone"),
        (f"{DUE}late: {{grase: 15m}}", "late.grase: expected one of the keys grace, slip_days, "
         "penalty_per_day, cap, refuse_after, got 'grase', did you mean 'grace'?"),
        (f"{DUE}late: {{grace: 15}}", "late.grace: expected a duration such as 15m, 36h or 2d, "
         "got 15"),
        (f"{DUE}late: {{grace: -15m}}", "late.grace: expected a duration"),
        (f"{DUE}late: {{grace: 99999d}}", "late.grace: expected a duration"),
        (f"{DUE}late: {{slip_days: 1.5}}", "late.slip_days: expected a whole number >= 0, got 1.5"),
        (f"{DUE}late: {{slip_days: true}}", "late.slip_days: expected a whole number >= 0"),
        (f"{DUE}late: {{penalty_per_day: 10%}}", "late.penalty_per_day: expected a number from 0 "
         "to 100 (percent), got '10%': write it without %"),
        (f"{DUE}late: {{cap: 150}}", "course.yaml:2: late.cap: expected a number from 0 to 100 "
         "(percent), got 150"),
        (f"{DUE}late: {{cap: .nan}}", "late.cap: expected a number from 0 to 100"),
        (f"{DUE}late: 10", "late: expected"),
        (f"{DUE}extensions: {{30123: 2d}}", ":2: extensions.30123: expected text as key"),
        (f"{DUE}extensions: {{ada: soon}}", "extensions.ada: expected a date and a time such as "
         "2026-12-01T23:59, or a duration such as 15m, 36h or 2d, got 'soon'"),
        (f"{DUE}extensions: {{ada: 2026-11-01T23:59}}", "extensions.ada: expected a time after the "
         "due date, 2026-12-01 23:59 +00:00, got 2026-11-01T23:59"),
        (f"{DUE}extensions: {{ada: 1d, ada: 2d}}", "extensions.ada: expected each key once"),
        ("extensions: {ada: 2d}", "extensions: expected the key 'due' beside it"),
        ("late: {slip_days: 2}", "late: expected the key 'due' beside it"),
        ("counts: lst", "course.yaml:1: counts: expected one of last, best, last_on_time, got "
         "'lst', did you mean 'last'?"),
        ("seed: -1", "seed: expected a whole number >= 0, got -1"),
        ("lifted: gemm", "lifted: expected a list, got 'gemm'"),
        ("lifted: [sulu/triton]", "lifted[0]: expected the name of an exercise or variant, such as "
         "rmsnorm or rmsnorm/triton, got 'sulu/triton', did you mean 'silu/triton'?"),
        ("dew: 2026-12-01T23:59Z", "course.yaml:1: dew: expected one of the keys"),
        ("- due", "course.yaml: expected a mapping (title: ...), got a list"),
        ("", "course.yaml: expected a mapping (title: ...), got an empty file"),
        ("due: [", "course.yaml:1: can't be read as YAML"),
        ("due: 2026-13-01 23:59:00", "course.yaml: a value can't be read: month must be"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_file_key_what_was_expected_and_what_came(tmp_path, text, line):
    assert line in refused(tmp_path, text, exercises=exercises())


def test_every_mistake_has_its_line_and_a_course_error_is_a_spec_error(tmp_path):
    text = "title: 3\ndue: never\nlate: {cap: 150, slip_days: -1}\ncounts: lst\n"
    with pytest.raises(SpecError) as raised:
        read(tmp_path, text)
    assert [line.split(":")[1] for line in str(raised.value).splitlines()] == [*"12334"]


def test_a_missing_course_file_is_told(tmp_path):
    with pytest.raises(SpecError, match=r"course\.yaml: can't be read: No such file"):
        load(tmp_path / "course.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90s", 90), ("15m", 900), ("36h", 129600), ("2d", 172800), ("1d 12h", 129600), ("0d", 0)],
)
def test_durations(text, expected):
    assert duration_of(text) == timedelta(seconds=expected)


def test_a_penalty_is_exact_and_stops_at_its_cap():
    late = Late(penalty_per_day=0.1, cap=0.25)
    assert [late.penalty(days) for days in (0, 1, 2, 3)] == [
        0, Fraction(1, 1000), Fraction(2, 1000), Fraction(1, 400),
    ]  # fmt: skip


def test_results_of_another_device_than_the_final_one_are_told():
    assert CourseFile(device="cpu").why_not_final("cpu") == ""
    assert CourseFile(device="h100").why_not_final("NVIDIA H100 80GB HBM3") == ""
    assert CourseFile().why_not_final("anything") == ""
    told = CourseFile(device="NVIDIA H100").why_not_final("cpu")
    assert told == "graded on cpu: the course's final device is NVIDIA H100"
