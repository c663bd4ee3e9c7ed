"""`grader profile`: where the time of a program on a GPU goes; without one, a stored sample."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from grader.cli.console import (
    case_of,
    known_names,
    refuse,
    right_exercises,
    tell,
    the_course,
    window,
    writable,
    write,
)
from grader.gpu import machine
from grader.grading.session import selected
from grader.instruments.profile import page, recording, samples, sentences, terminal, tools
from grader.instruments.profile.recording import Program


def command(  # each parameter is an option
    name: Annotated[
        str | None, typer.Argument(help="try_it.py, try_it.py:function, or a variant: gelu/triton.")
    ] = None,
    submission: Annotated[Path, typer.Option(help="The folder of a variant.")] = Path("assignment"),
    case: Annotated[
        str | None,
        typer.Option(help="A variant's case; that graded on speed, else on memory, if none is."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures.")] = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write the trace, for ui.perfetto.dev.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only torch's profiler, without ncu and nsys.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="No colours, no line broken.")] = False,
) -> None:
    """On a GPU, show where a program's time goes: kernels, gaps, and who waits for whom."""
    shown = window(plain)
    writable(html, trace)
    programs = _programs(name, submission, case) if name else []
    has_gpu = machine.gpu_name() is not None
    folder = Path(tempfile.mkdtemp(prefix="warpgrade-profile-"))
    try:
        recorded = _recorded(programs, folder, quick) if has_gpu else _samples()
        parts = [part for part, _ in recorded]
        if trace is not None:
            shutil.copyfile(recorded[0][1], trace)
    finally:
        if not any(folder.glob("*.nsys-rep")):  # which is for NVIDIA's viewer
            shutil.rmtree(folder)
    above = [sentences.NO_GRADE] if has_gpu else sentences.sample_lines([p.profile for p in parts])
    terminal.say(above, shown)
    for part in parts:
        terminal.show(part.profile, shown)
        for report in part.reports:
            terminal.show_tool(report, shown)
        shown.print()
    terminal.explain(shown)
    if trace is not None:
        tell(f"written: {trace}; open it on ui.perfetto.dev")
    if html is not None:
        write(html, page.render(parts, above))
        tell(f"written: {html}")


def _programs(name: str, submission: Path, case: str | None) -> list[Program]:
    """What a name means; refused where it means nothing."""
    if ".py" in name:
        path = Path(f"{name.partition('.py')[0]}.py")
        if not path.is_file():
            refuse(f"{path}: expected a file of yours, there is none of this name")
        if case is not None:
            refuse("--case: expected a variant with it, as in gelu/triton")
        return [Program(name)]
    exercises = right_exercises()
    tasks = selected(exercises, known_names(exercises, [name]))
    course = the_course().root
    return [Program(str(each), str(case_of(case, each)), submission, course) for each in tasks]


def _recorded(
    programs: Sequence[Program], folder: Path, quick: bool
) -> list[tuple[page.Part, Path]]:
    """Record each program, or the sample's functions if there is none: parts and trace files."""
    programs = programs or [Program(f"{samples.PROGRAM}:{each}") for each in samples.FUNCTIONS]
    recorded = []
    for number, program in enumerate(programs):
        out = folder / f"{number}.json"
        profile = recording.record(program, out)
        line = program.command()
        reports = (
            ()
            if quick
            else (tools.ncu(line, program.is_function), tools.nsys(line, out.with_suffix("")))
        )
        recorded.append((page.Part(profile, reports), out))
    return recorded


def _samples() -> list[tuple[page.Part, Path]]:
    """The stored sample's functions, each with the file of its trace."""
    return [
        (page.Part(samples.profile(each), samples.reports(each)), samples.trace(each))
        for each in samples.FUNCTIONS
    ]
