"""The commands on a class: batch, rescore, regrade, adjust, export, similarity."""

from __future__ import annotations

import getpass
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer

from grader import __version__
from grader import evidence as evidence_files
from grader.batch import exports, similarity
from grader.batch.classes import CourseClass, moves, to_run_again
from grader.batch.collect import LAYOUTS, Collection, collect
from grader.batch.collect.classroom_times import LAYOUT, judged_by
from grader.batch.course.records import MOST_POINTS, Adjustment, AdjustmentKind, Gradebook
from grader.batch.gradebook import incomplete
from grader.batch.pages import views
from grader.batch.run import run
from grader.batch.run.progress import watcher
from grader.batch.run.run import Machines, Options, Outcome
from grader.batch.store.handins import StoredHandin
from grader.batch.store.store import NAME, Store
from grader.cli.console import (
    FAILED,
    INTERRUPTED,
    GpusOption,
    GradescopeOption,
    HtmlOption,
    JobsOption,
    JsonOption,
    JunitOption,
    OnlyOption,
    console,
    errors,
    given_course,
    have_oracles,
    known_names,
    refuse,
    show,
    tell,
    the_course,
    writable,
    write,
)
from grader.gpu import machine
from grader.gpu.locks import choose
from grader.mistakes import Mistake
from grader.report import narrow, one_line
from grader.report.summary import number
from grader.sandbox import confinement
from grader.sandbox.untrusted import clean
from grader.spec import Course, Exercise
from grader.staff.stubs import make_stubs

MOST_LINES = 10  # of one kind, on the terminal; the gradebook has them all

ResultsArgument = Annotated[
    Path, typer.Argument(metavar="RESULTS", help="The folder that `grader batch --out` wrote.")
]
RosterOption = Annotated[
    Path | None, typer.Option("--roster", help="Who is in the class: a CSV; kept, too.")
]
TimesOption = Annotated[
    Path | None,
    typer.Option("--times", help="GitHub Classroom's grades CSV, for its times; kept, too."),
]
StudentOption = Annotated[str, typer.Option("--student", help="A student's id in the gradebook.")]
PlainOption = Annotated[bool, typer.Option("--plain", help="A line per submission, for logs.")]
SchedulerOption = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="tcp://…", help="Run on a Dask cluster; see docs."),
]
SandboxOption = Annotated[
    bool,
    typer.Option(
        "--require-sandbox/--no-sandbox-needed",
        help="Untrusted files are run in bubblewrap or under Landlock, or not at all.",
    ),
]


Format = Literal["canvas", "gradescope", "classroom", "csv", "json"]
_EXPORTS = {
    "gradescope": exports.to_gradescope,
    "classroom": exports.to_classroom,
    "csv": exports.to_csv,
    "json": exports.to_json,
}


def grade_class(  # noqa: PLR0913 - typer makes an option of each parameter
    source: Annotated[Path, typer.Argument(help="What the course's platform exports: see docs.")],
    out: Annotated[Path, typer.Option(help="Where results go; what is there is kept.")],
    roster: RosterOption = None,
    times: TimesOption = None,
    layout: Annotated[
        str | None, typer.Option(help=f"{', '.join(LAYOUTS)}; else recognised.")
    ] = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Complete partial resubmissions by earlier ones.")
    ] = False,
    only: OnlyOption = None,
    jobs: JobsOption = None,
    gpus: GpusOption = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The class's seed; drawn at the first run.")
    ] = None,
    plain: PlainOption = False,
    scheduler: SchedulerOption = None,
    require_sandbox: SandboxOption = True,
) -> None:
    """Grade a class; what is graded already isn't graded again."""
    _choose_gpus(gpus, scheduler)
    _expect_folder(out, source)
    course, file = _course_of(out)
    exercises = course.exercises
    options = Options(tuple(known_names(exercises, only)), require_sandbox)
    have_oracles(exercises, options.only)
    collection = collect(source, exercises, layout=layout, merge=merge, leave_out=[out])
    with run.begun(out) as store:
        course_class = CourseClass.open(store, exercises, file, roster)
        collection = _timed(collection, course_class, times)
        run.seed_of(store, seed, course_class.course.seed)

        def kept(number: int) -> list[StoredHandin]:
            store.handins.keep(collection.handins, str(source.resolve()), number)
            _tell_some("", [*_of_another_course(collection, exercises), *collection.notes], "")
            return course_class.handins

        outcome, device = _graded(course_class, kept, options, jobs, plain, scheduler)
        book = course_class.gradebook(device)
        _publish(course_class, book)
        gone = course_class.gone
    _tell_class(book, out)
    _tell_some("no longer in its source, so it doesn't count", gone, "")
    _finish(outcome)


