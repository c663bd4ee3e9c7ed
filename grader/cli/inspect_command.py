"""`grader inspect`: the code that the compilers make of a kernel; no GPU is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from grader.cli.console import (
    NameArgument,
    case_of,
    known_names,
    progress,
    refuse,
    right_exercises,
    tell,
    window,
    writable,
    write,
)
from grader.grading.grade import expect_files
from grader.grading.session import Options, Session, selected
from grader.instruments.inspect import listing, page, terminal
from grader.instruments.inspect.findings import Finding, findings
from grader.instruments.inspect.kernels import (
    Inspected,
    Kernel,
    NothingToInspect,
    inspect,
    open_compilers,
)
from grader.spec.task import Task

Stage = Literal["ttir", "ttgir", "llir", "ptx", "sass"]


@dataclass(frozen=True)
class _Asked:
    """What is to be shown of a variant. Numbers are as they were given, from 1."""

    stage: Stage | None
    line: int | None
    kernel: int | None
    configuration: int | None


def command(  # noqa: PLR0913  # each parameter is an option
    name: NameArgument,
    submission: Annotated[Path, typer.Option(help="The folder to look into.")] = Path("assignment"),
    stage: Annotated[
        Stage | None, typer.Option(help="The code to show; SASS, the machine code, if none is.")
    ] = None,
    line: Annotated[
        int | None, typer.Option(min=1, help="Show the code of this line alone.")
    ] = None,
    case: Annotated[
        str | None,
        typer.Option(help="Compile for this case, as in 'rows=1 cols=1025 dtype=float16'."),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Compile for this dtype.")] = None,
    kernel: Annotated[
        int | None, typer.Option(min=1, help="The number of the one kernel to show.")
    ] = None,
    config: Annotated[
        int | None, typer.Option(min=1, help="The configuration of an autotuned kernel.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="No colours, no line broken.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page of all stages.")] = None,
) -> None:
    """Show a kernel's compiled code beside its source, what it uses, and what slows it down."""
    exercises = right_exercises()
    tasks = selected(exercises, known_names(exercises, [name]))
    expect_files(submission, exercises)
    writable(html)
    asked = _Asked(stage, line, kernel, config)
    shown = window(plain)
    pages: list[page.Part] = []
    with Session(submission, exercises, Options(device="cpu")) as session:
        for task in tasks:
            try:
                pages += _inspected(session, task, case, dtype, asked, shown)
            except NothingToInspect as nothing:
                if len(tasks) == 1:
                    raise
                tell(str(nothing), "dim")
    if html is not None and pages:
        write(html, page.render(pages))
        tell(f"written: {html}")


def _inspected(
    session: Session,
    task: Task,
    case: str | None,
    dtype: str | None,
    asked: _Asked,
    shown: Console,
) -> Iterator[page.Part]:
    chosen = case_of(case, task, dtype)
    configuration = None if asked.configuration is None else asked.configuration - 1
    with (
        open_compilers(session, task) as compilers,
        progress(lambda step: f"{step}: compiling") as on_step,
    ):
        on_step(task)
        made = inspect(session, compilers, task, chosen, configuration, asked.kernel)
        shown_findings = [findings(each, compilers) for each in made.kernels]
    terminal.headline(made, shown)
    for kernel, of_kernel in zip(made.kernels, shown_findings, strict=True):
        _show(made, kernel, of_kernel, asked, shown)
        yield page.Part(made, kernel, of_kernel)


def _show(
    made: Inspected, kernel: Kernel, shown_findings: list[Finding], asked: _Asked, shown: Console
) -> None:
    count = max(each.number for each in made.kernels)
    terminal.show(made, kernel, count, shown)
    terminal.show_findings(shown_findings, shown)
    stage = asked.stage or "sass"
    if kernel.code.no_sass and stage == "sass":
        tell(kernel.code.no_sass, "yellow")
        stage = "ptx"
    if stage not in kernel.stages:
        there_are = ", ".join(kernel.stages)
        refuse(f"--stage: expected one of {there_are} for {made.task}, got {stage}")
    rows = listing.rows(kernel, stage, made.sources, shown_findings, asked.line)
    if asked.line is not None and not any(row.code for row in rows):
        every = listing.rows(kernel, stage, made.sources, ())
        spans = listing.spans(every, made.task.variant.file)
        refuse(f"--line: line {asked.line} has no code; lines that have: {spans}")
    terminal.show_code(rows, stage, shown)
