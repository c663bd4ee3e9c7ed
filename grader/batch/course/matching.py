"""Finds the roster's row of each person of a hand-in."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from grader.batch.course.records import Member, Student
from grader.batch.course.roster import Roster, key_of
from grader.report import one_line


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
            lambda student: [] if student.platform_id else [student.id],
        )
        self._tables = [_table(roster.students, keys) for keys in kinds]

    def find(self, member: Member) -> Match:
        """The row of a member."""
        platform, gradebook, logins, emails, unlinked = self._tables
        if member.login:  # its owner chose it, and may have chosen another student's id
            gradebook = unlinked
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
