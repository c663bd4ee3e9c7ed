"""The command line. Exit status: 0 grading finished, whatever the score; 2 the command line or a
spec is wrong; 3 the grader itself failed."""

from __future__ import annotations

import difflib
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from grader import __version__, evidence as evidence_files, report, stubs
from grader.batch import run as batch_run
from grader.cases import CaseError, parse
from grader.doctor import examine
from grader.evidence import Evidence, EvidenceError, VariantEvidence
from grader.grade import PUBLIC_SEED, Session, Step, SubmissionError, grade as grade_submission, selected
from grader.score import score
from grader.spec import Exercise, SpecError, load_all
from grader.status import Status

OK, USAGE, FAILED = 0, 2, 3
ROOT = Path(__file__).resolve().parent.parent

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
    evidence: Annotated[Path | None, typer.Option(help="Write what was observed here.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the grade as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report page.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
) -> None:
    """Grade a submission and show the score."""
    exercises = _exercises()
    names = _known_names(exercises, only or [])
    _writable(evidence, json, html, junit)
    with _progress() as on_step:
        observed = grade_submission(submission, exercises, seed=seed, only=names, on_step=on_step)
    if evidence is not None:
        evidence.write_text(evidence_files.to_json(observed), encoding="utf-8")
    _show(observed, exercises, json, html, junit)


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
    [known] = _known_names(exercises, [name])
    variants = selected(exercises, [known])
    seen: list[VariantEvidence] = []
    with _progress() as on_step, Session(submission, exercises, seed=seed) as session:
        for exercise, variant in variants:
            if case is None:
                seen.append(session.variant(exercise, variant, on_step))
                continue
            try:
                wanted = parse(case, exercise, variant, seed)
            except CaseError as error:
                _refuse(f"--case: {error}")
            observed = session.unseen(exercise, variant)
            if not observed.not_attempted:
                on_step(Step(exercise.name, variant.name, case))
                part = session.case(exercise, variant, wanted)
                observed = VariantEvidence(
                    exercise.name, variant.name, variant.file, observed.sha256, "", (part,)
                )
            seen.append(observed)
    for observed in seen:
        _tell_check(observed)
    if any(part.status is Status.grader_error for each in seen for part in each.parts):
        raise typer.Exit(FAILED)


@app.command()
def rescore(
    file: Annotated[Path, typer.Argument(metavar="EVIDENCE.json", help="What `grade --evidence` wrote.")],
    json: Annotated[Path | None, typer.Option(help="Write the grade as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report page.")] = None,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML.")] = None,
) -> None:
    """Score stored evidence by the specs as they are now; runs nothing."""
    exercises = _exercises()
    _writable(json, html, junit)
    _show(evidence_files.read(file), exercises, json, html, junit)


@app.command()
def batch(
    source: Annotated[Path, typer.Argument(help="A folder with one folder per submission.")],
    out: Annotated[Path, typer.Option(help="Where results go; existing results are kept.")],
    only: OnlyOption = None,
    seed: SeedOption = PUBLIC_SEED,
) -> None:
    """Grade every submission of a folder, one after the other, into a CSV file."""
    exercises = _exercises()
    names = _known_names(exercises, only or [])
    with _batch_progress() as (on_submission, on_step):
        table = batch_run.run(
            source, out, exercises, seed=seed, only=names, on_submission=on_submission, on_step=on_step
        )
    console.print(f"{len(table.rows)} submissions; scores in {table.path}", soft_wrap=True)
    if table.grader_errors:
        errors.print(f"the grader failed on {table.grader_errors} of them: see the CSV", style="red")
        raise typer.Exit(FAILED)
    if not table.complete:
        console.print("Interrupted. The same command goes on from here.")


@app.command()
def doctor() -> None:
    """Say what this machine can grade, and what to install for the rest."""
    examine(console)


@app.command(name="stubs")
def write_stubs(
    force: Annotated[bool, typer.Option(help="Overwrite files that hold somebody's work.")] = False,
) -> None:
    """Write assignment/ from reference/: what students start from."""
    try:
        written = stubs.write_stubs(
            ROOT / "reference", ROOT / "assignment", _exercises().values(), force=force
        )
    except stubs.StubError as error:
        _refuse(str(error))
    for path in written:
        console.print(str(path.relative_to(ROOT)))


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
    except (SpecError, SubmissionError, EvidenceError) as error:
        errors.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(USAGE)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(130)
    except OSError as error:
        if not error.filename:
            _die()
        errors.print(f"{error.filename}: {error.strerror}", style="red", markup=False, soft_wrap=True)
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
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f" Did you mean {close[0]}?" if close else ""
            _refuse(f"{name}: no such exercise.{hint} There are: {', '.join(exercises)}")
    return list(names)


def _writable(*paths: Path | None) -> None:
    """Say now that a report can't be written, instead of after grading."""
    for path in paths:
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            _refuse(f"{path}: expected a file in a folder that exists")


def _refuse(message: str) -> NoReturn:
    errors.print(message, style="red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(USAGE)


def _show(
    observed: Evidence,
    exercises: Mapping[str, Exercise],
    json: Path | None,
    html: Path | None,
    junit: Path | None,
) -> None:
    grade = score(observed, exercises)
    for path, make in ((json, report.to_json), (html, report.to_html), (junit, report.to_junit)):
        if path is not None:
            path.write_text(make(observed, grade), encoding="utf-8")
    report.to_terminal(observed, grade, console)
    if any(p.status is Status.grader_error for v in observed.variants for p in v.parts):
        raise typer.Exit(FAILED)


def _tell_check(seen: VariantEvidence) -> None:
    name = f"{seen.exercise}/{seen.variant}"
    if seen.not_attempted:
        console.print(f"{name}: not attempted: {seen.not_attempted}", markup=False, soft_wrap=True)
        return
    for part in seen.parts:
        label = f"{name} {part.dtype} {part.size_class}"
        if part.status is Status.passed:
            cases = f"{part.cases_run} case{'s' if part.cases_run != 1 else ''}"
            console.print(f"{label}: passed ({cases})", markup=False, highlight=False)
        else:
            text = report.part_text(seen.exercise, seen.variant, part)
            console.print(f"{label}: {part.status.headline}", markup=False, style="red")
            console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _progress() -> Iterator[Callable[[Step], None]]:
    """A line that says where grading is; nothing where nobody watches."""
    with _bar() as bar:
        task = bar.add_task("starting", total=None)

        def on_step(step: Step) -> None:
            cases = f" {step.cases} cases" if step.cases else ""
            bar.update(task, description=f"{step.exercise}/{step.variant} {step.part}{cases}")

        yield on_step


@contextmanager
def _batch_progress() -> Iterator[tuple[Callable[..., None], Callable[[Step], None]]]:
    with _bar(BarColumn(), TextColumn("{task.completed}/{task.total}")) as bar:
        task = bar.add_task("starting", total=None)

        def on_submission(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        def on_step(step: Step) -> None:
            bar.refresh()

        yield on_submission, on_step


def _bar(*columns: Any) -> Progress:
    text = TextColumn("{task.description}", markup=False)
    return Progress(
        SpinnerColumn(),
        text,
        *columns,
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
