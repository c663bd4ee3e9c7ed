"""`grader plan`: what an entry asks of the GPU, step by step, without running a kernel."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from grader import plan
from grader.cases import Case
from grader.cli.console import (
    case_of,
    console,
    known_names,
    progress,
    refuse,
    right_exercises,
    step_in_words,
    tell,
    writable,
    write,
)
from grader.evidence import Failure
from grader.executors.gpu import bundle
from grader.executors.planning import blank_arguments
from grader.gpu import machine
from grader.grading import plan_files
from grader.grading.grade import expect_files
from grader.grading.session import PUBLIC_SEED, Options, Session, selected
from grader.report import narrow, one_line
from grader.spec import Exercise
from grader.spec.task import Task
from grader.status import Status


def command(
    name: Annotated[
        str | None,
        typer.Argument(help="An exercise or variant: rmsnorm, rmsnorm/triton; with --out, or all."),
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="The case to plan, as in 'rows=1 cols=1025 dtype=float16'.")
    ] = None,
    submission: Annotated[Path, typer.Option(help="The folder to plan.")] = Path("assignment"),
    json: Annotated[Path | None, typer.Option(help="Write the plan of one variant here.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write plans and cubins here, for `grader run-plan`."),
    ] = None,
    capability: Annotated[
        int | None,
        typer.Option(
            "--gpu", min=70, max=200, help="With --out: for this compute capability, 90 for 9.0."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="With --out: seed of the cases and their data.")
    ] = PUBLIC_SEED,
) -> None:
    """Show what an entry asks of the GPU: memory, copies and launches, in their order."""
    exercises = right_exercises()
    chosen = selected(exercises, known_names(exercises, [name] if name else None))
    if out is not None:
        if case is not None or json is not None:
            refuse("--out: expected neither --case nor --json beside it")
        _write_file(submission, exercises, chosen, out, capability, seed)
        return
    if name is None or capability is not None:
        refuse("expected the name of an exercise or variant, or --out FILE")
    if json is not None and len(chosen) > 1:
        refuse(f"--json: expected one variant, as in {chosen[0]}")
    expect_files(submission, exercises)
    writable(json)
    with Session(submission, exercises) as session:
        for index, task in enumerate(chosen):
            if index:
                console.print()
            shown = case_of(case, task)
            tell(f"{task}: {shown}", "bold")
            _show(session, task, shown, json)


def _write_file(
    submission: Path,
    exercises: Mapping[str, Exercise],
    chosen: Sequence[Task],
    out: Path,
    capability: int | None,
    seed: int,
) -> None:
    """Write plans for another machine, and print how many there are of each variant."""
    expect_files(submission, exercises)
    writable(out)
    if capability is not None:
        machine.compile_for(capability)
    options = Options(seed=seed, device="cpu")
    with Session(submission, exercises, options) as session, progress(step_in_words) as on_step:
        made = plan_files.make(session, submission.name or str(submission), chosen, on_step)
    bundle.write(out, made)
    for variant in made.variants:
        _tell_variant(variant)
    size = f"{max(out.stat().st_size // 1000, 1):,} KB"
    on = f"a GPU of compute capability {made.capability / 10}"
    tell(f"{out}: {size}, for {on}. There: grader run-plan {shlex.quote(out.name)}")


def _tell_variant(variant: bundle.PlannedVariant) -> None:
    name = f"{variant.exercise}/{variant.variant}"
    if variant.not_attempted:
        tell(f"{name}: not attempted: {one_line(variant.not_attempted)}")
        return
    run = [case for part in variant.parts for case in part.cases]
    counts = [sum(bool(each.documents) for each in cases) for cases in (run, variant.timed)]
    tell(f"{name}: {counts[0]} cases to run, {counts[1]} to time")
    refused = [each for each in (*run, *variant.timed) if not each.documents]
    first_cases: dict[tuple[Status, str], str] = {}
    for each in refused:
        first_cases.setdefault((each.status, one_line(each.what)), each.case)
    for (status, message), case in first_cases.items():
        tell(f"  {status.headline}: {message} ({case})", "red")


def _show(session: Session, task: Task, case: Case, json: Path | None) -> None:
    exercise, variant = task.exercise, task.variant
    if reason := session.not_attempted(task):
        tell(f"  not attempted: {reason}")
        return
    planned = plan_files.plan_case(session, task, case)
    if isinstance(planned, Failure):
        tell(f"  {planned.status.headline}: {planned.what}", "red")
        for line in filter(None, (planned.where, planned.hint)):
            tell(f"  {line}")
        return
    if json is not None:
        write(json, plan.to_json(planned))
    names = [argument.name for argument in exercise.signature(variant)]
    tell(f"  {variant.of_dtype(case.dtype).entry} {plan.summary(planned, names, variant.file)}.")
    table = narrow.table(show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    table.add_column(style="dim", no_wrap=True)
    in_triton = variant.language == "triton"  # a CUDA plan's buffers are without guard zones
    arguments = blank_arguments(task, case)
    starts = [each.offset - each.allocation[0] if in_triton else 0 for each in arguments]
    for step in plan.lines(planned, names, variant.file, starts):
        place = session.files.placed(variant, step.place)
        table.add_row(*map(Text, (step.verb, one_line(step.target), place)))
    narrow.show(table, console, indent=2, at_least=24)
    if planned.printed.strip():
        tell("  It printed:")
        for text in planned.printed.strip().splitlines()[:10]:
            tell(f"    {one_line(text)}", "dim")
