"""A class: its stored data, seen with today's specs, course and roster."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from grader.batch import gradebook
from grader.batch.collect import classroom_times as times_files
from grader.batch.collect.classroom_times import Times
from grader.batch.course import roster as roster_files
from grader.batch.course.decisions import time_order
from grader.batch.course.records import Adjustment, AdjustmentKind, Attempt, Entry, Gradebook
from grader.batch.course.roster import Roster
from grader.batch.missing_results import Plans, attempts_of
from grader.batch.store.handins import StoredHandin
from grader.batch.store.keys import Conditions
from grader.batch.store.store import Store
from grader.grading.search import Effort
from grader.mistakes import Mistake
from grader.report import one_line
from grader.spec import Exercise
from grader.spec import course_file as course_files
from grader.spec.course_file import CourseFile, in_order
from grader.spec.values import hint

T = TypeVar("T")

_CALLED = {"course": "course", "roster": "roster", "times": "file of times"}


@dataclass
class CourseClass:
    """A class, its course and its roster, as they were when they were read."""

    store: Store
    exercises: Mapping[str, Exercise]
    course: CourseFile = field(default_factory=CourseFile)
    roster: Roster | None = None
    effort: Effort | None = None  # what is usual on the device
    notes: list[str] = field(default_factory=list)  # what a person should know, a line each

    @classmethod
    def open(
        cls,
        store: Store,
        exercises: Mapping[str, Exercise],
        course: Path | None = None,
        roster: Path | None = None,
    ) -> CourseClass:
        """The class with the course and the roster given, else those it was last graded with.

        These are read where they lay then; where they aren't any more, as they were. Its exercises
        are in the order that the course has. Raises SpecError, and Mistake where all results are
        of another course's exercises: its gradebook would take the place of the class's.
        """
        graded = store.results.exercises()
        if graded and not exercises.keys() & set(graded):
            raise Mistake(
                f"{store.path}: expected the course that has {', '.join(graded)}, with which it "
                f"was graded; got one with {', '.join(exercises)}. Give that course with --course, "
                "or another folder of results"
            )
        notes: list[str] = []

        def load_course(path: Path) -> CourseFile:
            return course_files.load(path, exercises)

        course_file = _document(store, "course", course, load_course, notes)
        roster_file = _document(store, "roster", roster, roster_files.load, notes)
        notes += roster_file.notes if roster_file else ()
        rules = course_file or CourseFile()
        return cls(store, in_order(exercises, rules.order), rules, roster_file, notes=notes)

    @cached_property
    def handins(self) -> list[StoredHandin]:
        """The hand-ins that can count."""
        return attempts_of(self.store.handins.all())

    @property
    def gone(self) -> list[str]:
        """The ids of hand-ins that no longer count, since their source has them no more."""
        every = self.store.handins.all()
        counting = {each.number for each in attempts_of(every)}
        return [e.handin.id for e in every if e.is_current and e.number not in counting]

    @cached_property
    def adjustments(self) -> list[Adjustment]:
        """The adjustments that weren't undone."""
        return [each.adjustment for each in self.store.adjustments.all() if each.undone_by is None]

    @cached_property
    def handins_of(self) -> dict[str, list[StoredHandin]]:
        """The hand-ins of each student, by Student.id; a group's are each member's."""
        by_identity = {id(each.handin): each for each in self.handins}
        attempts = [Attempt(each.handin) for each in self.handins]
        book = gradebook.make(
            self.course, self.roster, attempts, (), exercises=self.exercises, device="", seed=0
        )
        return {
            entry.student.id: [by_identity[id(attempt.handin)] for attempt in entry.attempts]
            for entry in book.entries
        }

    def times(self, given: Path | None = None) -> Times | None:
        """GitHub Classroom's times: of the file given, of that remembered, or of the roster.

        Raises SpecError.
        """
        times = _document(self.store, "times", given, times_files.load, self.notes)
        return times or (times_files.of(self.roster) if self.roster is not None else None)

    def compared(self) -> list[StoredHandin]:
        """The hand-ins to compare: of each student the one that counts, a group's once.

        Of people whom the roster doesn't have, the last one. Raises Mistake.
        """
        book = self.gradebook()
        counted = {id(entry.counted.handin) for entry in book.entries if entry.counted}
        of_somebody = {id(attempt.handin) for entry in book.entries for attempt in entry.attempts}
        by_time = sorted(self.handins, key=lambda e: (time_order(e.handin.submitted_at), e.number))
        last = {
            each.handin.members or each.number: each.number
            for each in by_time
            if id(each.handin) not in of_somebody and not each.handin.problem
        }
        others = set(last.values())
        return [e for e in self.handins if id(e.handin) in counted or e.number in others]

    def lifted(self, handin: StoredHandin) -> frozenset[str]:
        """The exercises and variants of a hand-in that may break the rules."""
        return self._lifted_for.get(handin.number, frozenset()) | set(self.course.lifted)

    @cached_property
    def _lifted_for(self) -> dict[int, frozenset[str]]:
        lifted: dict[int, frozenset[str]] = {}
        for each in self.adjustments:
            if each.kind is AdjustmentKind.lift:
                names = frozenset({each.only} if each.only else self.exercises)
                for handin in self.handins_of.get(each.student, ()):
                    lifted[handin.number] = lifted.get(handin.number, frozenset()) | names
        return lifted

    def student(self, name: str) -> str:
        """`name`, checked: the id of a student. Raises Mistake with the nearest one."""
        if name in self.handins_of:
            return name
        meant = hint(name, self.handins_of)
        raise Mistake(f"--student {one_line(name)}: expected the id of a student{meant}")

    # --- the gradebook --------------------------------------------------------------------------

    def device(self, here: str = "") -> str:
        """The device that the gradebook is of. Raises Mistake where that isn't clear."""
        devices = self.store.results.devices()
        final = [each for each in devices if not self.course.why_not_final(each)]
        if self.course.device is not None and len(final) == 1:
            return final[0]
        if len(devices) == 1:
            if why := self.course.why_not_final(devices[0]):
                self.notes.append(f"{why}. Until there are results of that, these are shown")
            return devices[0]
        if not devices:
            return here or self.course.device or course_files.CPU
        wanted = "say which one under `device` in course.yaml"
        if self.course.device is not None:
            wanted = f"course.yaml says {self.course.device}, which is not one of them alone"
        raise Mistake(
            f"{self.store.path.parent}: results of several devices ({', '.join(devices)}), and a "
            f"gradebook is of one: {wanted}"
        )

    def plans(self, device: str) -> Plans:
        """Plans under this class's conditions."""
        effort = self.effort or Effort()
        conditions = Conditions(self.store.seed or 0, device, effort)
        return Plans(self.store, self.exercises, conditions, self.lifted)

    def gradebook(self, here: str = "") -> Gradebook:
        """The class's gradebook. Raises Mistake."""
        device = self.device(here)
        seed = self.store.seed or 0
        attempts = self.plans(device).attempts(self.handins, seed)
        return gradebook.make(
            self.course,
            self.roster,
            attempts,
            self.adjustments,
            exercises=self.exercises,
            device=device,
            seed=seed,
            made_at=datetime.now(timezone.utc).astimezone(),
        )


