"""The gradebook: the hand-in of each student that counts, and its final score. Pure.

    attempt's own score (`raw`)
      less the penalty for lateness, or 0 where it came too late to be accepted
      plus the points that people added or took
    = score, never below 0

A group shares its hand-ins and their scores; each member has their own due date, slip days and
points. Scores are exact fractions until they are rounded once, to 4 decimals.

Which hand-in counts, of those that can be read and came before the course stopped accepting any:

    last            the last one
    best            the one with the best score after the penalty; of equals, the least late
    last_on_time    the last one in time; where none is, the last one

A student with an extension gets the better score of two: with the extension, and without it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from grader.batch.course.decisions import ON_EVIDENCE, decided, time_order, waits_for
from grader.batch.course.lateness import after_penalty, judge
from grader.batch.course.people import People, people_of
from grader.batch.course.records import (
    Adjustment,
    AdjustmentKind,
    Attempt,
    Entry,
    Gradebook,
    Handin,
    Lateness,
    Student,
)
from grader.batch.course.roster import Roster
from grader.mistakes import Mistake
from grader.report import one_line
from grader.scoring.score import exact, score
from grader.spec import Exercise
from grader.spec.course_file import CPU, CourseFile, time_text

NOTHING = "nothing handed in"
_HASHED = re.compile(r"-[0-9a-f]{10}$")  # the end of a stem that isn't the id itself
_COUNTED = {
    "last": "the last one that can be read",
    "best": "the best one",
    "last_on_time": "the last one in time, or the last one where none is",
}


def make(
    course: CourseFile,
    roster: Roster | None,
    attempts: Iterable[Attempt],
    adjustments: Iterable[Adjustment],
    *,
    exercises: Mapping[str, Exercise],
    device: str,
    seed: int,
    made_at: datetime | None = None,
) -> Gradebook:
    """The gradebook of a class. The order of attempts and adjustments doesn't matter.

    Without a roster, the class is everybody who handed in something. An attempt's `grade` is taken
    as it is; where it has none, or where people decided about its evidence, that is scored by
    `exercises`. Raises Mistake where attempts were graded on another device, or with
    another seed, than the gradebook is of.
    """
    ordered = sorted(attempts, key=lambda attempt: _order(attempt.handin))
    _expect_one_test(ordered, device, seed)
    people = people_of(roster, [attempt.handin for attempt in ordered])
    theirs: dict[str, list[Adjustment]] = {}
    for each in sorted(adjustments, key=_adjustment_order):
        theirs.setdefault(each.student, []).append(each)
    given = _by_student(ordered, people, theirs, exercises)
    extensions, unknown = _extensions(course, people)
    maker = _Maker(course, people, extensions)
    entries = [
        maker.entry(student, given.get(student.id, []), theirs.get(student.id, []))
        for student in people.students.values()
    ]
    unknown += [
        f"adjustments: {one_line(student)!r} names nobody"
        for student in sorted(theirs)
        if student not in people.students
    ]
    return Gradebook(
        title=course.title,
        device=device,
        seed=seed,
        max_score=_maximum(exercises, ordered),
        entries=tuple(sorted(entries, key=_by_name)),
        unmatched_handins=tuple(people.unmatched),
        unmatched_rows=(*unknown, *people.odd_rows(given)),
        made_at=made_at,
    )


def incomplete(book: Gradebook) -> str:
    """A line on why a gradebook isn't final yet, with the number of students who wait; or ""."""
    waiting = [entry for entry in book.entries if entry.waiting]
    if not waiting:
        return ""
    names = ", ".join(entry.student.id for entry in waiting[:3]) + ", ..." * (len(waiting) > 3)
    reason = one_line(waiting[0].waiting[0])
    have = (
        f"{len(waiting)} of {len(book.entries)} students {'has' if len(waiting) == 1 else 'have'}"
    )
    return f"{have} no final score ({one_line(names)}; the first: {reason})"


