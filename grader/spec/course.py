"""A course: a folder with exercises, their solutions and oracles, and what students get.

    course.yaml            title, GPU, order, due dates …; every key may be left out
    exercises/NAME.yaml    a spec per exercise
    reference/             oracles.py, and a solution per file that students hand in
    assignment/            the files that students start from
    wrong/, honest/        submissions that must fail, and unusual ones that must pass
    handout.md             a section per exercise

`folders:` in course.yaml says where a part lies instead. The course of this project is the default;
`find` looks for another.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from grader.spec.course_file import FILE, CourseFile, Part, in_order, names_mistakes
from grader.spec.document import Document, read_document
from grader.spec.exercise import HOME, REFERENCE, Exercise, load_folder, weighted
from grader.spec.values import SpecError

EXERCISES = HOME / "exercises"  # specs of the default course


@dataclass(frozen=True)
class Course:
    """A course by its folder. `given` is a course file from elsewhere, for a class of this course.

    Its settings are those of `given` where there is one, else those of the folder's course.yaml.
    """

    root: Path
    given: Path | None = None

    @property
    def file(self) -> Path | None:
        """The file that has the settings; None where the course has none."""
        own = self.root / FILE
        return self.given or (own if own.is_file() else None)

    @property
    def is_default(self) -> bool:
        """Whether it is this project's own course."""
        return self.root == HOME

    @cached_property
    def _own(self) -> tuple[Document, CourseFile]:
        return _read(self.root / FILE)

    @cached_property
    def settings(self) -> CourseFile:
        """All keys of the course file. Raises SpecError, with a line for every mistake."""
        return self._own[1] if self.given is None else _read(self.given)[1]

    @cached_property
    def exercises(self) -> dict[str, Exercise]:
        """The exercises by name, in the course's order: those that it doesn't name come last.

        Raises SpecError with the mistakes of all specs and of the course file's names; its `right`
        are the exercises whose specs are right.
        """
        mistakes: list[str] = []
        try:
            exercises = load_folder(self.specs)
        except SpecError as error:
            exercises = dict(error.right)
            mistakes += error.mistakes
        specs: dict[str, Exercise | None] = dict.fromkeys(e.stem for e in self.specs.glob("*.yaml"))
        for document, settings in self._files():
            if wrong := list(names_mistakes(settings, {**specs, **exercises}, document)):
                raise document.report(wrong)
            exercises = in_order(exercises, settings.order)
            for name in settings.weights.keys() & exercises.keys():
                exercises[name] = weighted(exercises[name], settings.weights[name])
        # A default course's solutions are those beside the grader, on whatever machine it is read.
        reference = None if self.is_default else self.reference
        for exercise in exercises.values():
            exercise.belongs_to(reference, self.settings.gpu)
        if mistakes:
            raise SpecError(mistakes, exercises)
        return exercises

    def _files(self) -> Iterator[tuple[Document, CourseFile]]:
        yield self._own
        if self.given is not None:
            yield _read(self.given)

    def _part(self, name: Part) -> Path:
        usual = "handout.md" if name == "handout" else name
        return self.root / self._own[1].folders.get(name, usual)

    @property
    def specs(self) -> Path:
        """The folder of specs."""
        return self.root / "exercises"

    @property
    def reference(self) -> Path:
        """The folder of solutions and oracles."""
        return self._part("reference")

    @property
    def oracles(self) -> Path:
        return self.reference / "oracles.py"

    @property
    def assignment(self) -> Path:
        return self._part("assignment")

    @property
    def wrong(self) -> Path:
        return self._part("wrong")

    @property
    def honest(self) -> Path:
        return self._part("honest")

    @property
    def handout(self) -> Path:
        return self._part("handout")


def _read(path: Path) -> tuple[Document, CourseFile]:
    if not path.is_file():
        return Document(path.name, {}, {}), CourseFile()
    document = read_document(path)
    return document, document.as_a(CourseFile)


def find(path: Path | None = None, *, is_named: bool = True) -> Course:
    """The course of a folder or a course file; without one, the course around here, or the default.

    A course file that has no exercises beside it is for a class: it has settings, and the course is
    the one around the working directory. `is_named` is false where a file has `path`, and nobody
    has typed it. Raises SpecError where `path` is neither, and for a course of another user's that
    nobody has named.
    """
    if path is None:
        return _around_here()
    if path.is_dir():
        if not _is_course(path):
            raise SpecError(
                [f"{path}: expected a course's folder, with {FILE} and exercises/ in it"]
            )
        return Course(path.resolve())
    if not path.is_file():
        raise SpecError([f"{path}: expected a course's folder or its {FILE}, there is none"])
    if path.name == FILE and _is_course(path.parent):
        course = Course(path.parent.resolve())
        return course if is_named else _of_ones_own(course)
    return Course(_around_here().root, path.absolute())


def _around_here() -> Course:
    """The course around the working directory, or the default. Raises SpecError."""
    return _of_ones_own(around(Path.cwd()) or Course(HOME))


def _of_ones_own(course: Course) -> Course:
    """The course, unless it is another user's.

    Its oracles are run as the user who grades, so nobody else may put one there, as in `/tmp`.
    Raises SpecError.
    """
    if course.is_default:
        return course
    for part in (course.root / FILE, course.specs):
        if part.lstat().st_uid not in (0, os.geteuid()):
            trusted = f"Where they are trusted, give --course {shlex.quote(str(course.root))}"
            wanted = "expected a file of one's own, got another user's, and its oracles are run"
            raise SpecError([f"{part}: {wanted}. {trusted}"])
    return course


def around(folder: Path) -> Course | None:
    """The course whose folder is `folder`, or around it; None where there is none."""
    here = folder.resolve()
    return next((Course(each) for each in (here, *here.parents) if _is_course(each)), None)


def option_for(exercise: Exercise) -> str:
    """` --course DIR`, where a command on the exercise needs it here, else ""."""
    course = None if exercise.reference == REFERENCE else around(exercise.reference)
    if course is None or around(Path.cwd()) == course:
        return ""
    return f" --course {shlex.quote(str(course.root))}"


def _is_course(folder: Path) -> bool:
    return (folder / FILE).is_file() and (folder / "exercises").is_dir()


def load_all(folder: Path | None = None) -> dict[str, Exercise]:
    """The exercises of a folder of specs by the alphabet, or those of the default course.

    Raises SpecError with the mistakes of all files, and the exercises of those that are right.
    """
    return Course(HOME).exercises if folder is None else load_folder(folder)
