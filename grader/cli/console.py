"""Shared by the commands: the terminal, options, reports, a user's mistakes.

Exit status: 0 grading finished, whatever the score; 1 `grader check` found a failure; 2 the command
line or a file is wrong; 3 the grader itself failed; 130 it was interrupted.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import typer
from rich import progress as bars
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column
from rich.text import Text

from grader import report
from grader.cases import Case, CaseError, Space, fixed_case, oracle, parse
from grader.evidence import Evidence
from grader.grading.session import PUBLIC_SEED, Step, selected
from grader.report import narrow
from grader.scoring.score import score
from grader.spec import Course, Exercise, SpecError
from grader.spec import course as courses
from grader.spec.task import Task

WRONG, USAGE, FAILED, INTERRUPTED = 1, 2, 3, 130
_UNWRAPPED = 10_000  # columns
_AnyStep = TypeVar("_AnyStep")

if not os.environ.get("COLUMNS", "1").strip("0"):
    del os.environ["COLUMNS"]  # the terminal's width isn't known: rich would print nothing

_given: Path | None = None  # by --course
_announced: list[Path] = []  # courses that were found around here
# No text is markup: much of it is students'. A slice such as `row[:x:]` isn't an emoji either.
console = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)

CourseOption = Annotated[
    Path | None,
    typer.Option(
        "--course",
        metavar="DIR|FILE",
        help="A course's folder or course.yaml; else that around here.",
    ),
]
NameArgument = Annotated[
    str, typer.Argument(help="An exercise or variant: rmsnorm, rmsnorm/triton.")
]
EvidenceOption = Annotated[Path | None, typer.Option(help="Write what was observed here.")]
JsonOption = Annotated[Path | None, typer.Option(help="Write the grade as JSON.")]
HtmlOption = Annotated[Path | None, typer.Option(help="Write a report page.")]
JunitOption = Annotated[Path | None, typer.Option(help="Write JUnit XML.")]
GradescopeOption = Annotated[Path | None, typer.Option(help="Write Gradescope's results.json.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="An exercise or variant: rmsnorm, rmsnorm/triton."),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        help="Processes side by side; as many as cores, up to 4; with a GPU 7 for 10 cores.",
    ),
]
GpusOption = Annotated[
    str | None,
    typer.Option("--gpus", metavar="0,1", help="GPUs to use, as CUDA_VISIBLE_DEVICES has them."),
]


def window(plain: bool) -> Console:
    """The terminal, or for `--plain` one without colours in which no line is broken."""
    if not plain:
        return console
    return Console(no_color=True, highlight=False, markup=False, emoji=False, width=_UNWRAPPED)


def tell(text: str, style: str = "") -> None:
    """Print a line; it is wrapped only where the terminal is too narrow for it."""
    narrow.say(text, console, style)


def choose_course(path: Path | None) -> None:
    """Work on the course of this folder or file, from here on; None for the one around here."""
    global _given
    _given = path


def given_course() -> Path | None:
    """The folder or file that `--course` names; None where it isn't given."""
    return _given


def the_course(stored: Path | None = None) -> Course:
    """The course that `--course` names, or the one around the working directory, or the default.

    `stored` is a course's file that a class's results name; it goes before the one around here. A
    course that nobody has named is told, since it may have come with a hand-in or with somebody's
    results, and its oracles run with the user's rights. Raises SpecError where the folder or file
    is no course.
    """
    course = courses.find(_given or stored, is_named=_given is not None)
    if _given is None and not course.is_default and course.root not in _announced:
        _announced.append(course.root)
        where = "around here" if stored is None else "as the class's results have it"
        notice = f"Course: {course.root}, {where}. Its oracles run with your rights."
        narrow.say(notice, errors, "dim")
    return course


def usual_submission() -> Path:
    """The folder that students of the course work in; of the default course, here."""
    course = the_course()
    if course.is_default:
        return Path("assignment")
    return Path(shown(course.assignment))


def shown(path: Path) -> str:
    """A path as a user may type it here: without the working directory's own part."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def right_exercises() -> dict[str, Exercise]:
    """The course's exercises whose specs are right; mistakes in others are shown and stop nothing.

    Raises SpecError where none is right.
    """
    try:
        return the_course().exercises
    except SpecError as error:
        if not error.right:
            raise
        narrow.say(str(error), errors, "red")
        return error.right


def known_names(exercises: Mapping[str, Exercise], names: Iterable[str] | None) -> list[str]:
    """The names that an option has, perhaps with commas between; refused where one is unknown."""
    names = [name for each in names or () for name in (each.replace(",", " ").split() or [each])]
    known = [*exercises, *(f"{e.name}/{v}" for e in exercises.values() for v in e.variants)]
    for name in names:
        if name not in known:
            close = _with_entry(exercises, name)
            close = close or difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            there_are = ", ".join(exercises)
            stem = name.partition("/")[0]
            has_spec = any(stem == each.stem for each in the_course().specs.glob("*.yaml"))
            if has_spec and stem not in exercises:
                refuse(f"{name}: expected an exercise whose spec is right, one of {there_are}")
            if stem in exercises and name != stem and len(exercises[stem].variants) > 1:
                there_are = ", ".join(f"{stem}/{each}" for each in exercises[stem].variants)
                refuse(f"{name}: expected a variant of {stem}, one of {there_are}.{hint}")
            refuse(f"{name}: expected the name of an exercise, one of {there_are}.{hint}")
    return names


def expect_no_name(submission: Path, exercises: Mapping[str, Exercise]) -> None:
    """Refuse the name of an exercise or a variant in the place of a submission's folder."""
    name, _, variant = str(submission).partition("/")
    has_variant = name in exercises and (not variant or variant in exercises[name].variants)
    if has_variant and not submission.exists():
        refuse(
            f"{submission}: expected a folder like assignment/, got the name of an exercise: "
            f"give it as --only {submission}"
        )


