"""Tests whether the same submission gets the same points every time. Exit status 1 where not.

    python benchmarks/repeated_grades.py [--times 10] [--loaded N] [--only CONDITION]

Three submissions for rmsnorm/triton: a good one (the solution), a middling one (it reads x twice),
and one whose speed is at a threshold (the solution, with its measured ratio as the threshold). Each
is timed so many times alone, and as often (or --loaded times) with processes that load every other
core (cpu), and with one that loads the GPU (gpu). Alone and with loaded cores its points must be
the same each time; with a loaded GPU the result must be 'too noisy'. The load on the GPU is a
process of this one's, which the clock takes for the grader's own. So it has to be detected by
measurement, as in a container that hides other processes.

Without a GPU there is nothing to time.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from grader.evidence import PerformanceEvidence
from grader.gpu import machine
from grader.scoring import speed
from grader.spec import Exercise, Variant, load_all
from grader.spec.exercise import REFERENCE
from grader.spec.task import Task
from grader.staff.calibration import corpus, timings
from grader.status import Status

NOISY = "too noisy"  # instead of points
MIDDLING = "reads_x_twice_from_memory"
LOAD_GPU = """
import torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
a @ a  # loads the library
torch.cuda.synchronize()
print("ready", flush=True)
while True:
    for _ in range(20):
        a @ a
    torch.cuda.synchronize()
"""


@dataclass
class Subject:
    """A submission, and its spec."""

    name: str
    variant: Variant
    source: str
    points: dict[str, list[str]] = field(default_factory=dict)  # by condition, in order


# --- loads ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing() -> Iterator[None]:
    yield


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def loaded_cores() -> Iterator[None]:
    """Run an endless computation on every other core."""
    fork = multiprocessing.get_context("fork")
    cores = max(1, (os.cpu_count() or 1) // 2)
    spinning = [fork.Process(target=_spin, daemon=True) for _ in range(cores)]
    for each in spinning:
        each.start()
    try:
        yield
    finally:
        for each in spinning:
            each.terminate()
            each.join()


@contextlib.contextmanager
def loaded_gpu() -> Iterator[None]:
    """Run endless matrix products on the GPU."""
    command = [sys.executable, "-c", LOAD_GPU]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loading:
        assert loading.stdout is not None
        try:
            if loading.stdout.readline().strip() != "ready":
                raise SystemExit("the process that was to load the GPU has ended")
            yield
        finally:
            loading.kill()


CONDITIONS: dict[str, Callable] = {"alone": nothing, "cpu": loaded_cores, "gpu": loaded_gpu}


# --- grades ---------------------------------------------------------------------------------------


def points_of(variant: Variant, timed: PerformanceEvidence) -> str:
    """The points for a timing, or why nothing was measured."""
    if timed.status is Status.not_measured:
        return NOISY if timed.reason.startswith("GPU too noisy") else "not measured"
    if timed.status is not Status.passed:
        return f"{timed.status.value}: {timed.reason}"
    assert variant.performance is not None
    decided = speed.decided(variant.performance.steps, timed)
    held = next((each.threshold.points for each in decided if each.holds), 0.0)
    return f"{held:g}"


def subjects(
    exercise: Exercise, timed: Callable[[Variant, str], PerformanceEvidence]
) -> list[Subject]:
    """The three of them; the solution is timed once to find its ratio."""
    variant = exercise.variants["triton"]
    solution = (REFERENCE / variant.file).read_text(encoding="utf-8")
    [middling] = [
        each
        for each in corpus.load("wrong")
        if (each.exercise, each.name) == (exercise.name, MIDDLING)
    ]
    first = timed(variant, solution)
    ratio = next((each.ratio for each in first.baselines if each.name == "copy"), None)
    if ratio is None:
        raise SystemExit(f"the solution can't be timed: {first.status.value}: {first.reason}")
    assert variant.performance is not None
    full = variant.performance.thresholds[0].model_copy(update={"at_least": ratio})
    at = variant.performance.model_copy(update={"thresholds": (full,)})
    return [
        Subject("good", variant, solution),
        Subject("middling", variant, middling.text()),
        Subject(
            f"at the threshold, {ratio:.4f}",
            variant.model_copy(update={"performance": at}),
            solution,
        ),
    ]


def verdicts(found: list[Subject]) -> list[str]:
    """Violations of the expectations, a line each."""
    wrong = []
    for each in found:
        idle = [p for name in ("alone", "cpu") for p in each.points.get(name, [])]
        if len(set(idle)) > 1 or {"not measured", NOISY} & {*idle}:
            wrong.append(f"{each.name}: expected the same points each time, got {_counted(idle)}")
        if {*each.points.get("gpu", [])} - {NOISY}:
            told = _counted(each.points["gpu"])
            wrong.append(f"{each.name}: expected {NOISY!r} beside a loaded GPU, got {told}")
    return wrong


def _counted(points: list[str]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in Counter(points).most_common())


def main() -> None:
    """Print the table; exit status 1 where points differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--loaded", type=int, metavar="N", help="times beside each load")
    parser.add_argument("--only", choices=CONDITIONS, action="append")
    given = parser.parse_args()
    if machine.gpu_name() is None:
        raise SystemExit("No NVIDIA GPU that torch can use: nothing can be timed.")
    chosen = given.only or list(CONDITIONS)
    exercise = load_all()["rmsnorm"]
    started = time.monotonic()
    console = Console()
    with timings.clock() as clock:

        def timed(variant: Variant, source: str) -> PerformanceEvidence:
            return clock(Task(exercise, variant), source.encode())

        found = subjects(exercise, timed)
        table = Table("submission", "beside", "points each time", "ratios to copy", box=None)
        for condition in chosen:
            times = given.times if condition == "alone" else given.loaded or given.times
            for each in found:
                with CONDITIONS[condition]():
                    seen = [timed(each.variant, each.source) for _ in range(times)]
                each.points[condition] = [points_of(each.variant, one) for one in seen]
                ratios = [y.ratio for one in seen for y in one.baselines if y.name == "copy"]
                spread = f"{min(ratios):.4f} to {max(ratios):.4f}" if ratios else ""
                row = (each.name, condition, " ".join(each.points[condition]), spread)
                table.add_row(*row)
                # At once, in case the run is cut off.
                console.print(f"{time.monotonic() - started:.0f} s: {'; '.join(filter(None, row))}")
                for why in dict.fromkeys(one.reason for one in seen if one.reason):
                    console.print(f"    {why}")
    console.print(f"{machine.gpu_name()}, {given.times} times each")
    console.print(table)
    console.print(f"{time.monotonic() - started:.0f} s in all")
    wrong = verdicts(found)
    for line in wrong:
        console.print(line, style="red")
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
