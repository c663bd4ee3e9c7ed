"""The cost of each level of confinement: `python benchmarks/confinement.py [--repeats N]`.

For each level that works here: seconds until a sandbox's fork server is ready and until a first
case is judged, and milliseconds per case after that. The levels take turns, so that a busy machine
slows all of them. Figures are medians, differences are to level limits. Goals: under 0.3 s per
submission, under 5 % per case. The test of which levels work is timed too: once per run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from grader.cases import Case, Space  # noqa: E402
from grader.executors.runner import Runner  # noqa: E402
from grader.executors.triton.triton_runner import PlannedTritonRunner  # noqa: E402
from grader.grading.session import PUBLIC_SEED, selected  # noqa: E402
from grader.sandbox import Sandbox, confinement  # noqa: E402
from grader.sandbox.confinement import Level  # noqa: E402
from grader.spec import load_all  # noqa: E402
from grader.spec.task import Task  # noqa: E402

CASES = 40


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    before = time.perf_counter()
    offers = confinement.probe("cpu")
    probing = time.perf_counter() - before
    levels = [offer.level for offer in offers if offer.works]
    starts: dict[Level, list[float]] = {level: [] for level in levels}
    cases: dict[Level, list[float]] = {level: [] for level in levels}
    for turn in range(repeats + 1):
        with contextlib.ExitStack() as opened:
            runners = {}
            for level in levels:
                runners[level], seconds = _first(level, opened)
                if turn:  # the first one fills the file system's caches
                    starts[level].append(seconds)
            for case in _cases() * 3:
                for level, runner in runners.items():
                    before = time.perf_counter()
                    runner.run(case)
                    cases[level].append(time.perf_counter() - before)
    _show(offers, probing, starts, cases, repeats)


def _task() -> Task:
    return selected(load_all(), ["silu"])[0]


def _cases() -> list[Case]:
    task = _task()
    return Space(task, task.variant.dtypes[0], "ragged", PUBLIC_SEED).edges()[:CASES]


def _first(level: Level, opened: contextlib.ExitStack) -> tuple[Runner, float]:
    """A runner with a running worker, and the seconds to its first verdict."""
    task = _task()
    source = (ROOT / "reference" / task.variant.file).read_bytes()
    started = time.perf_counter()
    sandbox = opened.enter_context(Sandbox("cpu", level, kind="plans"))
    path = sandbox.hold(task.variant.file, source)
    runner = opened.enter_context(PlannedTritonRunner(sandbox, task, path))
    assert runner.run(_cases()[0]).verdict.passed
    return runner, time.perf_counter() - started


def _show(offers, probing: float, starts, cases, repeats: int) -> None:
    console = Console(width=88)
    console.print(
        f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )
    for offer in offers:
        if not offer.works:
            console.print(f"no {offer.level.value}: {offer.reason}", highlight=False)
    table = Table(title=f"Cost of confinement (medians of {repeats})", title_justify="left")
    for column in ("level", "first verdict, s", "more than limits, s", "a case, ms", "more, %"):
        table.add_column(column, justify="left" if column == "level" else "right")
    for level in starts:
        start = statistics.median(starts[level])
        more = [a - b for a, b in zip(starts[level], starts[Level.limits], strict=True)]
        ratio = [a / b for a, b in zip(cases[level], cases[Level.limits], strict=True)]
        table.add_row(
            level.value,
            f"{start:.2f}",
            f"{statistics.median(more):+.2f}",
            f"{1e3 * statistics.median(cases[level]):.2f}",
            f"{100 * (statistics.median(ratio) - 1):+.1f}",
        )
    console.print(table)
    console.print(f"finding out which levels work: {probing:.2f} s, once per run of the grader")


if __name__ == "__main__":
    main()