def rescore(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="RESULTS|EVIDENCE.json",
            help="What `grader batch --out` wrote, or `grade --evidence`.",
        ),
    ],
    roster: RosterOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Of a class: write without asking.")] = False,
    json: JsonOption = None,
    html: HtmlOption = None,
    junit: JunitOption = None,
    gradescope: GradescopeOption = None,
) -> None:
    """Score what is stored by the specs as they are now; runs nothing."""
    writable(json, html, junit, gradescope)
    if file.is_dir() or file.name == NAME:
        if json or html or junit or gradescope:
            refuse(f"{file}: expected a file of evidence; of a class, `grader export` writes pages")
        _rescore_class(file, roster, yes)
        return
    exercises = the_course().exercises
    show(evidence_files.read(file), exercises, json, html, junit, gradescope)


def _rescore_class(results: Path, roster: Path | None, yes: bool) -> None:
    folder = _folder(results)
    course, file = _course_of(folder)
    with run.alone(folder), Store(folder) as store:
        course_class = CourseClass.open(store, course.exercises, file, roster)
        book = course_class.gradebook()
        again = to_run_again(book)
        _tell_moves(course_class, book)
        if again:
            tell(
                f"{_count(len(again), 'student')} with no results under the specs as they are: "
                "what is measured has changed, or they weren't graded; `grader batch` does",
                "yellow",
            )
        if moves(store, book) and not yes:
            if not sys.stdin.isatty():
                refuse("Nothing is written: nobody is there to ask. Give --yes to write it")
            if not typer.confirm("Write this gradebook?"):
                tell("Nothing is written")
                return
        _publish(course_class, book)
    _tell_class(book, folder)


def regrade(
    results: ResultsArgument,
    student: StudentOption,
    only: OnlyOption = None,
    jobs: JobsOption = None,
    gpus: GpusOption = None,
    plain: PlainOption = False,
    scheduler: SchedulerOption = None,
    require_sandbox: SandboxOption = True,
) -> None:
    """Run a student's hand-ins again, from the files that are stored."""
    _choose_gpus(gpus, scheduler)
    folder = _folder(results)
    exercises = _course_of(folder)[0].exercises
    options = Options(tuple(known_names(exercises, only)), require_sandbox, anew=True)
    have_oracles(exercises, options.only)
    with run.alone(folder), Store(folder) as store:
        course_class = CourseClass.open(store, exercises)
        handins = course_class.handins_of[course_class.student(student)]
        if not handins:
            refuse(f"--student {one_line(student)}: there is nothing that they handed in")
        outcome, device = _graded(
            course_class, lambda number: handins, options, jobs, plain, scheduler
        )
        book = course_class.gradebook(device)
        _tell_moves(course_class, book)
        _publish(course_class, book)
    _finish(outcome)


