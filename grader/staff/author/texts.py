"""Checks of what is written about an exercise: its stubs, its section, its corpora's entries."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.mistakes import Mistake
from grader.spec import Course, Exercise
from grader.spec.values import hint
from grader.staff import handout
from grader.staff.calibration import corpus
from grader.staff.calibration.corpus import Kind, Submission
from grader.staff.stubs import make_stub


def stub_mistakes(course: Course, exercise: Exercise) -> Iterator[str]:
    """Solutions that are missing or have no stub, and stubs that aren't what `stubs` writes."""
    files: dict[str, float] = {}
    for variant in exercise.variants.values():
        files[variant.file] = files.get(variant.file, 0) + variant.max_points
        # The regions of a variant of several files may stand in any of them.
        marked = [name for name in variant.files if _has_region(course.reference / name)]
        if variant.file not in marked and marked:
            files[variant.file] = 0
        for name in (*variant.compile.files, *variant.compile.headers):
            files.setdefault(name, 0)
    headers = {name for each in exercise.variants.values() for name in each.compile.headers}
    for name, points in files.items():
        solution, stub = course.reference / name, course.assignment / name
        if not solution.is_file():
            wanted = "the course's header" if name in headers else "the solution"
            yield f"{_shown(course, solution)}: expected {wanted} that the spec names; write it"
            continue
        text = solution.read_text(encoding="utf-8")
        try:
            made = make_stub(text, _shown(course, solution))
        except Mistake as error:
            yield str(error)
            continue
        if points and "BEGIN SOLUTION" not in text:  # what is worth nothing may ship solved
            comment = "#" if name.endswith(".py") else "//"
            yield (
                f"{_shown(course, solution)}: expected a region between `{comment} BEGIN SOLUTION` "
                f"and `{comment} END SOLUTION`, got none: students would get the solution"
            )
        elif not stub.is_file():
            yield f"{_shown(course, stub)}: expected the stub, there is none: run `grader stubs`"
        elif stub.read_text(encoding="utf-8") != made:
            yield (
                f"{_shown(course, stub)}: not what `grader stubs` writes: run "
                f"`grader stubs {exercise.name} --force`"
            )


def _has_region(path: Path) -> bool:
    return path.is_file() and "BEGIN SOLUTION" in path.read_text(encoding="utf-8")


def handout_mistakes(
    course: Course, exercises: dict[str, Exercise], names: Sequence[str], every: bool
) -> Iterator[str]:
    """A section that is missing, or points that aren't the spec's.

    `exercises` are those whose specs are right. Points are compared only if that is `every` one:
    the overview has all of them.
    """
    path = course.handout
    if not path.is_file():
        yield f"{path.name}: expected the handout, there is none: write it with a section for each"
        return
    text = path.read_text(encoding="utf-8")
    missing = handout.missing_sections(text, exercises, path.name)
    yield from (line for name, line in missing.items() if name in names)
    if missing or not every:
        return
    try:
        if line := handout.difference(text, exercises, path.name):
            yield line
    except Mistake as error:
        yield str(error)


def todos(course: Course, exercise: Exercise) -> Iterator[str]:
    """What `grader new exercise` left for the author to write in spec and handout."""
    spec = course.specs / f"{exercise.name}.yaml"
    in_spec = enumerate(spec.read_text(encoding="utf-8").splitlines(), 1)
    for path, lines in ((spec, in_spec), (course.handout, _section(course, exercise))):
        for number, line in lines:
            if todo := _TODO.search(line):
                yield f"{_shown(course, path)}:{number}: left to do: {todo['what']}"


def old_signatures(course: Course, exercise: Exercise) -> Iterator[str]:
    """Entries that the handout's section shows with another number of parameters than the spec."""
    lines = list(_section(course, exercise))
    for variant in exercise.variants.values():
        expected = [each.name for each in exercise.signature(variant)]
        begins = "void" if variant.language == "cuda" else "def"
        for entry in variant.all_entries:
            shown = re.compile(rf"\b{begins} {entry}\((?P<given>[^()]*)\)")
            for number, line in lines:
                match = shown.search(line)
                if match and len(match["given"].split(",")) != len(expected):
                    yield (
                        f"{_shown(course, course.handout)}:{number}: expected "
                        f"{entry}({', '.join(expected)}), as the spec has it, got {match[0]}"
                    )


def _section(course: Course, exercise: Exercise) -> Iterator[tuple[int, str]]:
    """The lines of the handout's section about an exercise, with their numbers."""
    if not course.handout.is_file():
        return
    lines = course.handout.read_text(encoding="utf-8").splitlines()
    if (heading := f"## {exercise.name}") in lines:
        start = lines.index(heading) + 1
        rest = itertools.takewhile(lambda line: not line.startswith("## "), lines[start:])
        yield from enumerate(rest, start + 1)


# Comments of YAML and of Markdown alone: a handout may say "fill in the TODO".
_TODO = re.compile(r"(?:^\s*#|<!--)\s*TODO:?\s*(?P<what>.*?)\s*(?:-->.*)?$")


def entries(course: Course, exercise: Exercise, kind: Kind) -> tuple[list[Submission], list[str]]:
    """The submissions of an exercise that can be tried, and what is wrong with the others."""
    folder = course.wrong if kind == "wrong" else course.honest
    usable: list[Submission] = []
    mistakes: list[str] = []
    worth = (each for each in exercise.variants.values() if each.max_points)
    for language in dict.fromkeys(each.language for each in worth):
        path = folder / f"{exercise.name}{'_cuda' if language == 'cuda' else ''}.yaml"
        if not path.is_file():
            wanted = "a submission that must fail" if kind == "wrong" else "an unusual right one"
            mistakes.append(
                f"{_shown(course, path)}: expected {wanted}, there is no file: write one"
            )
            continue
        try:
            submissions = corpus.of_file(path, kind, course)
        except Mistake as error:
            mistakes.append(str(error))
            continue
        for each in submissions:
            wrong = list(_entry_mistakes(each, exercise))
            mistakes += wrong
            if not wrong:
                usable.append(each)
    return usable, mistakes


def _entry_mistakes(entry: Submission, exercise: Exercise) -> Iterator[str]:
    variant = exercise.variants.get(entry.variant)
    if variant is None:
        known = ", ".join(exercise.variants)
        yield f"{entry.place}: variant: expected one of {known}, got {entry.variant}"
        return
    if entry.file not in variant.files:
        known = ", ".join(variant.files)
        close = hint(entry.file, variant.files)
        yield f"{entry.place}: handed_in: expected one of {known}, got {entry.file}{close}"
        return
    named = (
        ("classes", {*entry.classes, *entry.passes}, variant.size_classes),
        ("dtypes", {*entry.dtypes, *entry.passes_dtypes}, variant.dtypes),
    )
    for key, given, known_ones in named:
        for unknown in sorted(given - {*known_ones}):
            expected = ", ".join(known_ones)
            yield f"{entry.place}: {key}: expected some of {expected}, got {unknown}"
    try:
        text = entry.text()
        corpus.lines(entry)
    except Mistake as error:
        yield str(error)
        return
    except OSError as error:
        yield f"{entry.place}: {error.filename}: {error.strerror}"
        return
    solution = entry.reference / entry.file
    if solution.is_file() and text == solution.read_text(encoding="utf-8"):
        yield f"{entry.place}: its edits change nothing"


def _shown(course: Course, path: object) -> str:
    """A path as the course's folder has it."""
    root = f"{course.root}/"
    return str(path).removeprefix(root)
