"""`grader bench`: the speed of a kernel and of its baselines over sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.console import (
    INTERRUPTED,
    NameArgument,
    console,
    have_oracles,
    known_names,
    progress,
    right_exercises,
    tell,
    writable,
    write,
)
from grader.gpu import machine
from grader.gpu.roofline import Roofs
from grader.grading.grade import Session, expect_files, selected
from grader.instruments import bench, bench_report, plots
from grader.instruments.bench import Step, Timed
from grader.instruments.bench_sizes import parse, plan
from grader.sandbox import Sandbox
from grader.spec import Exercise, load_all
from grader.spec.task import Task
from grader.timing import contenders, sequential

OUT = Path("results/bench")
ROOFS_ADVICE = (
    "The roof is the data sheet's. `grader doctor --gpu` measures this GPU's own, once; then its "
    "share of that is shown."
)


def command(
    name: NameArgument,
    submission: Annotated[Path, typer.Option(help="The folder to time.")] = Path("assignment"),
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Values of the case's largest size, in the place of an eighth to twice of it; the "
            "case itself is always timed.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where plots are written.")] = OUT,
    json: Annotated[Path | None, typer.Option(help="Write the timings as JSON.")] = None,
) -> None:
    """Time a kernel on a GPU over sizes, beside a copy, torch, torch.compile and the solution."""
    exercises = right_exercises(load_all)
    wanted = parse(sizes) if sizes is not None else None
    chosen = _chosen(exercises, name, wanted)
    expect_files(submission, exercises)
    writable(json)
    with Session(submission, exercises) as session:
        if machine.gpu_name() is None:
            tell(bench.NO_GPU)
            return
        has_solutions = any(contenders.has_reference(task.variant) for task in chosen)
        session.stopwatch.begin(has_solutions)
        trusted = session.stopwatch.trusted
        run(session, trusted, chosen, wanted, bench.roofs_here(), out, json)


def run(
    session: Session,
    trusted: Sandbox,
    chosen: Sequence[Task],
    sizes: Sequence[int] | None,
    roofs: Roofs | None,
    out: Path,
    json: Path | None,
    budget: sequential.Budget | None = None,
) -> None:
    """Time the variants and show the timings; after Ctrl-C those taken so far.

    Raises typer.Exit with INTERRUPTED after Ctrl-C.
    """
    timings: list[Timed] = []
    interrupted = False
    try:
        with progress(_in_words) as on_step:
            for timed in bench.run(session, trusted, chosen, sizes, roofs, budget, on_step):
                timings.append(timed)
    except KeyboardInterrupt:
        interrupted = True
    if timings:
        _leave(timings, session.exercises, roofs, out, json)
    if interrupted:
        tell("interrupted" + (": this is what was timed until then" if timings else ""))
        raise typer.Exit(INTERRUPTED)


def _leave(
    timings: Sequence[Timed],
    exercises: Mapping[str, Exercise],
    roofs: Roofs | None,
    out: Path,
    json: Path | None,
) -> None:
    bench_report.show(timings, roofs, console)
    console.print()
    if roofs is not None and not roofs.is_measured:
        tell(ROOFS_ADVICE, "dim")
    if json is not None:
        write(json, bench_report.to_json(timings, roofs))
    try:
        for path in bench_report.write_plots(timings, exercises, roofs, out):
            tell(str(path))
    except plots.PlotsMissing as error:
        tell(str(error), "yellow")


def _chosen(
    exercises: Mapping[str, Exercise], name: str, sizes: Sequence[int] | None
) -> list[Task]:
    """The variants to time. Raises NothingToTime and SizesError before anything runs."""
    named = selected(exercises, known_names(exercises, [name]))
    chosen = bench.with_a_case(named, selected(exercises))
    have_oracles(exercises, [name])
    for task in chosen:
        plan(task.exercise, task.variant, sizes)
    return chosen


def _in_words(step: Step) -> str:
    return f"{step.name} {step.number}/{step.count}: {step.case}"
