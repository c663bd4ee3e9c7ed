"""The parts of grading's time, without a GPU: `make bench`.

Grades the reference solutions of SiLU and RMSNorm by plan (or of other Triton exercises, or of all
of them, which takes minutes). Prints the whole time and its parts, cases per second, and the cost
of a fresh executor. Times are wall seconds on this machine, medians where there are several.

    python benchmarks/grading.py [--submission DIR] [--repeats N] [--only EXERCISE]... [--all]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

STARTED = time.perf_counter()
DEFAULT = ("silu", "rmsnorm")

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from grader.cases import Space  # noqa: E402
from grader.executors.runner import Times  # noqa: E402
from grader.executors.triton.triton_runner import PlannedTritonRunner  # noqa: E402
from grader.grading.grade import grade_task  # noqa: E402
from grader.grading.session import Options, Session, selected  # noqa: E402
from grader.sandbox import Sandbox  # noqa: E402
from grader.spec import Exercise, Variant, load_all  # noqa: E402
from grader.spec.task import Task  # noqa: E402

IMPORTED = time.perf_counter()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submission", type=Path, default=ROOT / "reference")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", action="append", metavar="EXERCISE", help="not silu and rmsnorm")
    parser.add_argument("--all", action="store_true", help="every exercise: minutes")
    given = parser.parse_args()
    console = Console(width=100)
    python = platform.python_version()
    console.print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {python}")
    exercises = load_all()
    if unknown := sorted({*(given.only or ())} - exercises.keys()):
        parser.error(f"--only: expected one of {', '.join(exercises)}, got {', '.join(unknown)}")
    if not given.all:
        exercises = {name: exercises[name] for name in given.only or DEFAULT}
    _whole(console, exercises, given.submission)
    _workers(console, exercises, given.submission, given.repeats)


def triton_tasks(exercises: dict[str, Exercise]) -> list[Task]:
    """The tasks that are planned in Python; below, an exercise's first one represents it."""
    return [task for task in selected(exercises) if task.variant.language == "triton"]


def _whole(console: Console, exercises: dict[str, Exercise], submission: Path) -> None:
    """Time one grade, as by `grader grade`."""
    started = time.perf_counter()
    with Session(submission, exercises, Options(device="cpu")) as session:
        session.sandbox.start()
        ready = time.perf_counter()
        rows = []
        for task in triton_tasks(exercises):
            before = time.perf_counter()
            seen = grade_task(session, task)
            took = time.perf_counter() - before
            times = session.runners.times[str(task)]
            rows.append((str(task), seen.correctness.value, took, times))
    total = time.perf_counter() - started + (IMPORTED - STARTED)
    table = Table(title="One grade of the reference, seconds", title_justify="left")
    columns = ("", "verdict", "all", "workers", "cases", "answers", "compiling*", "cases/s")
    for column in columns:
        left = column in ("", "verdict")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    table.add_row("imports", "", f"{IMPORTED - STARTED:.2f}")
    table.add_row("fork server", "", f"{ready - started:.2f}")
    for name, verdict, took, times in rows:
        table.add_row(name, verdict, f"{took:.2f}", *_split(times))
    table.add_row("all", "", f"{total:.2f}")
    console.print(table)
    console.print("answers: of the cases' time, waited for the worker; * waited for: the rest of")
    console.print("compiling ran beside the cases, on another core\n")


def _split(times: Times) -> tuple[str, ...]:
    return (
        f"{times.starts:.2f}",
        f"{times.cases:.2f}",
        f"{times.waiting:.2f}",
        f"{times.compiles:.2f}",
        f"{times.runs / times.cases:.0f}",
    )


def _workers(console: Console, exercises, submission: Path, repeats: int) -> None:
    """Time a fresh planner and executor until they have loaded the file and answered a case."""
    task = triton_tasks(exercises)[0]
    variant = task.variant
    case = Space(task, variant.dtypes[0], variant.size_classes[0], 1).edges()[0]
    with (
        Sandbox(kind="plans") as sandbox,
        PlannedTritonRunner(sandbox, task, _held(sandbox, submission, variant)) as runner,
    ):
        assert runner.run(case).verdict.passed
        first, loaded = [], []
        for _ in range(3 * repeats):
            runner.fresh_worker()
            starts = runner.times.starts
            before = time.perf_counter()
            runner.run(case)
            first.append(time.perf_counter() - before)
            loaded.append(runner.times.starts - starts)
    console.print(
        f"a further worker: {statistics.median(loaded):.3f} s until the file is loaded, "
        f"{statistics.median(first):.3f} s until its first case is judged "
        f"(median of {3 * repeats}; goal 0.05 s)\n"
    )


def _held(sandbox: Sandbox, submission: Path, variant: Variant) -> Path:
    return sandbox.hold(variant.file, (submission / variant.file).read_bytes())


if __name__ == "__main__":
    main()
