"""The students of a class, by its roster or its hand-ins, and the students of each hand-in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from grader.batch.course.records import Handin, Member, Student
from grader.batch.course.roster import Roster, key_of
from grader.report import one_line


@dataclass
class People:
    """The students of a class, and the students of each hand-in."""

    students: dict[str, Student]
    # By the name and the people of a hand-in: those of the same ones have the same students.
    of: dict[object, tuple[Student, ...]] = field(default_factory=dict)
    unmatched: list[Handin] = field(default_factory=list)
    matcher: Matcher | None = None

    def members(self, handin: Handin) -> tuple[Student, ...]:
        """The students whose hand-in it is."""
        return self.of.get((handin.id, handin.members), ())

    def find(self, key: str) -> Student | None:
        """A student by any id of theirs: of the roster, the platform, a login or an email."""
        if self.matcher is not None:
            return self.matcher.find(Member(key, login=key, email=key)).student
        ids = {
            each.casefold(): student
            for student in reversed(self.students.values())
            for each in (student.email, student.platform_id, student.id)
            if each
        }
        return ids.get(key.strip().casefold())

    def odd_rows(self, given: Mapping[str, object]) -> Iterator[str]:
        """Rows without a hand-in: those that can't have one, and those that may have missed one."""
        if self.matcher is None:
            return
        roster = self.matcher.roster
        without = [each for each in roster.students if each.id not in given]
        for student in without:
            if student.id in roster.unlinked:
                yield roster.unlinked[student.id]
            elif self.unmatched:
                name = one_line(f"{student.name or student.id} ({student.id})")
                yield f"{roster.place(student)}: no hand-in of {name}"


def people_of(roster: Roster | None, handins: Sequence[Handin]) -> People:
    """The people of a class.

    A hand-in of somebody who isn't in the roster is unmatched, with the reason among its notes;
    those of its members who are in the roster keep it.
    """
    if roster is None:
        return _without_roster(handins)
    matcher = Matcher(roster)
    people = People({each.id: each for each in roster.students}, matcher=matcher)
    for handin in handins:
        # Without people, a hand-in's own name may be one's: a folder called ada.
        members = handin.members or (Member(handin.id),)
        matches = [matcher.find(member) for member in members]
        students = {match.student.id: match.student for match in matches if match.student}
        people.of[handin.id, handin.members] = tuple(students.values())
        reasons = tuple(match.reason for match in matches if match.student is None)
        if reasons:
            people.unmatched.append(replace(handin, notes=(*handin.notes, *reasons)))
    return people


def _without_roster(handins: Sequence[Handin]) -> People:
    """A class without a roster: everybody who handed in something."""
    people = People({})
    for handin in handins:
        members = handin.members or (Member(handin.id),)
        students = {}
        for member in members:
            id = member.id or member.login or member.email or member.name or handin.id
            known = people.students.get(id, Student(id, member.id))
            name, email = known.name or member.name, known.email or member.email
            people.students[id] = students[id] = replace(known, name=name, email=email)
        people.of[handin.id, handin.members] = tuple(students.values())
    return people


# --- rows of the roster ---------------------------------------------------------------------------


class Match(NamedTuple):
    """The student that a member is; without one, `reason` says why in a line."""

    student: Student | None
    reason: str = ""


class Matcher:
    """Finds members' rows: by platform id, then SIS login, then email; never by name alone.

    The case of letters doesn't matter. A member whose ids name two different rows is nobody: it
    isn't for a program to guess whose grade it is.
    """

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        kinds: tuple[Callable[[Student], list[str]], ...] = (
            lambda student: [student.platform_id],
            lambda student: [student.id, *_column(student, "sis user id")],
            lambda student: _column(student, "sis login id", "login"),
            lambda student: [student.email],
        )
        self._tables = [_table(roster.students, keys) for keys in kinds]

    def find(self, member: Member) -> Match:
        """The row of a member."""
        platform, gradebook, logins, emails = self._tables
        asked = (
            (platform, (member.id, member.login)),
            (gradebook, (member.id,)),
            (logins, (member.login, member.id, member.email)),
            (emails, (member.email, member.id, member.login)),
        )
        matches = (table.get(key.strip().casefold()) for table, keys in asked for key in keys)
        rows = [student for student in matches if student]
        others = [each for each in rows if each.id != rows[0].id]
        if others:
            places = [self.roster.place(each) for each in (rows[0], others[0])]
            return Match(None, f"{member_text(member)} fits both {places[0]} and {places[1]}")
        return Match(rows[0]) if rows else Match(None, self._nobody(member))

    def _nobody(self, member: Member) -> str:
        text = f"{member_text(member)} is nobody in {one_line(self.roster.file)}"
        named = {_words(each.name): each for each in self.roster.students if _words(each.name)}
        name = _words(member.name)
        close = difflib.get_close_matches(name, named, n=1, cutoff=0.85) if name else []
        if not close:
            return text
        student = named[close[0]]
        similar = f"{one_line(student.name)} ({one_line(student.id)})"
        return f"{text}; by the name it could be {similar}, {self.roster.place(student)}"


def member_text(member: Member) -> str:
    """A member in words: 'Ada Lovelace (30123, ada@example.org)'."""
    ids = ", ".join(dict.fromkeys(filter(None, (member.id, member.login, member.email))))
    text = f"{member.name} ({ids})" if member.name and ids else member.name or ids
    return one_line(text) or "somebody without a name"


def _column(student: Student, *names: str) -> list[str]:
    return [cell for name, cell in student.columns.items() if key_of(name) in names]


def _table(
    students: Iterable[Student], keys: Callable[[Student], list[str]]
) -> dict[str, Student | None]:
    """Students by one of their ids; None where two of them have the same."""
    table: dict[str, Student | None] = {}
    for student in students:
        for key in {key.strip().casefold() for key in keys(student)} - {""}:
            table[key] = None if key in table else student
    return table


def _words(name: str) -> str:
    """A name for comparing: 'Lovelace, Ada' and 'ada  lovelace' are the same."""
    return " ".join(sorted(re.findall(r"\w+", name.casefold())))