def adjust(
    results: ResultsArgument,
    student: Annotated[str | None, typer.Option(help="A student's id in the gradebook.")] = None,
    reason: Annotated[str | None, typer.Option(help="Why; the student reads it.")] = None,
    points: Annotated[
        float | None, typer.Option(metavar="+2", help="Add points to the score, or take them.")
    ] = None,
    lift: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="It broke no rule: run it with the rules lifted."),
    ] = None,
    accept_time: Annotated[
        str | None, typer.Option(metavar="NAME", help="Believe an implausible time.")
    ] = None,
    reject_time: Annotated[
        str | None, typer.Option(metavar="NAME", help="Don't believe it: it earns nothing.")
    ] = None,
    undo: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Undo an adjustment; both stay listed.")
    ] = None,
) -> None:
    """Decide about a score, with a reason; without a decision, list what was decided."""
    folder = _folder(results)
    exercises = _course_of(folder)[0].exercises
    with run.alone(folder), Store(folder) as store:
        course_class = CourseClass.open(store, exercises)
        given = _decisions(exercises, reason, points, lift, accept_time, reject_time)
        if undo is None and not given:
            if reason is not None:
                refuse("adjust: expected one of --points, --lift, --accept-time, --reject-time")
            _list_adjustments(store, course_class.student(student) if student else None)
            return
        if not reason or not reason.strip():
            refuse("adjust: expected --reason TEXT: whoever looks at the score later needs it")
        if undo is not None:
            if given or student:
                refuse(f"--undo {undo}: expected only --reason beside it, no --student or decision")
            store.adjustments.undo(undo, reason, _user())
        elif student is None or len(given) > 1:
            refuse("adjust: expected --student ID and one decision at a time")
        else:
            store.adjustments.add(replace(given[0], student=course_class.student(student)))
        course_class = CourseClass.open(store, exercises)
        book = course_class.gradebook()
        _tell_moves(course_class, book)
        _publish(course_class, book)
    if lift is not None and student is not None:
        command = f"grader regrade {shlex.quote(str(results))} --student {shlex.quote(student)}"
        tell(f"{lift} is to be run without its rules: {command} --only {lift}", "yellow")


def export(
    results: ResultsArgument,
    format: Annotated[
        Format | None, typer.Option(help="A file for a platform, in place of all pages.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="That file; else it is printed.")] = None,
    assignment: Annotated[
        str | None, typer.Option(help="Canvas: the assignment's column, by its title or id.")
    ] = None,
    allow_incomplete: Annotated[
        bool,
        typer.Option(
            "--allow-incomplete", help="Write a file in which scores that aren't final are empty."
        ),
    ] = False,
    roster: RosterOption = None,
) -> None:
    """Write the class's pages again, or a gradebook to upload."""
    folder = _folder(results)
    if format is None and to is not None:
        refuse(f"--to {to}: expected --format beside it: one of {', '.join(get_args(Format))}")
    if format != "canvas" and assignment is not None:
        refuse("--assignment: expected --format canvas beside it")
    writable(to)
    course, file = _course_of(folder)
    with Store(folder) as store:
        course_class = CourseClass.open(store, course.exercises, file, roster)
        book = course_class.gradebook()
        for note in course_class.notes:
            narrow.say(one_line(note), errors, "yellow")
        if format is None:
            _publish(course_class, book)
            _tell_class(book, folder)
            return
    if format == "canvas":
        text = exports.to_canvas(book, assignment=assignment, allow_incomplete=allow_incomplete)
    else:
        text = _EXPORTS[format](book, allow_incomplete=allow_incomplete)
    if to is None:
        sys.stdout.write(text)
    else:
        write(to, text)
        tell(f"{_count(len(book.entries), 'student')} in {to}")


def list_similar(
    results: ResultsArgument,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Of a file's own code, from 0 to 1.")
    ] = similarity.THRESHOLD,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write both texts side by side here.")
    ] = None,
) -> None:
    """List hand-ins that are alike, of those that count: a reason to look, no proof."""
    writable(html_file)
    course = _course_of(results)[0]
    exercises = course.exercises
    with Store(results) as store:
        counting = CourseClass.open(store, exercises).compared()
        handins = [replace(e.handin, files=store.handins.files(e.number)) for e in counting]
    stubs = make_stubs(course.reference, exercises)
    located = similarity.MOST_SHOWN if html_file is not None else 0
    with console.status("comparing"):
        alike = similarity.pairs(handins, stubs, threshold, located)
        missing = similarity.unread(handins, stubs)
    if html_file is not None:
        write(html_file, similarity.to_html(alike, threshold, missing))
    tell(similarity.to_text(alike, threshold, missing).removesuffix("\n"))


def _course_of(results: Path) -> tuple[Course, Path | None]:
    """The course of a class, and its course file; None for the file that the class has stored.

    It is the course given, or the one that the class was last graded with, or the one around here.
    """
    if given_course() is not None:
        course = the_course()
        return course, course.file
    stored = results / NAME
    if stored.is_file() and stored.stat().st_size:  # a first run that was killed left it empty
        with Store(results) as store:
            kept = store.document("course")
        if kept is not None:
            # Unlike Path's, it is false in a folder that may not be read.
            is_there = os.path.isfile(kept[0])  # noqa: PTH113
            return the_course(kept[0] if is_there else None), None
    course = the_course()
    return course, None if course.is_default else course.file


