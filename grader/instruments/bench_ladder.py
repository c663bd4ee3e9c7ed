"""The rungs of a ladder side by side: one table and one plot, as a lecture shows them.

Rungs are timed on one case, in a dtype that all of them take. What an exercise has beside its
ladder, such as gemm/cuda_tiled, is timed on its own case. v0 is torch's own operator, so that its
row is the baseline's that was timed beside the first rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.evidence import Baseline, PerformanceEvidence
from grader.gpu.roofline import Roofs
from grader.instruments import bench_table, plots
from grader.instruments.bench import Timed
from grader.instruments.plots import series_of
from grader.report import narrow, one_line
from grader.spec import Exercise
from grader.spec.exercise import on_one_case, rung_of
from grader.spec.task import Task
from grader.status import Status


def on_their_case(tasks: Sequence[Task]) -> list[Task]:
    """The tasks of an exercise, its rungs with one case; empty where fewer than two are rungs."""
    rungs = [task.variant for task in tasks if rung_of(task.variant.name)]
    if len(rungs) < 2 or any(task.exercise != tasks[0].exercise for task in tasks):
        return []
    alike = {each.name: each for each in on_one_case(rungs)}
    return [replace(task, variant=alike.get(task.variant.name, task.variant)) for task in tasks]


def show(
    timings: Sequence[Timed], exercise: Exercise, roofs: Roofs | None, console: Console
) -> None:
    """Print a row for each variant, v0 first, and why variants weren't timed."""
    rows = list(_rows(timings, exercise))
    common = _common([evidence for _, evidence in rows])
    if common:
        narrow.tell(Text(one_line(f"{exercise.title}, {' '.join(common)}:"), "bold"), console)
        console.print()
    named = [(_label(name, evidence, common), evidence) for name, evidence in rows]
    narrow.show(bench_table.brief("kernel", named, roofs, against="torch"), console)
    for line in bench_table.untimed(rows):
        narrow.tell(Text(line, "yellow"), console)
    tip = f"`grader bench {exercise.name}/VARIANT` times one of them over sizes."
    narrow.tell(Text(f"\n{tip}", "dim"), console)


def figures(
    timings: Sequence[Timed], exercise: Exercise, roofs: Roofs | None, folder: Path
) -> list[plots.Figure]:
    """The speeds side by side, to be drawn; nothing where nothing was timed."""
    rows = [(name, each) for name, each in _rows(timings, exercise) if each.is_timed]
    if not rows:
        return []
    common = _common([evidence for _, evidence in rows])
    series = [series_of(_label(name, each, common), [(0.0, each)]) for name, each in rows]
    title = f"{exercise.title} on {one_line(rows[0][1].device) or 'no GPU'}"
    stem = folder / f"{exercise.name}-ladder"
    return [partial(plots.side_by_side, series, roofs, title, stem)]


def _rows(
    timings: Sequence[Timed], exercise: Exercise
) -> Iterator[tuple[str, PerformanceEvidence]]:
    first = next((e for e in timings if rung_of(e.variant) and _torch(e.evidence)), None)
    for name in exercise.variants if first else ():
        place = rung_of(name)
        if first is not None and place is not None and place[1] == 0:
            yield name, _as_v0(first.evidence)
    for each in timings:
        yield each.variant, each.evidence


def _as_v0(beside: PerformanceEvidence) -> PerformanceEvidence:
    """The torch baseline of a timing as evidence of its own."""
    torch = _torch(beside)
    assert torch is not None  # the caller has looked
    ratios = (replace(each, ratio=each.microseconds / torch.microseconds, low=None, high=None)
              for each in beside.baselines)  # fmt: skip
    return PerformanceEvidence(
        Status.passed,
        device=beside.device,
        case=beside.case,
        microseconds=torch.microseconds,
        bytes=beside.bytes,
        flops=beside.flops,
        baselines=tuple(ratios),
    )


def _torch(evidence: PerformanceEvidence) -> Baseline | None:
    return next((each for each in evidence.baselines if each.name == "torch"), None)


def _words(evidence: PerformanceEvidence) -> list[str]:
    return [word for word in evidence.case.split() if not word.startswith("seed=")]


def _common(every: Sequence[PerformanceEvidence]) -> list[str]:
    """The case of the first row, which is that of all rungs."""
    return next((_words(each) for each in every if each.case), [])


def _label(name: str, evidence: PerformanceEvidence, common: Sequence[str]) -> str:
    own = [word.removeprefix("dtype=") for word in _words(evidence) if word not in common]
    return one_line(" ".join([name, *own]))
