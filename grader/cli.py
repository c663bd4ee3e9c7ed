"""The command line. Exit status: 0 grading finished, whatever the score; 2 the command line or a
spec is wrong; 3 the grader itself failed; 130 it was interrupted."""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich import progress as bars
from rich.console import Console
from rich.table import Column

from grader import __version__, handout, oracle, release, report, stubs
from grader import evidence as evidence_files
from grader.batch import run as batch_run
from grader.cases import Case, CaseError, parse
from grader.confinement import ConfinementError
from grader.doctor import examine
from grader.evidence import Evidence, EvidenceError, VariantEvidence
from grader.grade import (
    PUBLIC_SEED,
    Progress,
    Session,
    Step,
    SubmissionError,
    expect_files,
    selected,
)
from grader.grade import grade as grade_submission
from grader.score import score
from grader.spec import Exercise, SpecError, Variant, load_all

OK, USAGE, FAILED, INTERRUPTED = 0, 2, 3, 130
ROOT = Path(__file__).resolve().parent.parent
_MISTAKES = (  # a user's, not the grader's
    SpecError,
    SubmissionError,
    EvidenceError,
    ConfinementError,
    stubs.StubError,
    release.ReleaseError,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Grade GPU-kernel submissions: on a GPU, or on any laptop without one.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console()
errors = Console(stderr=True)

SubmissionArgument = Annotated[Path, typer.Argument(help="A folder like assignment/.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="An exercise or variant: rmsnorm, rmsnorm/triton."),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seed of the drawn cases and their data.")
]


@app.command()
def grade(
    submission: SubmissionArgument = Path("assignment"),
    only: OnlyOption = None,
    seed: SeedOption = PUBLIC_SEED,
    require_sandbox: Annotated[
        bool, typer.Option(help="Refuse to run without bubblewrap or Landlock.")
    ] = False,
    lift: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Let an exercise or variant break the rules (staff)."),
    ] = None,
    evidence: Annotated[Path | None, typer.Option(help="Write what was observed here.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the grade as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report page.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    gradescope: Annotated[
        Path | None, typer.Option(help="Write Gradescope's results.json.")
    ] = None,
) -> None:
    """Grade a submission and show the score."""
    exercises = _exercises()
    names = _known_names(exercises, only or [])
    _have_oracles(exercises, names)
    expect_files(submission, exercises)
    lifted = _known_names(exercises, lift or [])
    _writable(evidence, json, html, junit, gradescope)
    with _progress() as on_step:
        observed = grade_submission(
            submission,
            exercises,
            seed=seed,
            only=names,
            require_sandbox=require_sandbox,
            lifted=lifted,
            on_step=on_step,
        )
    if evidence is not None:
        _write(evidence, evidence_files.to_json(observed))
    _show(observed, exercises, json, html, junit, gradescope, called=str(submission))


@app.command()
def check(
    name: Annotated[str, typer.Argument(help="An exercise or variant: rmsnorm, rmsnorm/triton.")],
    case: Annotated[
        str | None, typer.Option(help="One case, as in 'rows=1 cols=1025 dtype=float16 seed=7'.")
    ] = None,
    submission: Annotated[Path, typer.Option(help="The folder to check.")] = Path("assignment"),
    seed: SeedOption = PUBLIC_SEED,
) -> None:
    """Check one exercise, or repeat one case of it."""
    exercises = _exercises()
    variants = selected(exercises, _known_names(exercises, [name]))
    _have_oracles(exercises, [name])
    expect_files(submission, exercises)
    cases = [
        _case(case, exercise, variant, seed) if case is not None else None
        for exercise, variant in variants
    ]
    seen: list[VariantEvidence] = []
    with _progress() as on_step, Session(submission, exercises, seed=seed) as session:
        for (exercise, variant), wanted in zip(variants, cases, strict=True):
            seen.append(_checked(session, exercise, variant, wanted, on_step))
    for index, (observed, wanted) in enumerate(zip(seen, cases, strict=True)):
        if index:
            console.print()
        report.check_to_terminal(observed, console, case=str(wanted) if wanted else "")
    if batch_run.has_grader_error(seen):
        raise typer.Exit(FAILED)


@app.command()
def rescore(
    file: Annotated[
        Path, typer.Argument(metavar="EVIDENCE.json", help="What `grade --evidence` wrote.")
    ],
    json: Annotated[Path | None, typer.Option(help="Write the grade as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report page.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
    gradescope: Annotated[
        Path | None, typer.Option(help="Write Gradescope's results.json.")
    ] = None,
) -> None:
    """Score stored evidence by the specs as they are now; runs nothing."""
    exercises = _exercises()
    _writable(json, html, junit, gradescope)
    _show(evidence_files.read(file), exercises, json, html, junit, gradescope)


@app.command()
def batch(
    source: Annotated[Path, typer.Argument(help="A folder with one folder per submission.")],
    out: Annotated[Path, typer.Option(help="Where results go; existing results are kept.")],
    only: OnlyOption = None,
    seed: SeedOption = PUBLIC_SEED,
    require_sandbox: Annotated[
        bool,
        typer.Option(
            "--require-sandbox/--no-sandbox-needed",
            help="Strangers' files are run in bubblewrap or under Landlock, or not at all.",
        ),
    ] = True,
) -> None:
    """Grade every submission of a folder, one after the other, into a CSV file."""
    exercises = _exercises()
    names = _known_names(exercises, only or [])
    _have_oracles(exercises, names)
    with _batch_progress() as (on_submission, on_step):
        table = batch_run.run(
            source,
            out,
            exercises,
            seed=seed,
            only=names,
            require_sandbox=require_sandbox,
            on_submission=on_submission,
            on_step=on_step,
        )
    _tell_batch(table)
    if table.grader_errors:
        raise typer.Exit(FAILED)
    if not table.complete:
        raise typer.Exit(INTERRUPTED)


@app.command()
def doctor() -> None:
    """Say what this machine can grade, and what to install for the rest."""
    examine(console)


@app.command(name="stubs")
def write_stubs(
    force: Annotated[bool, typer.Option(help="Overwrite files that hold somebody's work.")] = False,
) -> None:
    """Write assignment/ from reference/: what students start from."""
    written = stubs.write_stubs(
        ROOT / "reference", ROOT / "assignment", _exercises().values(), force=force
    )
    for path in written:
        console.print(str(path.relative_to(ROOT)), markup=False, highlight=False, soft_wrap=True)
    if not written:
        console.print("assignment/ is up to date")


@app.command(name="handout")
def write_handout(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say what differs.")
    ] = False,
) -> None:
    """Bring the tables of handout.md up to date with grader/exercises/*.yaml."""
    path = ROOT / "handout.md"
    exercises = _exercises()
    try:
        text = path.read_text(encoding="utf-8")
        difference = handout.difference(text, exercises, path.name)
        if difference and check:
            _refuse(difference)
        if difference:
            path.write_text(handout.render(text, exercises, path.name), encoding="utf-8")
    except handout.HandoutError as error:
        _refuse(str(error))
    console.print(f"{path.name} {'written' if difference else 'is up to date'}")


@app.command(name="release")
def write_release(
    out: Annotated[Path, typer.Option(metavar="DIR|ZIP", help="A new folder, or a .zip file.")],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="EXERCISE", help="Release this exercise; may be repeated."),
    ] = None,
) -> None:
    """Write what students get: stubs, oracles, grader and handout; no solutions."""
    exercises = _exercises()
    made = release.make(ROOT, exercises, _known_names(exercises, only or []))
    release.write(made, out)
    told = f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB"
    console.print(told, markup=False, highlight=False, soft_wrap=True)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"warpgrade {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """The console script: no traceback for a mistake that is the user's."""
    try:
        app()
    except _MISTAKES as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(USAGE)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(INTERRUPTED)
    except OSError as error:
        if not error.filename:
            _die()
        text = f"{error.filename}: {error.strerror}"
        errors.print(text, style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(USAGE)
    except Exception:
        _die()


def _die() -> NoReturn:
    errors.print("The grader itself failed. Please report this to the course staff:", style="red")
    errors.print(traceback.format_exc(), markup=False, highlight=False, soft_wrap=True)
    sys.exit(FAILED)


# --- what the commands share ---------------------------------------------------------------------


def _exercises() -> dict[str, Exercise]:
    return load_all()


def _known_names(exercises: Mapping[str, Exercise], names: Iterable[str]) -> list[str]:
    known = [*exercises, *(f"{e.name}/{v}" for e in exercises.values() for v in e.variants)]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]}?" if close else ""
            there_are = ", ".join(exercises)
            _refuse(f"{name}: expected the name of an exercise, one of {there_are}.{hint}")
    return list(names)