def _with_entry(exercises: Mapping[str, Exercise], name: str) -> list[str]:
    """The variants that implement the function which a name has, as in `gemm_tiled/cuda`.

    Or those of its exercise in a language, as of `rmsnorm/cuda`, perhaps misspelt.
    """
    entry, _, language = name.partition("/")
    near = [
        f"{exercise.name}/{variant.name}"
        for exercise in exercises.values()
        for variant in exercise.variants.values()
        if entry in variant.all_entries
    ]
    meant = [entry] if entry in exercises else []
    if language and not near:
        meant = difflib.get_close_matches(entry.lower(), exercises, n=1)
    alike = [f"{each}/{variant}" for each in meant for variant in exercises[each].variants]
    return [each for each in dict.fromkeys([*near, *alike]) if language in each] or near


def case_of(text: str | None, task: Task, dtype: str | None = None) -> Case:
    """The case that `--case` names; else the one that is timed or counted, or a middling one.

    `dtype` replaces the case's own.
    """
    variant = task.variant
    if dtype is not None and dtype not in variant.dtypes:
        refuse(f"--dtype: expected one of {', '.join(variant.dtypes)} for {task}, got {dtype}")
    if text is not None:
        case = parsed_case(text, task, PUBLIC_SEED, is_run=False)
    elif variant.is_graded_on_speed:
        case = fixed_case(task, variant.timed.every_case[-1], PUBLIC_SEED)
    elif variant.memory is not None:
        case = fixed_case(task, variant.memory.case, PUBLIC_SEED)
    else:
        case = middling_case(task)
    return replace(case, dtype=dtype or case.dtype)


def parsed_case(text: str, task: Task, seed: int, is_run: bool = True) -> Case:
    """The case that `--case` has in words, refused where it is none; see cases.parse."""
    try:
        return parse(text, task, seed, is_run)
    except CaseError as error:
        refuse(f"--case: {task}: {error}")


def middling_case(task: Task) -> Case:
    """An ordinary case of a task's first size class."""
    sizes = next(iter(task.exercise.sizes))
    space = Space(task, task.variant.dtypes[0], sizes, PUBLIC_SEED)
    return replace(space.edges()[-1], layouts=(), scalars=(), data="normal")


def have_oracles(exercises: Mapping[str, Exercise], names: Sequence[str]) -> None:
    """Refuse exercises without an oracle before anything runs."""
    for exercise in dict.fromkeys(each.exercise.name for each in selected(exercises, names)):
        try:
            oracle.of(exercises[exercise])
        except oracle.OracleError as error:
            refuse(f"{exercise}: {error}")


def writable(*paths: Path | None) -> None:
    """Refuse reports that can't be written before anything runs."""
    given = [path for path in paths if path is not None]
    for path in given:
        if path.is_dir():
            refuse(f"{path}: expected the name of a file, got a folder")
        if not path.absolute().parent.is_dir():
            refuse(f"{path}: expected a folder that exists, there is no {path.absolute().parent}")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            refuse(f"{path}: can't be written: permission denied")
        if given.count(path) > 1:
            refuse(f"{path}: expected a file for each report, got the same one twice")


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"{path}: can't be written: {error.strerror}")


def refuse(message: str) -> NoReturn:
    narrow.say(message, errors, "red")
    raise typer.Exit(USAGE)


def step_in_words(step: Step) -> str:
    """A step of grading, for the line that says which one is under way."""
    cases = f" {step.cases} cases" if step.cases else ""
    return f"{step.exercise}/{step.variant} {step.part}{cases}"


@contextmanager
def progress(
    in_words: Callable[[_AnyStep], str], message_of: Callable[[_AnyStep], str] = lambda step: ""
) -> Iterator[Callable[[_AnyStep], None]]:
    """A line that says which step is under way; nothing where nobody watches.

    Above it stands the last `message_of` a step that has one. Both are gone at the end, when the
    report comes.
    """
    # What doesn't fit is cut: a line that wraps would be drawn over and over.
    fits = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    line = bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}", markup=False, table_column=fits),
        bars.TimeElapsedColumn(),
        console=errors,
        expand=True,
    )
    task = line.add_task("starting", total=None)
    if not errors.is_terminal:
        yield lambda step: None
        return
    with Live(line, console=errors, transient=True) as live:

        def on_step(step: _AnyStep) -> None:
            line.update(task, description=report.one_line(in_words(step)))
            if message := message_of(step):
                live.update(Group(Text(message), Text(), line), refresh=True)

        yield on_step


def show(
    observed: Evidence,
    exercises: Mapping[str, Exercise],
    json: Path | None,
    html: Path | None = None,
    junit: Path | None = None,
    gradescope: Path | None = None,
    called: str = "",
    verbose: bool = False,
) -> None:
    """Write the reports asked for and print the terminal's, which names the folder as `called`."""
    grade = score(observed, exercises)
    reports = (
        (json, report.to_json),
        (html, report.to_html),
        (junit, report.to_junit),
        (gradescope, report.to_gradescope),
    )
    for path, make in reports:
        if path is not None:
            write(path, make(observed, grade))
    named = replace(grade, submission=called or grade.submission)
    report.to_terminal(observed, named, console, verbose)
    if any(each.has_grader_error for each in observed.variants):
        raise typer.Exit(FAILED)
    if not observed.complete:
        raise typer.Exit(INTERRUPTED)
