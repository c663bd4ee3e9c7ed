"""`grader similarity`: hand-ins of a class that are alike."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grader.batch.classes import CourseClass
from grader.batch.similarity import MOST_SHOWN, THRESHOLD, pairs, to_html, to_text
from grader.batch.store.store import Store
from grader.cli.console import console, tell, writable, write
from grader.spec import load_all
from grader.staff.stubs import make_stubs

ROOT = Path(__file__).resolve().parents[2]


def command(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", help="The folder that `grader batch --out` wrote.")
    ],
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Of a file's own code, from 0 to 1.")
    ] = THRESHOLD,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write both texts side by side here.")
    ] = None,
) -> None:
    """List hand-ins that are alike, of those that count: a reason to look, no proof."""
    writable(html_file)
    exercises = load_all()
    with Store(results) as store:
        counting = CourseClass.open(store, exercises).compared()
        handins = [
            replace(each.handin, files=store.handins.files(each.number)) for each in counting
        ]
    stubs = make_stubs(ROOT / "reference", exercises)
    with console.status("comparing"):
        alike = pairs(handins, stubs, threshold, MOST_SHOWN if html_file is not None else 0)
    if html_file is not None:
        write(html_file, to_html(alike, threshold))
    tell(to_text(alike, threshold).removesuffix("\n"))
