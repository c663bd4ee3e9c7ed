"""`grader gradescope-zip`: the autograder for Gradescope's own container."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.batch.course import course as course_files
from grader.cli.console import known_names, tell
from grader.spec import load_all
from grader.staff.gradescope.upload import TIMEOUT, Settings, make, write

ROOT = Path(__file__).resolve().parents[2]


def command(
    out: Annotated[Path, typer.Option(metavar="ZIP", help="The file to upload.")],
    course: Annotated[
        Path | None,
        typer.Option("--course", help="course.yaml: its seed, what it lifts, its order."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="EXERCISE", help="Grade this exercise; may be repeated."),
    ] = None,
    hidden: Annotated[
        list[str] | None,
        typer.Option("--hidden", metavar="NAME", help="Hide it from students: silu, silu/cuda."),
    ] = None,
    visibility: Annotated[
        str, typer.Option(help="Of what is hidden: hidden, after_due_date or after_published.")
    ] = "after_published",
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="The assignment's autograder timeout.")
    ] = TIMEOUT,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Look for failures as long as `grader grade` does.")
    ] = False,
) -> None:
    """Write the autograder that Gradescope runs for each submission, on a CPU."""
    exercises = load_all()
    rules = course_files.load(course, exercises) if course is not None else course_files.Course()
    settings = Settings(
        only=known_names(exercises, only or []),
        hidden=known_names(exercises, hidden or []),
        visibility=visibility,
        seed=rules.seed,
        lifted=rules.lifted,
        order=rules.order,
        timeout=timeout,
        thorough=thorough,
    )
    made = make(ROOT, exercises, settings)
    write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB")
    tell("In the assignment's settings choose a container with at least 1.5 GB of memory.")
