"""The parts of a timing's cost: a table with a line for each performance case.

    python benchmarks/timing_costs.py [EXERCISE]... [--replays 4]

For the staff's solutions, on a GPU: seconds until the plan is made and its kernels are compiled,
until the executor has tuned its kernels, and until it has settled; then for each replay the seconds
of arranging calls, drawing inputs, the replay itself, and judging.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

from grader.cases import Case, fixed_case, oracle
from grader.gpu import machine
from grader.grading.session import PUBLIC_SEED, Options, Session
from grader.spec import Exercise, Variant, load_all
from grader.spec.task import Task
from grader.timing.buffer_sets import GradedBufferSets

COLUMNS = ("prepare", "fill", "replay", "finish")
_T = TypeVar("_T")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("exercises", nargs="*")
    parser.add_argument("--replays", type=int, default=4)
    given = parser.parse_args()
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: nothing can be timed.")
    columns = ("plan", "start", "settle", "calls", *(f"{each} ms" for each in COLUMNS), "fast path")
    table = Table("case", *columns)
    exercises = load_all()
    with Session(oracle.ORACLES.parent, exercises, Options(device="cuda")) as session:
        for exercise, variant in timed_variants(exercises.values(), given.exercises):
            assert variant.performance is not None
            for sizes in variant.performance.every_case:
                case = fixed_case(Task(exercise, variant), sizes, PUBLIC_SEED)
                row = costs(session, exercise, variant, case, given.replays)
                table.add_row(f"{exercise.name} {variant.name} {case.sizes}", *row)
    console = Console()
    console.print(f"{machine.gpu_name()}; ms of a replay, medians of {given.replays}")
    console.print(table)


def timed_variants(
    exercises: Iterable[Exercise], names: Sequence[str]
) -> Iterator[tuple[Exercise, Variant]]:
    """The variants with thresholds."""
    for exercise in exercises:
        for variant in exercise.variants.values():
            if variant.performance and (not names or exercise.name in names):
                yield exercise, variant


def costs(
    session: Session, exercise: Exercise, variant: Variant, case: Case, count: int
) -> list[str]:
    """A row of the table."""
    spent: dict[str, list[float]] = defaultdict(list)

    def noted(name: str, work: Callable[[], _T]) -> _T:
        started = time.perf_counter()
        try:
            return work()
        finally:
            spent[name].append(time.perf_counter() - started)

    with contextlib.ExitStack() as opened:
        planned = session.stopwatch.planned(Task(exercise, variant))
        noted("plan", lambda: planned.prepare(case))
        replays = noted("start", lambda: planned.begin(case, opened))
        noted("settle", replays.settle)
        sets: Any = replays._sets  # private parts are timed
        fill = sets.fill
        setattr(sets, "fill", lambda order: noted("fill", lambda: fill(order)))  # noqa: B010
        for _ in range(count):
            for name in ("prepare", "replay", "finish"):
                noted(name, getattr(replays, name))
        assert isinstance(sets, GradedBufferSets)  # a submission's outputs are judged
        by_fast_path = ", ".join(sets._fast_path.trusted) or "no"
    return [
        *(f"{spent[name][0]:.1f}" for name in ("plan", "start", "settle")),
        str(replays.calls),
        *(f"{statistics.median(spent[name]) * 1e3:.1f}" for name in COLUMNS),
        by_fast_path,
    ]


if __name__ == "__main__":
    main()
