"""Checks exercises, the cheap checks first. A wrong spec or oracle ends those of its exercise.

Each mistake is a line: the place, what was expected, what came, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grader.grading.session import Progress, Step, unwatched
from grader.mistakes import Mistake
from grader.spec import Course, Exercise, SpecError, Variant
from grader.spec.task import Task
from grader.staff.author import definitions, texts
from grader.staff.author.trials import Trials
from grader.staff.calibration.corpus import Kind


@dataclass(frozen=True)
class Finding:
    """A line about an exercise.

    One that is no mistake asks the author, says what wasn't checked here, or, the last, what ran.
    """

    text: str
    is_mistake: bool = True
    is_summary: bool = False


def check(
    course: Course, names: Sequence[str] = (), *, quick: bool = False, on_step: Progress = unwatched
) -> Iterator[Finding]:
    """Check some exercises of a course, or all of them, as it goes on.

    Raises Mistake for a name that has no spec, SpecError where the course file is wrong.
    """
    right, mistakes = _read(course)
    known = {*right, *(path.stem for path in course.specs.glob("*.yaml"))}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]}?" if close else ""
            there_are = f"one of {', '.join(sorted(known))}.{hint}"
            none_yet = "there is none yet: `grader new exercise` begins one"
            raise Mistake(f"{name}: expected an exercise, {there_are if known else none_yet}")
    chosen = {name: each for name, each in right.items() if not names or name in names}
    for line in mistakes:
        of_spec = line.partition(".")[0]  # else of the course file, which all exercises need
        if not names or of_spec in names or of_spec not in known:
            yield Finding(line)
    if mistakes and not right:
        return
    yield from map(Finding, texts.handout_mistakes(course, right, list(chosen), every=not mistakes))
    with Trials(course, on_step, quick) as trials:
        reported: set[str] = set()  # a file may be of several exercises
        for exercise in chosen.values():
            for line in _of_exercise(course, exercise, trials):
                if line not in reported:
                    reported.add(line)
                    yield Finding(line)
        undecided = (*trials.questions, *trials.not_graded)
        yield from (Finding(line, is_mistake=False) for line in undecided)
        yield Finding(str(trials.ran), is_mistake=False, is_summary=True)


def _read(course: Course) -> tuple[dict[str, Exercise], list[str]]:
    """The exercises whose specs are right, and the mistakes of the others."""
    try:
        return course.exercises, []
    except SpecError as error:
        return dict(error.right), list(error.mistakes)


def _of_exercise(course: Course, exercise: Exercise, trials: Trials) -> Iterator[str]:
    trials.ran.exercises += 1
    trials.on_step(Step(exercise.name, "oracle"))
    spec = course.specs / f"{exercise.name}.yaml"
    wrong_oracle = list(definitions.mistakes(exercise, spec, trials.questions))
    yield from wrong_oracle
    wrong_stubs = list(texts.stub_mistakes(course, exercise))
    yield from wrong_stubs
    yield from texts.todos(course, exercise)
    yield from texts.old_signatures(course, exercise)
    kinds: tuple[Kind, Kind] = ("wrong", "honest")
    corpora = {}
    for kind in kinds:
        corpora[kind], wrong_entries = texts.entries(course, exercise, kind)
        yield from wrong_entries
    if any(line.startswith("oracles.py") for line in wrong_oracle):
        return
    tasks = [Task(exercise, each) for each in exercise.variants.values()]
    solved = [each for each in tasks if not _lacking(course, each.variant)]
    lost = list(trials.solution_mistakes(solved))
    yield from lost
    if not wrong_stubs:
        yield from trials.stub_mistakes([each for each in tasks if each.variant.max_points])
    if lost:  # what its edits do says nothing
        return
    if len(solved) == len(tasks):
        yield from trials.question_mistakes(exercise)
    headers = {name for each in tasks for name in each.variant.compile.headers}
    if any(not (course.reference / name).is_file() for name in headers):
        return
    for kind in kinds:
        mistakes = trials.wrong_mistakes if kind == "wrong" else trials.honest_mistakes
        for entry in corpora[kind][:1] if trials.quick else corpora[kind]:
            trials.on_step(Step(exercise.name, entry.variant, f"{kind}: {entry.name}"))
            yield from mistakes(Task(exercise, exercise.variants[entry.variant]), entry)


def _lacking(course: Course, variant: Variant) -> list[str]:
    """The files of a variant's solution that aren't there."""
    names = (*variant.files, *variant.compile.headers)
    return [name for name in names if not (course.reference / name).is_file()]
