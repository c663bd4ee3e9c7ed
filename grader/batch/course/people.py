"""The students of a class, by its roster or its hand-ins, and the students of each hand-in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from grader.batch.course.matching import Matcher
from grader.batch.course.records import Handin, Member, Student
from grader.batch.course.roster import Roster
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