def _have_oracles(exercises: Mapping[str, Exercise], names: Sequence[str]) -> None:
    """Say now that an exercise has no oracle, instead of in each of its parts."""
    for exercise in dict.fromkeys(exercise.name for exercise, _ in selected(exercises, names)):
        try:
            oracle.load(exercises[exercise].oracle)
        except oracle.OracleError as error:
            _refuse(f"{exercise}: {error}")


def _writable(*paths: Path | None) -> None:
    """Say now that a report can't be written, instead of after grading."""
    given = [path for path in paths if path is not None]
    for path in given:
        if path.is_dir():
            _refuse(f"{path}: expected the name of a file, got a folder")
        if not path.absolute().parent.is_dir():
            _refuse(f"{path}: expected a folder that exists, there is no {path.absolute().parent}")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            _refuse(f"{path}: can't be written: permission denied")
        if given.count(path) > 1:
            _refuse(f"{path}: expected a file for each report, got the same one twice")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        _refuse(f"{path}: can't be written: {error.strerror}")


def _refuse(message: str) -> NoReturn:
    errors.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(USAGE)


def _show(
    observed: Evidence,
    exercises: Mapping[str, Exercise],
    json: Path | None,
    html: Path | None,
    junit: Path | None,
    gradescope: Path | None,
    called: str = "",
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
            _write(path, make(observed, grade))
    report.to_terminal(observed, replace(grade, submission=called or grade.submission), console)
    if batch_run.has_grader_error(observed.variants):
        raise typer.Exit(FAILED)
    if not observed.complete:
        raise typer.Exit(INTERRUPTED)


def _tell_batch(table: batch_run.Table) -> None:
    def tell(text: str, style: str = "") -> None:
        console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    count = len(table.rows)
    tell(f"{count} submission{'' if count == 1 else 's'}; scores in {table.path}")
    if table.left_out:
        names = report.one_line(", ".join(table.left_out))
        tell(f"Not folders, so left out: {names}", "yellow")
    if not table.complete:
        tell("Interrupted. The same command goes on from here.", "yellow")
    if table.grader_errors:
        names = report.one_line(", ".join(table.grader_errors))
        tell(f"THE GRADER FAILED on {names}: the same command tries again", "red")


def _case(text: str, exercise: Exercise, variant: Variant, seed: int) -> Case:
    try:
        return parse(text, exercise, variant, seed)
    except CaseError as error:
        _refuse(f"--case: {error}")


def _checked(
    session: Session, exercise: Exercise, variant: Variant, case: Case | None, on_step: Progress
) -> VariantEvidence:
    """All of a variant but its timing, or one case of it."""
    seen = session.unseen(exercise, variant)
    if seen.not_attempted:
        return seen
    if case is None:
        return session.variant(exercise, variant, on_step)
    on_step(Step(exercise.name, variant.name, str(case)))
    return replace(seen, parts=(session.case(exercise, variant, case),))


@contextmanager
def _progress() -> Iterator[Progress]:
    """A line that says where grading is; nothing where nobody watches."""
    with _bar() as bar:
        task = bar.add_task("starting", total=None)

        def on_step(step: Step) -> None:
            cases = f" {step.cases} cases" if step.cases else ""
            text = f"{step.exercise}/{step.variant} {step.part}{cases}"
            bar.update(task, description=report.one_line(text))

        yield on_step


@contextmanager
def _batch_progress() -> Iterator[tuple[Callable[[str, int, int], None], Progress]]:
    with _bar(bars.BarColumn(), bars.TextColumn("{task.completed}/{task.total}")) as bar:
        task = bar.add_task("starting", total=None)

        def on_submission(name: str, done: int, total: int) -> None:
            bar.update(task, description=report.one_line(name), completed=done, total=total)

        def on_step(step: Step) -> None:
            bar.refresh()

        yield on_submission, on_step


def _bar(*columns: bars.ProgressColumn) -> bars.Progress:
    # What doesn't fit is cut: a line that wraps would be drawn over and over.
    fits = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    text = bars.TextColumn("{task.description}", markup=False, table_column=fits)
    return bars.Progress(
        bars.SpinnerColumn(),
        text,
        *columns,
        bars.TimeElapsedColumn(),
        console=errors,
        transient=True,
        expand=True,
        disable=not errors.is_terminal,
    )
