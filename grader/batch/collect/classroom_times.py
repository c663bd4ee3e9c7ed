"""The times at which GitHub Classroom received hand-ins, from its grades CSV.

A commit has the time of its author's computer. The platform's own time stands in the column
`submission_timestamp` of the grades that a teacher downloads, which is a roster too. A hand-in is
found there by its `student_repository_name`, then by its `github_username`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from grader.batch.collect.classroom_clones import UNTIMED
from grader.batch.course import roster as roster_files
from grader.batch.course.records import Handin
from grader.batch.course.roster import Roster
from grader.report import one_line
from grader.spec import SpecError

COLUMN = "submission_timestamp"
LAYOUT = "classroom"
COMMITS_ONLY = (
    "lateness is judged by the times of commits, which whoever commits can set; GitHub Classroom's "
    "own are in its grades CSV: --times FILE, or that file as --roster"
)


@dataclass(frozen=True)
class Times:
    """The platform's times. `known` is by repository and by login, in lower case."""

    file: str
    known: Mapping[str, datetime]

    def find(self, handin: Handin) -> datetime | None:
        """When the platform received a hand-in; None where it doesn't say."""
        names = [handin.id, *(member.login for member in handin.members)]
        return next((self.known[n.casefold()] for n in names if n.casefold() in self.known), None)


def load(path: Path) -> Times:
    """Read a file of grades. Raises SpecError."""
    roster = roster_files.load(path)
    times = of(roster)
    if times is None:
        expected = f"the column {COLUMN!r} of GitHub Classroom's grades"
        raise SpecError([f"{roster.file}: row 1: expected {expected}; got a {roster.kind} roster"])
    return times


def of(roster: Roster) -> Times | None:
    """The times in a roster; None where it is another one. Raises SpecError."""
    if roster.kind != roster_files.GRADES:
        return None
    known: dict[str, datetime] = {}
    mistakes = []
    for student in roster.students:
        cells = {roster_files.key_of(name): cell for name, cell in student.columns.items()}
        given = cells.get(COLUMN, "").strip()
        at = _time(given)
        if given and at is None:
            mistakes.append(
                f"{roster.place(student)}: {COLUMN}: expected a time such as "
                f"2026-03-02T21:04:05Z, got {one_line(given)[:60]!r}"
            )
        repository = cells.get("student_repository_name", "")
        for name in filter(None, (repository, student.platform_id)):
            if at is not None:
                known[name.strip().casefold()] = at
    if mistakes:
        raise SpecError(mistakes)
    return Times(roster.file, known)


def judged_by(handins: Sequence[Handin], times: Times | None) -> tuple[tuple[Handin, ...], str]:
    """Clones with the platform's times, and a line that says whose times they have now.

    Where the platform tells none, a hand-in keeps its commit's, with a note.
    """
    if times is None:
        return tuple(handins), COMMITS_ONLY
    made = tuple(_timed(handin, times) for handin in handins)
    others = [handin for handin in handins if times.find(handin) is None]
    of_platform = len(handins) - len(others)
    of_commits = sum(handin.submitted_at is not None for handin in others)
    line = f"lateness is judged by {times.file} for {of_platform} of {len(handins)} hand-ins"
    return made, line + (f", by their commits' times for {of_commits}" if of_commits else "")


def _timed(handin: Handin, times: Times) -> Handin:
    at = times.find(handin)
    if at is not None:
        notes = tuple(note for note in handin.notes if note not in UNTIMED)
        return replace(handin, submitted_at=at, notes=notes)
    if handin.submitted_at is None:
        return handin
    note = f"its time is that of its last commit: {times.file} tells none"
    return replace(handin, notes=(*handin.notes, note))


def _time(text: str) -> datetime | None:
    """A time of ISO 8601, or as GitHub shows it: in UTC where it names no offset."""
    plain = re.sub(r"\s*(?:[zZ]|UTC)$", "+00:00", text)
    plain = re.sub(r"\s+([+-]\d\d):?(\d\d)$", r"\1:\2", plain)
    try:
        time = datetime.fromisoformat(plain)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
