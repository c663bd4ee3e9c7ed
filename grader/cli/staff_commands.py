"""`grader new`, `author check`, `stubs`, `handout`, `site`, `release`, `gradescope-zip`: what the
staff generate and check."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from grader.cli.console import (
    WRONG,
    console,
    given_course,
    known_names,
    progress,
    refuse,
    shown,
    step_in_words,
    tell,
    the_course,
)
from grader.grading.session import unwatched
from grader.spec import Course
from grader.spec import course_file as course_files
from grader.spec.course import around
from grader.spec.exercise import HOME
from grader.staff import handout, new, release, stubs
from grader.staff.author.check import check as check_exercises
from grader.staff.autograder import upload
from grader.staff.site.build import build as build_site


def begin(
    kind: Annotated[Literal["course", "exercise"], typer.Argument(help="What is begun.")],
    name: Annotated[str, typer.Argument(help="A course's new folder, or an exercise's name.")],
    triton: Annotated[
        bool, typer.Option("--triton", help="An exercise in Triton; this, if nothing is said.")
    ] = False,
    cuda: Annotated[bool, typer.Option("--cuda", help="An exercise in CUDA C++.")] = False,
) -> None:
    """Begin a course in a folder, or add a small exercise that works to the course around here."""
    if kind == "course":
        if triton or cuda:
            refuse("--triton, --cuda: expected `grader new exercise` with them, got a course")
        written = new.course(Path(name))
        more = f"cd {shlex.quote(name)}; grader new exercise NAME"
    else:
        if given_course() is None and around(Path.cwd()) is None:
            refuse("expected a course around here, or --course: `grader new course` begins one")
        languages = [each for each, wanted in (("triton", triton), ("cuda", cuda)) if wanted]
        written = new.exercise(the_course(), name, languages or ["triton"])
        more = f"grader author check {name}"
    for path in written:
        tell(shown(path))
    tell(f"Next: {more}")


def write_stubs(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Exercises; all if none.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite files that hold somebody's work.")
    ] = False,
) -> None:
    """Write assignment/ from reference/: what students start from."""
    course = the_course()
    exercises = course.exercises
    if chosen := [each.partition("/")[0] for each in known_names(exercises, names)]:
        exercises = {name: exercises[name] for name in dict.fromkeys(chosen)}
    written = stubs.write_stubs(course.reference, course.assignment, exercises, force=force)
    for path in written:
        console.print(str(path.relative_to(course.root)), highlight=False, soft_wrap=True)
    if not written:
        console.print("assignment/ is up to date")


def write_handout(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say what differs.")
    ] = False,
) -> None:
    """Bring the tables of handout.md up to date with exercises/*.yaml."""
    course = the_course()
    path, exercises = course.handout, course.exercises
    text = path.read_text(encoding="utf-8")
    difference = handout.difference(text, exercises, path.name)
    if difference and check:
        refuse(difference)
    if difference:
        path.write_text(handout.render(text, exercises, path.name), encoding="utf-8")
    console.print(f"{path.name} {'written' if difference else 'is up to date'}")


def write_release(
    out: Annotated[Path, typer.Option(metavar="DIR|ZIP", help="A new folder, or a .zip file.")],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="EXERCISE", help="Release this exercise; may be repeated."),
    ] = None,
    with_site: Annotated[
        bool, typer.Option("--site", help="Add the course site, in the folder site/.")
    ] = False,
) -> None:
    """Write what students get: stubs, oracles, grader and handout; no solutions."""
    course = the_course()
    made = release.make(HOME, course.exercises, known_names(course.exercises, only), course)
    if with_site:
        built = _site_of(made, course)
        files = {**made.files, **{f"site/{name}": data for name, data in built.items()}}
        made = release.Release(dict(sorted(files.items())))
    release.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB")


def write_site(
    out: Annotated[Path, typer.Option(metavar="DIR|ZIP", help="A new folder, or a .zip file.")],
) -> None:
    """Write the handout as a static site, a page for each lesson and exercise."""
    course = the_course()
    built = _site_of(release.make(HOME, course.exercises, (), course), course)
    made = release.Release(built, folder="site")
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    release.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB. Open index.html in it.")


def _site_of(made: release.Release, course: Course) -> dict[str, bytes]:
    """The site of a release's handout, with the title, due date and order of the course."""
    settings = course.settings
    due = course_files.time_text(settings.due) if settings.due else ""
    return build_site(made.files, course.exercises, settings.title, due)


def write_autograder(
    out: Annotated[Path, typer.Option(metavar="ZIP", help="The file to upload.")],
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
    ] = upload.TIMEOUT,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Look for failures as long as `grader grade` does.")
    ] = False,
) -> None:
    """Write the autograder that Gradescope runs for each submission, on a CPU."""
    course = the_course()
    exercises, rules = course.exercises, course.settings
    settings = upload.Settings(
        only=known_names(exercises, only),
        hidden=known_names(exercises, hidden),
        visibility=visibility,
        seed=rules.seed,
        lifted=rules.lifted,
        order=rules.order,
        timeout=timeout,
        thorough=thorough,
    )
    made = upload.make(HOME, exercises, settings, course)
    upload.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB")
    tell("In the assignment's settings choose a container with at least 1.5 GB of memory.")


def check_course(
    action: Annotated[Literal["check"], typer.Argument(help="What is done.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Exercises; all if none.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A part of each solution, and a sample of submissions.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines alone, for logs.")] = False,
) -> None:
    """Say what is missing or wrong about a course's exercises, a line each; then status 1."""
    course = the_course()
    mistakes, ran = 0, ""
    with progress(step_in_words) as on_step:
        for finding in check_exercises(
            course, names or (), quick=quick, on_step=unwatched if plain else on_step
        ):
            mistakes += finding.is_mistake
            if finding.is_summary:
                ran = finding.text
            elif plain:
                console.print(finding.text, highlight=False, soft_wrap=True, style="")
            else:
                tell(finding.text, "red" if finding.is_mistake else "dim")
    if mistakes:
        tell(f"{mistakes} mistake{'s' * (mistakes != 1)}")
        raise typer.Exit(WRONG)
    tell(f"No mistake found: {ran}")
