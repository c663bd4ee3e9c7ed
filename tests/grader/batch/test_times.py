"""The platform's time is found for a clone, and believed before its commit's."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from grader.batch.collect import classroom_times
from grader.batch.collect.classroom_clones import NO_CLONE
from grader.batch.course.records import Handin, Member
from grader.spec import SpecError

COMMIT = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
PLATFORM = datetime(2026, 3, 2, 21, 4, 5, tzinfo=timezone.utc)
HEADER = "github_username,roster_identifier,student_repository_name,submission_timestamp\n"


def read(tmp_path: Path, text: str) -> classroom_times.Times:
    path = tmp_path / "grades.csv"
    path.write_text(text)
    return classroom_times.load(path)


def clone(name: str, at: datetime | None = COMMIT, notes: tuple[str, ...] = ()) -> Handin:
    login = name.removeprefix("lab-")
    return Handin(name, (Member(login, login=login),), submitted_at=at, notes=notes)


@pytest.mark.parametrize(
    "told",
    [
        *("2026-03-02T21:04:05Z", "2026-03-02 21:04:05 UTC", "2026-03-02 21:04:05"),
        *("2026-03-02T22:04:05+01:00", "2026-03-02 22:04:05 +0100"),
    ],
)
def test_a_time_is_read_however_it_is_written(tmp_path, told):
    assert read(tmp_path, f"{HEADER}ada,1,lab-ada,{told}\n").find(clone("lab-ada")) == PLATFORM


def test_a_clone_is_found_by_its_repository_and_then_by_its_login(tmp_path):
    known = read(
        tmp_path,
        f"{HEADER}ada,1,Lab-Team-One,2026-03-02T21:04:05Z\nBob,2,,2026-03-02T21:04:05Z\n",
    )
    assert known.find(clone("lab-team-one")) == PLATFORM
    assert known.find(clone("lab-bob")) == PLATFORM
    assert known.find(clone("lab-cyd")) is None


def test_what_the_platform_does_not_tell_stays_the_commits_and_is_said(tmp_path):
    known = read(tmp_path, f"{HEADER}ada,1,lab-ada,2026-03-02T21:04:05Z\nbob,2,lab-bob,\n")
    every = [clone("lab-ada", None, (NO_CLONE, "x")), clone("lab-bob"), clone("lab-cyd", None)]
    (ada, bob, cyd), line = classroom_times.judged_by(every, known)
    assert (ada.submitted_at, ada.notes) == (PLATFORM, ("x",))
    assert (bob.submitted_at, cyd.submitted_at) == (COMMIT, None)
    assert bob.notes == ("its time is that of its last commit: grades.csv tells none",)
    assert cyd.notes == ()
    assert line.endswith("grades.csv for 1 of 3 hand-ins, by their commits' times for 1")


def test_without_the_platforms_times_it_is_said_whose_they_are():
    every = [clone("lab-ada")]
    assert classroom_times.judged_by(every, None) == (tuple(every), classroom_times.COMMITS_ONLY)


def test_a_commit_dated_back_gains_nothing(tmp_path):
    known = read(tmp_path, f"{HEADER}ada,1,lab-ada,2026-03-02T21:04:05Z\n")
    (ada,), _ = classroom_times.judged_by([clone("lab-ada", COMMIT - timedelta(days=300))], known)
    assert ada.submitted_at == PLATFORM


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"{HEADER}ada,1,lab-ada,yesterday\n",
            "grades.csv: row 2: submission_timestamp: expected ",
        ),
        ("id,name\n1,Ada\n", "grades.csv: row 1: expected the column 'submission_timestamp'"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, text, line):
    with pytest.raises(SpecError, match=line) as raised:
        read(tmp_path, text)
    assert "\n" not in str(raised.value)
