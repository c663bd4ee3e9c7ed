"""The lateness of a hand-in and its cost. Pure; times are compared in UTC.

Days are started days after the due date and the grace, as the calendar of the course's time zone
has them: one day late is the same time of the next day, also where clocks are turned in between.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from fractions import Fraction

from grader.batch.course.records import Handin, Lateness
from grader.spec.course_file import DAY, CourseFile


def judge(handin: Handin, course: CourseFile, due: datetime | None) -> Lateness:
    """The lateness of a hand-in against a student's own due date.

    A hand-in without a known time is in time.
    """
    submitted = handin.known_time
    if due is None or submitted is None:
        return Lateness(due=due)
    days = days_late(submitted, due, course.late.grace)
    slip_days = min(days, course.late.slip_days)
    after = course.late.refuse_after
    return Lateness(
        due=due,
        days=days,
        slip_days=slip_days,
        penalty=float(course.late.penalty(days - slip_days)),
        refused=after is not None and _utc(submitted) > _utc(due) + course.late.grace + after,
    )


def after_penalty(raw: Fraction, lateness: Lateness, course: CourseFile) -> Fraction:
    """A score after the penalty for lateness, exactly."""
    if lateness.refused:
        return Fraction(0)
    return raw * (1 - course.late.penalty(lateness.days - lateness.slip_days))


def days_late(submitted: datetime, due: datetime, grace: timedelta) -> int:
    """Started days after `due` and `grace`; 0 up to then."""
    days = max(0, -((_utc(due) + grace - _utc(submitted)) // DAY))
    # A calendar's day has 23 or 25 hours where clocks are turned.
    while days and _utc(submitted) <= _utc(due + (days - 1) * DAY) + grace:
        days -= 1
    while _utc(submitted) > _utc(due + days * DAY) + grace:
        days += 1
    return days


def _utc(time: datetime) -> datetime:
    return time.astimezone(timezone.utc)
