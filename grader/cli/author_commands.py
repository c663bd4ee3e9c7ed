"""`grader author check`: the exercises of a course, checked for their author."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from grader.cli.console import FOUND, console, progress, step_in_words, tell, the_course
from grader.grading.session import unwatched
from grader.staff.author.check import check


def command(
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
        for finding in check(
            course, names or (), quick=quick, on_step=unwatched if plain else on_step
        ):
            mistakes += finding.is_mistake
            if finding.is_summary:
                ran = finding.text
            elif plain:
                console.print(finding.text, markup=False, highlight=False, soft_wrap=True, style="")
            else:
                tell(finding.text, "red" if finding.is_mistake else "dim")
    if mistakes:
        tell(f"{mistakes} mistake{'s' * (mistakes != 1)}")
        raise typer.Exit(FOUND)
    tell(f"No mistake found: {ran}")