# --- running --------------------------------------------------------------------------------------


def _graded(
    course_class: CourseClass,
    handins: Callable[[int], Sequence[StoredHandin]],
    options: Options,
    jobs: int | None,
    plain: bool,
    scheduler: str | None,
) -> tuple[Outcome, str]:
    """What came of a run, and its device; `handins` gets the run's number once it has begun."""
    store, watching = course_class.store, watcher(errors, plain)
    machines: AbstractContextManager[Machines]
    if scheduler is None:
        confinement.choose(None, machine.device(), options.require_sandbox)  # before anything runs
        machines = run.this_machine(watching, jobs)
    else:
        from grader.batch.run import cluster

        machines = cluster.at(scheduler)
    try:
        with run.stopped_by_signals(watching.say) as stop, machines as here:
            if why := course_class.course.why_not_final(here.device):
                watching.say(why)
            number = store.begin_run(shlex.join(sys.argv), __version__, run.environment())
            chosen = handins(number)
            outcome = run.grade(course_class, chosen, here, number, options, watching, stop)
            if outcome.complete:
                store.end_run(number)
            return outcome, here.device
    finally:
        watching.close()


def _expect_folder(out: Path, source: Path) -> None:
    if os.path.realpath(out) == os.path.realpath(source):
        refuse(f"--out {out}: expected another folder than that of the submissions")
    if out.exists() and not out.is_dir():
        refuse(f"--out {out}: expected a folder, got a file")


def _of_another_course(collection: Collection, exercises: Mapping[str, Exercise]) -> list[str]:
    """A warning where nobody in the class handed in a file that an exercise names."""
    if any(handin.files or handin.problem for handin in collection.handins):
        return []
    wanted = {name for e in exercises.values() for each in e.graded.values() for name in each.files}
    names = one_line(", ".join(sorted(wanted)[:3]) + (", ..." if len(wanted) > 3 else ""))
    return [
        f"No hand-in has a file that an exercise names ({names}): if the class is of another "
        "course, name that with --course"
    ]


def _timed(collection: Collection, course_class: CourseClass, given: Path | None) -> Collection:
    """GitHub Classroom's clones with the times of the platform, where those are known."""
    if collection.layout != LAYOUT:
        if given is not None:
            refuse(
                f"--times {given}: expected GitHub Classroom's clones, whose commits tell no "
                f"trustworthy time; the layout is {collection.layout}"
            )
        return collection
    handins, line = judged_by(collection.handins, course_class.times(given))
    return replace(collection, handins=handins, notes=(line, *collection.notes))


def _choose_gpus(gpus: str | None, scheduler: str | None) -> None:
    if gpus is not None and scheduler is not None:
        refuse("--gpus: expected it where the work is done, got it beside --scheduler")
    if gpus is not None:
        choose(gpus)


def _finish(outcome: Outcome) -> None:
    if outcome.shared:
        given = _count(outcome.shared, "result")
        tell(f"{given} shared by hand-ins with the same file, or without it")
    if not outcome.complete:
        tell("Interrupted. The same command goes on from here.", "yellow")
    if outcome.failed:
        names = one_line(", ".join(dict.fromkeys(outcome.failed)))
        tell(f"THE GRADER FAILED on {names}: the same command tries again", "red")
        if outcome.trouble:
            errors.print(clean(outcome.trouble), highlight=False, soft_wrap=True)
        raise typer.Exit(FAILED)
    if not outcome.complete:
        raise typer.Exit(INTERRUPTED)


# --- written and printed --------------------------------------------------------------------------


def _publish(course_class: CourseClass, book: Gradebook) -> None:
    """Write every view, and keep the scores that are in them."""
    folder = course_class.store.path.parent
    for note in course_class.notes:
        tell(one_line(note), "yellow")
    course_class.notes.clear()
    try:
        views.write(book, course_class.exercises, folder)
    except OSError as error:
        raise Mistake(
            f"{error.filename or folder}: can't be written: {error.strerror}. All results are "
            f"stored: `grader export {folder}` writes these files"
        ) from None
    course_class.store.keep_standings(book)


