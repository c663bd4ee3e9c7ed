"""The records of a class: hand-ins, people, decisions, attempts and the gradebook, all frozen.

Collecting makes hand-ins of members, and the store keeps them with their evidence. gradebook.py
makes the gradebook of them: an entry for each student. Exports and the class page are views of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from grader.evidence import Evidence
from grader.scoring.score import GradeScore

MOST_POINTS = 1e6  # that one decision adds or takes


@dataclass(frozen=True)
class Member:
    """A person as a platform names them in a hand-in; what it doesn't say is ""."""

    id: str  # what tells people apart there: Canvas's user id, Gradescope's sid, a GitHub login
    name: str = ""
    email: str = ""
    login: str = ""


@dataclass(frozen=True)
class Handin:
    """One hand-in, with the files that exercises name and nothing else.

    Either `problem` says in a line why nothing could be read, or `files` holds what there was,
    which may be nothing. `notes` say what was ignored, repaired or merged, a line each.
    """

    id: str  # within its source: "submission_123", "doejane_12345_6789_rmsnorm.py", a folder's name
    members: tuple[Member, ...] = ()
    submitted_at: datetime | None = None  # by the platform's clock, with its offset from UTC
    marked_late: bool = False  # by the platform, where it tells no time
    files: Mapping[str, bytes] = field(default_factory=dict)  # "rmsnorm.py": its bytes
    problem: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold the time, which a student's commit may tell, to years that can be computed with."""
        time = self.submitted_at
        if time is not None and not 1 < time.year < 9000:
            near = time.replace(year=min(max(time.year, 2), 9000), day=1)
            object.__setattr__(self, "submitted_at", near)

    @property
    def known_time(self) -> datetime | None:
        """When it was handed in, where the platform says so with an offset from UTC."""
        time = self.submitted_at
        return time if time is not None and time.tzinfo is not None else None

    @property
    def trouble(self) -> str:
        """`problem` with the hand-in's id in front, which it may begin with already."""
        begins = self.problem.startswith((f"{self.id} ", f"{self.id}: "))
        return self.problem if begins or not self.problem else f"{self.id}: {self.problem}"

    @property
    def sha256(self) -> str:
        """A hash of the names and bytes of all files, in the order of the names."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            data = self.files[name]
            digest.update(f"{len(name.encode())} {len(data)}\n".encode())
            digest.update(name.encode() + data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Student:
    """A person as the gradebook names them: a row of the roster; without one, a member."""

    id: str  # of the gradebook
    platform_id: str = ""  # as in Member.id
    name: str = ""
    email: str = ""
    section: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)  # the roster's other columns, kept


class AdjustmentKind(str, Enum):
    """The kinds of a person's decision."""

    points = "points"  # adds `points` to the student's score, or takes them where negative
    lift = "lift"  # a policy violation in `only` was none: its rules are lifted, and it is run
    accept_time = "accept_time"  # an implausible time of `only` is believed
    reject_time = "reject_time"  # ... is not: its performance scores 0
    note = "note"  # no effect on the score


@dataclass(frozen=True)
class Adjustment:
    """A person's decision. It is kept apart from evidence and survives rescoring and regrading."""

    student: str  # Student.id
    kind: AdjustmentKind
    reason: str
    only: str = ""  # "rmsnorm/triton", or "" for the whole
    points: float = 0.0
    by: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class Attempt:
    """A hand-in with its evidence and its score.

    Both are None where it hasn't been graded yet, or its `problem` left nothing to grade.
    """

    handin: Handin
    evidence: Evidence | None = None
    grade: GradeScore | None = None

    @property
    def is_graded(self) -> bool:
        return self.grade is not None


@dataclass(frozen=True)
class Lateness:
    """The lateness of the attempt that counts, and its cost.

    Days are started days after the student's own due date and the grace period.
    """

    due: datetime | None = None  # the student's own, extension included
    days: int = 0  # started days late; 0 for in time
    slip_days: int = 0  # of those, paid for from the student's budget
    penalty: float = 0.0  # share of the score taken off, 0 to 1
    refused: bool = False  # later than the course accepts at all: scores 0


@dataclass(frozen=True)
class Entry:
    """One student's line: `score` is what is left after adjustments and the penalty.

    `raw` is the counted attempt's own score. Both are None where nothing was handed in that could
    be graded; exports then write an empty cell or 0 as their format asks.
    """

    student: Student
    attempts: tuple[Attempt, ...] = ()  # in the order in which they were handed in
    counted: Attempt | None = None
    raw: float | None = None
    score: float | None = None
    lateness: Lateness = Lateness()
    adjustments: tuple[Adjustment, ...] = ()
    notes: tuple[str, ...] = ()  # "nothing handed in", "zip can't be read: …", "in a group with …"
    waiting: tuple[str, ...] = ()  # why `score` isn't final: "not graded yet", a time to decide on

    @property
    def final_score(self) -> float | None:
        """`score`; None where it may still change."""
        return None if self.waiting else self.score

    @property
    def handin(self) -> Handin | None:
        """The hand-in that counts."""
        return self.counted.handin if self.counted else None

    @property
    def grade(self) -> GradeScore | None:
        """The score of the attempt that counts, check by check."""
        return self.counted.grade if self.counted else None


@dataclass(frozen=True)
class Gradebook:
    """A class on one device.

    `max_score` is what the variants offer that the class was graded on, without bonuses.
    """

    title: str
    device: str  # "cpu" where there was no GPU, else the GPU's name
    seed: int
    max_score: float
    entries: tuple[Entry, ...]  # by the students' names
    unmatched_handins: tuple[Handin, ...] = ()  # of people the roster doesn't have
    unmatched_rows: tuple[str, ...] = ()  # of the roster or the extensions, that name nobody
    made_at: datetime | None = None