@dataclass(frozen=True)
class Move:
    """A student whose score changes; None where there is, or was, none."""

    student: str
    name: str
    before: float | None
    after: float | None

    @property
    def change(self) -> float:
        """The points gained; a missing score counts as 0."""
        return (self.after or 0.0) - (self.before or 0.0)


def moves(store: Store, book: Gradebook) -> list[Move]:
    """The students whose score differs from that in the gradebook written last."""
    before = store.standings()
    every = []
    for entry in book.entries:
        _, was = before.pop(entry.student.id, ("", None))
        every.append(Move(entry.student.id, entry.student.name, was, entry.final_score))
    every += [Move(student, name, score, None) for student, (name, score) in before.items()]
    return [each for each in every if each.before != each.after]


def to_run_again(book: Gradebook) -> list[Entry]:
    """The students with a readable hand-in that has no results under the specs as they are."""
    return [
        entry
        for entry in book.entries
        if any(not each.is_graded and not each.handin.problem for each in entry.attempts)
    ]


def _document(
    store: Store, name: str, given: Path | None, load: Callable[[Path], T], notes: list[str]
) -> T | None:
    """A document of the class: the file if it exists, else the stored copy; the file is stored."""
    kept = store.document(name)
    if given is not None:
        path = given.absolute()
    elif kept is None:
        return None
    else:
        path, content = kept
        if not os.path.isfile(path):  # noqa: PTH113 - Path's raises where a folder can't be read
            notes.append(
                f"{path}: not found; the {_CALLED[name]} is taken as it was when it was last read"
            )
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / path.name
                copy.write_bytes(content)
                return load(copy)
    document = load(path)
    content = path.read_bytes()
    if kept != (path, content):
        if kept is not None and given is None:
            notes.append(f"{path}: changed since it was last read, and read anew")
        store.keep_document(name, path, content)
    return document
