"""Where the time of a timing goes: a table, one line for each performance case.

    python tests/benchmarks/timing_costs.py [EXERCISE]... [--pairs 4]

For the staff's solutions: seconds until the worker stands by, until it has settled (it compiles and
tunes there), then of each pair what is spent on filling the sets, on the runs themselves and on
judging their outputs. Without a GPU it measures the same over the CPU's arena, on the smallest
sizes that there are.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
from collections import defaultdict

from rich.console import Console
from rich.table import Table

from grader import machine, oracle
from grader.cases import fixed_case
from grader.sandbox import Sandbox
from grader.spec import load_all
from grader.timing import lanes, sets

REFERENCE = oracle.ORACLES.parent
COLUMNS = ("fill", "wake", "patch", "run", "read_sample", "judge")


class Watched:
    """Something whose methods are timed, in seconds, by their names."""

    def __init__(self, watched, spent) -> None:
        self._watched, self._spent = watched, spent

    def __getattr__(self, name):
        found = getattr(self._watched, name)
        if name not in COLUMNS:
            return found

        def called(*given):
            started = time.perf_counter()
            try:
                return found(*given)
            finally:
                self._spent[name].append(time.perf_counter() - started)

        return called


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("exercises", nargs="*")
    parser.add_argument("--pairs", type=int, default=4)
    given = parser.parse_args()
    device = machine.device()
    table = Table(
        "case", "start", "settle", "calls", *(f"{each} ms" for each in COLUMNS), "pair", "screened"
    )
    with Sandbox(device) as sandbox:
        for exercise, variant in timed_variants(given.exercises):
            for case in variant.performance.every_case:
                sizes = fixed_case(exercise, variant, case, 7)
                row = costs(sandbox, exercise, variant, sizes, given.pairs)
                table.add_row(f"{exercise.name} {variant.name} {sizes.sizes}", *row)
    console = Console()
    console.print(f"{machine.gpu_name() or 'no GPU'}; ms per pair, medians of {given.pairs}")
    console.print(table)


def timed_variants(names):
    """What has thresholds, and a solution here."""
    for name, exercise in load_all().items():
        for variant in exercise.variants.values():
            wanted = not names or name in names
            if wanted and variant.performance and variant.language == "triton":
                yield exercise, variant


def costs(sandbox, exercise, variant, case, pairs) -> list[str]:
    """A row of the table."""
    path = sandbox.hold(variant.file, (REFERENCE / variant.file).read_bytes())
    spent = defaultdict(list)
    with contextlib.ExitStack() as opened:
        started = time.perf_counter()
        lane = lanes.candidate(sandbox, exercise, variant, case, path, opened)
        stands_by = time.perf_counter()
        lane.settle()
        settled = time.perf_counter()
        lane._sets = Watched(lane._sets, spent)
        lane._worker = Watched(lane._worker, spent)
        each = []
        for _ in range(pairs):
            begun = time.perf_counter()
            lane.pair()
            sets.synchronise(lane._sets._memory.inputs)
            each.append(time.perf_counter() - begun)
    return [
        f"{stands_by - started:.1f}",
        f"{settled - stands_by:.1f}",
        str(lane.calls),
        *(f"{sum(spent[name]) / pairs * 1e3:.1f}" for name in COLUMNS),
        f"{statistics.median(each) * 1e3:.0f}",
        ", ".join(lane._sets._screen.trusted) or "no",
    ]


if __name__ == "__main__":
    main()
