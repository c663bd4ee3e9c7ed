"""`grader stubs`, `grader handout` and `grader release`: the files that the staff generate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from grader.cli.console import console, known_names, refuse, tell
from grader.spec import load_all
from grader.staff import handout, release, stubs

ROOT = Path(__file__).resolve().parents[2]


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
) -> None:
    """Write what students get: stubs, oracles, grader and handout; no solutions."""
    exercises = load_all()
    made = release.make(ROOT, exercises, known_names(exercises, only or []))
    release.write(made, out)
    tell(f"{out}: {len(made.files)} files, {made.size / 1e6:.1f} MB")
