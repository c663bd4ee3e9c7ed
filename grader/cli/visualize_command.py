"""`grader visualize`: pictures of a kernel's accesses to memory; no GPU is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grader.cases import Case, fixed_case
from grader.cli.console import (
    NameArgument,
    case_of,
    have_oracles,
    known_names,
    progress,
    right_exercises,
    tell,
    writable,
    write,
)
from grader.grading.grade import expect_files
from grader.grading.session import PUBLIC_SEED, Options, Session, selected
from grader.instruments.visualize import page
from grader.instruments.visualize.tracing import NothingToDraw, Run, traced
from grader.report import one_line
from grader.spec.task import Task


def command(
    name: NameArgument,
    submission: Annotated[Path, typer.Option(help="The folder to look into.")] = Path("assignment"),
    case: Annotated[
        str | None,
        typer.Option(help="Run this case, as in 'rows=64 cols=48'; a small one if none is given."),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Run with this dtype.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the page here; NAME-visualize.html if not given.")
    ] = None,
) -> None:
    """Draw a kernel's accesses to memory, one by one: who writes what, sectors, banks, L2."""
    exercises = right_exercises()
    names = known_names(exercises, [name])
    tasks = selected(exercises, names)
    expect_files(submission, exercises)
    have_oracles(exercises, names)
    out = html or Path(f"{name.replace('/', '-')}-visualize.html")
    writable(out)
    runs: list[Run] = []
    with (
        Session(submission, exercises, Options(device="cpu")) as session,
        progress(lambda step: f"{step}: running") as on_step,
    ):
        for task in tasks:
            on_step(task)
            chosen = _chosen(task, case, dtype)
            try:
                runs.append(traced(session, task, chosen, is_given=case is not None))
            except NothingToDraw as nothing:
                if len(tasks) == 1:
                    raise
                tell(str(nothing), "dim")
    if not runs:
        raise NothingToDraw(f"{name}: no variant can be drawn")
    text = page.render(runs)
    for run in runs:
        verdict = run.result.verdict
        wrong = "" if verdict.passed else f": {verdict.status.headline}: {verdict.what}"
        tell(one_line(f"{run.task} for {run.case}{wrong}"), "" if verdict.passed else "yellow")
    write(out, text)
    tell(f"written: {out}")


def _chosen(task: Task, text: str | None, dtype: str | None) -> Case:
    """The case that `--case` names; else the spec's for memory, or what other commands take."""
    chosen = case_of(text, task, dtype)
    if text is not None or task.variant.memory is None:
        return chosen
    counted = fixed_case(task, task.variant.memory.case, PUBLIC_SEED)
    return replace(counted, dtype=dtype or counted.dtype)
