"""`grader bench`: the speed of a kernel and of its baselines over sizes, of the rungs of a ladder,
or with several values of its constants."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

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
from grader.grading import head_start
from grader.grading.grade import expect_files
from grader.grading.session import Lent, Session, selected
from grader.grading.submitted import contents
from grader.instruments import (
    bench,
    bench_configs,
    bench_ladder,
    bench_report,
    plots,
)
from grader.instruments.bench import Step, parse, plan
from grader.mistakes import Mistake
from grader.sandbox import Sandbox
from grader.spec import Exercise
from grader.spec.task import Task
from grader.timing import sequential

OUT = Path("results/bench")
ROOFS_ADVICE = (
    "The roof is the data sheet's. `grader doctor --gpu` measures this GPU's own, once; then its "
    "share of that is shown."
)

_T = TypeVar("_T")


def command(
    name: NameArgument,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONSTANT=N,N]...", help="With --configs: further constants."),
    ] = None,
    submission: Annotated[Path, typer.Option(help="The folder to time.")] = Path("assignment"),
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Values of the case's largest size, in the place of an eighth to twice of it; the "
            "case itself is always timed.",
        ),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            metavar="CONSTANT=N,N",
            help="Time one variant with these values of its constants, in all combinations: "
            "--configs BLOCK=64,128 num_warps=4,8.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where plots are written.")] = OUT,
    json: Annotated[Path | None, typer.Option(help="Write the timings as JSON.")] = None,
) -> None:
    """Time a kernel on a GPU over sizes, beside a copy, torch, torch.compile and the solution."""
    exercises = right_exercises()
    wanted = parse(sizes) if sizes is not None else None
    values = _constants(configs, more or [], sizes)
    expect_files(submission, exercises)
    chosen = _chosen(exercises, name, wanted)
    writable(json)
    rungs = bench_ladder.on_their_case(chosen) if wanted is None and not values else []
    if values:
        _expect_constants(submission, chosen, values)
    with _session(submission, exercises) as session:
        if machine.gpu_name() is None:
            tell(bench.NO_GPU)
            return
        session.stopwatch.begin(solutions=[] if values or rungs else chosen)
        session.begin_building([] if values else chosen, "gpu")
        trusted, roofs = session.stopwatch.trusted, bench.roofs_here()
        given = session, trusted
        if values:
            sweep(*given, chosen[0], values, Output(roofs, out, json))
        elif rungs:
            compare(*given, rungs, Output(roofs, out, json))
        else:
            run(*given, chosen, wanted, Output(roofs, out, json))


@dataclass(frozen=True)
class Output:
    """Where plots and JSON go, and the roofs that timings are compared with."""

    roofs: Roofs | None
    out: Path
    json: Path | None


@contextmanager
def _session(submission: Path, exercises: Mapping[str, Exercise]) -> Iterator[Session]:
    """A session with the sandbox of baselines that was begun with the command, if one was."""
    with (
        head_start.baselines() as begun,
        Session(submission, exercises, lent=Lent(trusted=begun)) as session,
    ):
        yield session


def run(
    session: Session,
    trusted: Sandbox,
    chosen: Sequence[Task],
    sizes: Sequence[int] | None,
    output: Output,
    budget: sequential.Budget | None = None,
) -> None:
    """Time the variants and show the timings; after Ctrl-C those taken so far.

    Raises typer.Exit with INTERRUPTED after Ctrl-C.
    """
    roofs, out = output.roofs, output.out
    _time_and_write(
        partial(bench.run, session, trusted, chosen, sizes, roofs, budget),
        lambda timings: bench_report.show(timings, roofs, console),
        lambda timings: bench_report.to_json(timings, roofs),
        lambda timings: bench_report.figures(timings, session.exercises, roofs, out),
        output,
    )


def compare(session: Session, trusted: Sandbox, rungs: Sequence[Task], output: Output) -> None:
    """Time a ladder's variants on one case and show them in one table and one plot.

    Ends as `run` does.
    """
    exercise, roofs, out = rungs[0].exercise, output.roofs, output.out
    _time_and_write(
        partial(bench.run, session, trusted, rungs, (), roofs, is_ladder=True),
        lambda timings: bench_ladder.show(timings, exercise, roofs, console),
        lambda timings: bench_report.to_json(timings, roofs),
        lambda timings: bench_ladder.figures(timings, exercise, roofs, out),
        output,
    )


def sweep(
    session: Session,
    trusted: Sandbox,
    task: Task,
    values: bench_configs.Values,
    output: Output,
) -> None:
    """Time a variant with each configuration of its constants. Ends as `run` does."""
    roofs, out = output.roofs, output.out
    _time_and_write(
        partial(bench_configs.run, session, trusted, task, values, roofs),
        lambda timings: bench_configs.show(timings, task, roofs, console),
        lambda timings: bench_configs.to_json(timings, task),
        lambda timings: bench_configs.figures(timings, task, roofs, out),
        output,
    )


def _time_and_write(
    timing: Callable[..., Iterator[_T]],
    show: Callable[[list[_T]], None],
    to_json: Callable[[list[_T]], str],
    figures: Callable[[list[_T]], list[plots.Figure]],
    output: Output,
) -> None:
    """Take timings, show them, write them and their plots, and say where. Ends as `run` does."""
    plots.prepare()  # while sandboxes start
    timings: list[_T] = []
    interrupted = False
    try:
        with progress(_in_words) as on_step:
            for timed in timing(on_step=on_step):
                timings.append(timed)
    except KeyboardInterrupt:
        interrupted = True
    if timings:
        show(timings)
        console.print()
        if output.roofs is not None and not output.roofs.is_measured:
            tell(ROOFS_ADVICE, "dim")
        if output.json is not None:
            write(output.json, to_json(timings))
        try:
            for path in plots.draw_all(figures(timings)):
                tell(str(path))
        except plots.PlotsMissing as error:
            tell(str(error), "yellow")
    if interrupted:
        tell("interrupted" + (": this is what was timed until then" if timings else ""))
        raise typer.Exit(INTERRUPTED)


def _chosen(
    exercises: Mapping[str, Exercise], name: str, sizes: Sequence[int] | None
) -> list[Task]:
    """The variants to time. Raises Mistake before anything runs."""
    named = selected(exercises, known_names(exercises, [name]))
    chosen = bench.with_a_case(named, selected(exercises))
    have_oracles(exercises, [name])
    for task in chosen:
        plan(task, sizes)
    return chosen


def _constants(
    configs: str | None, more: Sequence[str], sizes: str | None
) -> dict[str, list[str]] | None:
    """The values that --configs gives. Raises Mistake."""
    if configs is None:
        if more:
            numbers = ": values of --sizes are joined by commas, as in 1024,2048" if sizes else ""
            raise Mistake(
                f"expected one name, or --configs before constants, got {more[0]}{numbers}"
            )
        return None
    if sizes is not None:
        raise Mistake("--configs: expected no --sizes beside it: one case is timed")
    values = bench_configs.parse([configs, *more])
    bench_configs.configurations(values)
    return values


def _expect_constants(
    submission: Path, chosen: Sequence[Task], values: bench_configs.Values
) -> None:
    """Refuse several variants, and constants that the file lacks. Raises Mistake."""
    if len(chosen) > 1:
        names = ", ".join(map(str, chosen))
        raise Mistake(f"--configs: expected the name of one variant, of {names}")
    bench_configs.constants(contents(submission / chosen[0].variant.file), chosen[0], values)


def _in_words(step: Step) -> str:
    return f"{step.name} {step.number}/{step.count}: {step.case}"