def _tell_class(book: Gradebook, folder: Path) -> None:
    handins = {id(attempt.handin): attempt for e in book.entries for attempt in e.attempts}
    graded = sum(entry.score is not None and not entry.waiting for entry in book.entries)
    tell(
        f"{_count(len(handins), 'hand-in')} of {_count(len(book.entries), 'student')}, {graded} "
        f"with a final score; {folder / 'gradebook.csv'}"
    )
    broken = [a.handin for a in handins.values() if a.handin.problem]
    _tell_some("can't be read", [each.trouble for each in broken])
    unmatched = [f"{each.id}: {'; '.join(each.notes[-1:])}" for each in book.unmatched_handins]
    _tell_some("of nobody in the roster", unmatched)
    _tell_some("to be looked at", list(book.unmatched_rows))
    if problem := incomplete(book):
        tell(f"Not final: {problem}", "yellow")


def _tell_some(title: str, lines: Sequence[str], elsewhere: str = ", in gradebook.json") -> None:
    """The first lines and the number of the others; `elsewhere` says where those are."""
    title = f"{title}: " if title else ""
    for line in lines[:MOST_LINES]:
        tell(one_line(f"{title}{line}"), "yellow")
    if len(lines) > MOST_LINES:
        tell(f"{title}and {len(lines) - MOST_LINES} more{elsewhere}", "yellow")


def _tell_moves(course_class: CourseClass, book: Gradebook) -> None:
    """Print whose score changes by how much, the largest changes first."""
    moved = moves(course_class.store, book)
    if not moved:
        tell("Nobody's score changes")
        return
    for move in sorted(moved, key=lambda each: (-abs(each.change), each.student)):
        name = one_line(f"{move.student} {move.name}".strip())
        by = ""
        if move.before is not None and move.after is not None:
            by = f" ({'+' if move.change > 0 else ''}{number(move.change, 4)})"
        tell(f"{name}: {_points(move.before)} -> {_points(move.after)}{by}")
    verb = "changes" if len(moved) == 1 else "change"
    tell(f"{len(moved)} of {_count(len(book.entries), 'score')} {verb}")


def _points(score: float | None) -> str:
    return "none" if score is None else number(score, 4)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


# --- adjustments ----------------------------------------------------------------------------------


def _decisions(
    exercises: Mapping[str, Exercise],
    reason: str | None,
    points: float | None,
    lift: str | None,
    accept_time: str | None,
    reject_time: str | None,
) -> list[Adjustment]:
    """The decisions that the options make, about no student yet."""
    decisions, why, by = [], (reason or "").strip(), _user()
    if points is not None:
        if not points or not abs(points) <= MOST_POINTS:
            refuse(f"--points: expected a number such as +2 or -0.5, got {points:g}")
        decisions.append(Adjustment("", AdjustmentKind.points, why, points=points, by=by))
    for kind, name in (
        (AdjustmentKind.lift, lift),
        (AdjustmentKind.accept_time, accept_time),
        (AdjustmentKind.reject_time, reject_time),
    ):
        if name is not None:
            known_names(exercises, [name])
            decisions.append(Adjustment("", kind, why, name, by=by))
    return decisions


def _list_adjustments(store: Store, student: str | None) -> None:
    of_interest = [
        each for each in store.adjustments.all() if student in (None, each.adjustment.student)
    ]
    for each in of_interest:
        made = each.adjustment
        is_points = made.kind is AdjustmentKind.points
        effect = f"{made.points:+g} points" if is_points else f"{made.kind.value} {made.only}"
        undone = " (undone)" if each.undone_by is not None else ""
        when = f"{made.at:%Y-%m-%d}" if made.at else ""
        tell(
            one_line(
                f"{each.number}{undone}: {made.student}: {effect}: {made.reason} "
                f"({made.by}, {when})"
            )
        )
    if not of_interest:
        tell("No adjustments")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def _folder(results: Path) -> Path:
    """The folder of a class's results, given itself or by its file. Raises Mistake."""
    folder = results.parent if results.name == NAME else results
    return Store.expect(folder)
