"""The reports of one grade, for the commands that write and show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import typer

from grader import report
from grader.cli.console import FAILED, INTERRUPTED, console, write
from grader.evidence import Evidence
from grader.scoring.score import score
from grader.spec import Exercise


def show(
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
            write(path, make(observed, grade))
    report.to_terminal(observed, replace(grade, submission=called or grade.submission), console)
    if any(each.has_grader_error for each in observed.variants):
        raise typer.Exit(FAILED)
    if not observed.complete:
        raise typer.Exit(INTERRUPTED)
