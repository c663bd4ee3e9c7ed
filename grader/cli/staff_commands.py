"""`grader stubs`, `handout`, `site`, `release`, `gradescope-zip`: files that the staff generate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from grader.batch.course import course as course_files
from grader.cli.console import ROOT, console, known_names, refuse, tell
from grader.spec import Exercise, load_all
from grader.spec.order import in_order
from grader.staff import handout, release, stubs
from grader.staff.autograder import upload
from grader.staff.site.build import build as build_site


def write_stubs(
    force: Annotated[bool, typer.Option(help="Overwrite files that hold somebody's work.")] = False,
) -> None:
    """Write assignment/ from reference/: what students start from."""
    written = stubs.write_stubs(ROOT / "reference", ROOT / "assignment", load_all(), force=force)
    for path in written:
        console.print(str(path.relative_to(ROOT)), markup=False, highlight=False, soft_wrap=True)
    if not written:
        console.print("assignment/ is up to date")


def write_handout(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; say what differs.")
    ] = False,
) -> None:
    """Bring the tables of handout.md up to date with grader/exercises/*.yaml."""
    path = ROOT / "handout.md"
    exercises = load_all()
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
    course: Annotated[
        Path | None, typer.Option("--course", help="course.yaml: the site's title and due date.")
    ] = None,
) -> None:
    """Write what students get: stubs, oracles, grader and handout; no solutions."""
    exercises = load_all()
    made = release.make(ROOT, exercises, known_names(exercises, only))
    if with_site:
        built = _site_of(made, exercises, course)
        files = {**made.files, **{f"site/{name}": data for name, data in built.items()}}
        made = release.Release(dict(sorted(files.items())))
    release.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB")


def write_site(
    out: Annotated[Path, typer.Option(metavar="DIR|ZIP", help="A new folder, or a .zip file.")],
    course: Annotated[
        Path | None,
        typer.Option("--course", help="course.yaml: its title, its due date, its order."),
    ] = None,
) -> None:
    """Write the handout as a static site, a page for each lesson and exercise."""
    exercises = load_all()
    built = _site_of(release.make(ROOT, exercises), exercises, course)
    made = release.Release(built, folder="site")
    release.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB. Open index.html in it.")


def _site_of(
    made: release.Release, exercises: Mapping[str, Exercise], course: Path | None
) -> dict[str, bytes]:
    """The site of a release's handout, with the title, due date and order of a course file."""
    rules = course_files.load(course, exercises) if course is not None else course_files.Course()
    due = course_files.time_text(rules.due) if rules.due else ""
    return build_site(made.files, in_order(exercises, rules.order), rules.title, due)


def write_autograder(
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
    ] = upload.TIMEOUT,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Look for failures as long as `grader grade` does.")
    ] = False,
) -> None:
    """Write the autograder that Gradescope runs for each submission, on a CPU."""
    exercises = load_all()
    rules = course_files.load(course, exercises) if course is not None else course_files.Course()
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
    made = upload.make(ROOT, exercises, settings)
    upload.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB")
    tell("In the assignment's settings choose a container with at least 1.5 GB of memory.")