def page_stem(student: Student) -> str:
    """The stem of a student's file names: safe in any folder, and no other student's."""
    plain = re.sub(r"[^a-z0-9_.-]+", "-", student.id.lower()).strip("-.")[:60]
    if plain and plain == student.id and not _HASHED.search(plain):
        return plain
    digest = hashlib.sha256(student.id.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    return f"{plain or 'student'}-{digest}"


# --- one student ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Choice:
    """A hand-in as it would count for a student."""

    attempt: Attempt
    lateness: Lateness
    left: Fraction | None  # after the penalty; None where it isn't graded yet


@dataclass(frozen=True)
class _Maker:
    course: CourseFile
    people: People
    extensions: Mapping[str, datetime]

    def entry(
        self, student: Student, given: Sequence[_Decided], own: Sequence[Adjustment]
    ) -> Entry:
        attempts = [attempt for attempt, _ in given]
        readable = [attempt for attempt in attempts if not attempt.handin.problem]
        due = self.extensions.get(student.id, self.course.due)
        chosen = self._chosen(readable, due)
        shared = [
            a for attempt, decisions in given if not attempt.handin.problem for a in decisions
        ]
        adjustments = [*own, *(a for a in shared if a.student != student.id)]
        counted, total = (chosen.attempt, chosen.left) if chosen else (None, None)
        points = [exact(a.points) for a in own if a.kind is AdjustmentKind.points]
        if points and (chosen is None or total is not None):
            total = max(Fraction(0), (total or Fraction(0)) + sum(points))
        weighed = readable if self.course.counts == "best" else [counted] if counted else []
        waiting = [line for attempt in weighed for line in waits_for(attempt)]
        return Entry(
            student=student,
            attempts=tuple(attempts),
            counted=counted,
            raw=counted.grade.score if counted and counted.grade else None,
            score=None if total is None else float(round(total, 4)),
            lateness=chosen.lateness if chosen else Lateness(due=due),
            adjustments=tuple(dict.fromkeys(adjustments)),
            notes=tuple(dict.fromkeys(self._notes(student, attempts, chosen))),
            waiting=tuple(dict.fromkeys(waiting)),
        )

    def _chosen(self, readable: Sequence[Attempt], due: datetime | None) -> _Choice | None:
        if not readable:
            return None
        first = self._pick([self._choice(attempt, due) for attempt in readable])
        if due == self.course.due or first.left is None:
            return first
        without = self._pick([self._choice(attempt, self.course.due) for attempt in readable])
        other = self._choice(without.attempt, due)
        return other if other.left is not None and other.left > first.left else first

    def _choice(self, attempt: Attempt, due: datetime | None) -> _Choice:
        lateness = judge(attempt.handin, self.course, due)
        if attempt.grade is None:
            return _Choice(attempt, lateness, None)
        left = exact(attempt.grade.score)
        penalised = Fraction(0)
        for points, own in self._of_their_own(attempt, due).values():
            left -= points
            penalised += after_penalty(points, own, self.course)
        left = penalised + after_penalty(left, lateness, self.course)
        return _Choice(attempt, lateness, left)

    def _of_their_own(
        self, attempt: Attempt, due: datetime | None
    ) -> dict[str, tuple[Fraction, Lateness]]:
        """Points and lateness of the exercises that are due at a time of their own."""
        if attempt.grade is None or due is None or self.course.due is None:
            return {}
        moved = due - self.course.due  # by an extension
        return {
            each.name: (
                exact(each.score),
                judge(attempt.handin, self.course, self.course.due_dates[each.name] + moved),
            )
            for each in attempt.grade.exercises
            if each.name in self.course.due_dates
        }

    def _pick(self, choices: Sequence[_Choice]) -> _Choice:
        """The one that counts; `choices` is in the order of time, and not empty."""
        accepted = [each for each in choices if not each.lateness.refused] or choices
        if self.course.counts == "best":
            graded = [each for each in accepted if each.left is not None]
            # The first of equals: the least late.
            return max(graded, key=lambda each: each.left or 0, default=accepted[-1])
        if self.course.counts == "last_on_time":
            accepted = [each for each in accepted if not each.lateness.days] or accepted
        return accepted[-1]

    def _notes(
        self, student: Student, attempts: Sequence[Attempt], chosen: _Choice | None
    ) -> Iterator[str]:
        if not attempts:
            yield NOTHING
        for attempt in attempts:
            if attempt.handin.problem:
                yield one_line(f"can't be read: {attempt.handin.trouble}")
        if student.id in self.extensions:
            yield f"extension until {time_text(self.extensions[student.id])}"
        if chosen is None:
            return
        handin = chosen.attempt.handin
        if attempts[-1].handin.problem:
            yield one_line(f"the last hand-in can't be read: {handin.id}, from before it, counts")
        elif len(attempts) > 1:
            rule = _COUNTED[self.course.counts]
            yield one_line(f"{len(attempts)} hand-ins, of which {handin.id} counts: {rule}")
        if chosen.lateness.refused:
            yield one_line(f"{handin.id} came too late to be accepted: it scores 0")
        for name, (_, own) in self._of_their_own(chosen.attempt, chosen.lateness.due).items():
            if own.due is not None and own.days:
                yield one_line(f"{name} was due {time_text(own.due)}: {own.penalty:.0%} off")
        for attempt in [] if chosen.lateness.refused else attempts:
            late = judge(attempt.handin, self.course, chosen.lateness.due)
            if late.refused and not attempt.handin.problem:
                yield one_line(f"{attempt.handin.id} came too late to be accepted")
        if not handin.files and any(a.handin.files for a in attempts):
            yield one_line(f"{handin.id}, which counts, has no file of any exercise; another has")
        if self.course.due is not None and handin.known_time is None:
            mark = "marks it as late but tells" if handin.marked_late else "tells"
            yield f"the platform {mark} no time: whether it was late is not known"
        if len(attempts) > 1 and any(a.handin.known_time is None for a in attempts):
            yield "hand-ins without a time are taken to be in the order of their names"
        others = [m for m in self.people.members(handin) if m.id != student.id]
        if others:
            yield one_line(f"in a group with {', '.join(m.name or m.id for m in others)}")
        yield from map(one_line, handin.notes)


_Decided = tuple[Attempt, tuple[Adjustment, ...]]  # an attempt, and the decisions on its evidence


def _by_student(
    attempts: Iterable[Attempt],
    people: People,
    adjustments: Mapping[str, Sequence[Adjustment]],
    exercises: Mapping[str, Exercise],
) -> dict[str, list[_Decided]]:
    """The attempts of each student, by Student.id, scored by what people decided about them."""
    by_student: dict[str, list[_Decided]] = {}
    for attempt in attempts:
        members = people.members(attempt.handin)
        of_members = [each for member in members for each in adjustments.get(member.id, ())]
        decisions = tuple(each for each in of_members if each.kind in ON_EVIDENCE)
        scored = _scored(attempt, decisions, exercises)
        for member in members:
            by_student.setdefault(member.id, []).append((scored, decisions))
    return by_student


def _scored(
    attempt: Attempt, decisions: Sequence[Adjustment], exercises: Mapping[str, Exercise]
) -> Attempt:
    """An attempt with its decided evidence, and the score of that."""
    if attempt.evidence is None or attempt.handin.problem:
        return attempt
    evidence = decided(attempt.evidence, decisions)
    if attempt.grade is not None and evidence is attempt.evidence:
        return attempt
    return replace(attempt, evidence=evidence, grade=score(evidence, exercises))


# --- what it is made of --------------------------------------------------------------------------


def _maximum(exercises: Mapping[str, Exercise], attempts: Iterable[Attempt]) -> float:
    """The points of the variants that the class was graded on; of all, before it was graded."""
    graded = {(v.exercise, v.variant) for a in attempts if a.evidence for v in a.evidence.variants}
    offered = (
        variant.max_points
        for exercise in exercises.values()
        for variant in exercise.variants.values()
        if not variant.bonus and (not graded or (exercise.name, variant.name) in graded)
    )
    return round(math.fsum(offered), 4)


def _extensions(course: CourseFile, people: People) -> tuple[dict[str, datetime], list[str]]:
    """Due dates by Student.id, the later one of several; and lines on keys that name nobody."""
    due: dict[str, datetime] = {}
    unknown = []
    for key, until in sorted(course.extensions.items()):
        student = people.find(key)
        if student is None:
            unknown.append(f"course.yaml: extensions: {one_line(key)!r} names nobody")
        elif student.id not in due or time_order(due[student.id]) < time_order(until):
            due[student.id] = until
    return due, unknown


def _expect_one_test(attempts: Iterable[Attempt], device: str, seed: int) -> None:
    """Raise Mistake unless everybody was graded on one device and with one seed."""
    records = [(e.handin.id, record) for e in attempts if (record := e.evidence or e.grade)]
    devices = [(id, each.environment.get("gpu") or CPU) for id, each in records]
    seeds = [(id, each.seed) for id, each in records]
    for name, wanted, observed in (("device", device, devices), ("seed", seed, seeds)):
        if others := [(id, value) for id, value in observed if value != wanted]:
            id, first = others[0]
            count = f"{len(others)} hand-in{'' if len(others) == 1 else 's'}"
            raise Mistake(
                f"expected everything to be graded with the {name} {wanted}; {count} had another: "
                f"{one_line(f'{id}: {first}')}. A gradebook never mixes them: grade those again"
            )


# --- order ---------------------------------------------------------------------------------------


def _order(handin: Handin) -> tuple[object, ...]:
    """By time; hand-ins without one come first, by name: submission_2, submission_10."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+", handin.id)
    name = [(int(part), "") if part.isdecimal() else (0, part) for part in parts]
    return (time_order(handin.submitted_at), name, handin.id, handin.sha256)


def _adjustment_order(each: Adjustment) -> tuple[object, ...]:
    return (time_order(each.at), each.kind.value, each.only, each.points, each.reason, each.by)


def _by_name(entry: Entry) -> tuple[str, str]:
    return (entry.student.name.casefold() or entry.student.id.casefold(), entry.student.id)
