"""The cost of a class without a GPU: submissions per minute, memory, and how both scale.

Makes synthetic classes (tests/support/synthetic_class.py) and grades each with `grader batch` in a
process of its own, into a new folder:

1. the same class on one core and on two: submissions per minute (goal: 1.8 times as many);
2. classes of several sizes on two cores: seconds per submission (goal: constant), peak memory;
3. some hand-ins in this process: the share of the time outside of kernels;
4. some hand-ins of the largest class alone, as by `grader grade`: the scores must agree.

Identical files are graded once, so the table has the number of graded results too. Times are wall
seconds on this machine.

    python benchmarks/class_grading.py [--only silu] [--sizes 30 100 300] [--check 12]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from grader.batch.collect import collect  # noqa: E402
from grader.batch.course.records import Handin  # noqa: E402
from grader.grading.grade import grade, grade_task  # noqa: E402
from grader.grading.session import Options, Session, selected  # noqa: E402
from grader.scoring.score import score  # noqa: E402
from grader.spec import load_all  # noqa: E402
from tests.support import synthetic_class  # noqa: E402

SEED = 1
CLASS_SEED = 20260301
SAMPLE_SECONDS = 0.5  # between samples of memory
EXERCISES = load_all()


@dataclass(frozen=True)
class Run:
    """One `grader batch` over one class."""

    handins: int
    results: int  # graded; identical files count once
    seconds: float
    peak_bytes: int  # proportional set size of all processes
    out: Path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=["silu", "copy_first_column"])
    parser.add_argument("--sizes", type=int, nargs="*", default=[30, 100, 300])
    parser.add_argument("--cores", type=int, default=30, help="students of the class of part 1")
    parser.add_argument("--layout", default="gradescope", choices=synthetic_class.LAYOUTS)
    parser.add_argument("--check", type=int, default=12, help="hand-ins graded alone (part 4)")
    given = parser.parse_args()
    console = Console(width=88)
    python = platform.python_version()
    console.print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {python}")
    console.print(f"exercises: {', '.join(given.only)}; layout: {given.layout}\n")
    with tempfile.TemporaryDirectory(prefix="warpgrade-bench-") as folder:
        bench = _Bench(Path(folder), given.only, given.layout)
        if given.cores:
            _cores(console, bench, given.cores)
        last = _sizes(console, bench, given.sizes)
        _shares(console, bench, given.sizes[-1])
        if given.check:
            _alone(console, bench, given.sizes[-1], last, given.check)


class _Bench:
    """Classes, made once each, and runs over them."""

    def __init__(self, folder: Path, only: list[str], layout: str) -> None:
        self.folder = folder
        self.only = only
        self.layout = layout

    def source(self, students: int) -> Path:
        folder = self.folder / f"class-{students}"
        if not folder.exists():
            synthetic_class.make(
                folder,
                students,
                self.layout,
                SEED,
                only=self.only,
                without=["timed_out"],  # intentionally slow
            )
        [source] = [
            each
            for each in folder.iterdir()
            if each.name not in ("roster.csv", "course.yaml", "truth.json")
        ]
        return source

    def handins(self, students: int) -> list[Handin]:
        found = collect(self.source(students), EXERCISES).handins
        return [each for each in found if each.files]

    def run(self, students: int, cores: int) -> Run:
        source, out = self.source(students), self.folder / f"results-{students}-{cores}"
        line = [sys.executable, "-m", "grader", "batch", str(source), "--out", str(out), "--plain"]
        line += ["--jobs", str(cores), "--seed", str(CLASS_SEED), "--no-sandbox-needed"]
        line += ["--roster", str(source.parent / "roster.csv")]
        line += ["--course", str(source.parent / "course.yaml")]
        for name in self.only:
            line += ["--only", name]
        started, peak = time.perf_counter(), 0
        with (
            (self.folder / "log").open("w") as log,
            subprocess.Popen(
                line,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores]),
            ) as process,
        ):
            while process.poll() is None:
                peak = max(peak, _memory(process.pid))
                time.sleep(SAMPLE_SECONDS)
        seconds = time.perf_counter() - started
        if process.returncode:
            sys.exit((self.folder / "log").read_text())
        with contextlib.closing(sqlite3.connect(out / "class.sqlite")) as store:
            [(results,)] = store.execute("SELECT count(*) FROM results")
        return Run(len(self.handins(students)), results, seconds, peak, out)


def _memory(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                total += each.memory_full_info().pss
    return total


def _cores(console: Console, bench: _Bench, students: int) -> None:
    one, two = bench.run(students, 1), bench.run(students, 2)
    table = Table(title=f"A class of {students} on one core and on two", title_justify="left")
    for column in ("cores", "seconds", "submissions a minute", "speed"):
        table.add_column(column, justify="right")
    for cores, run in ((1, one), (2, two)):
        rate = 60 * run.handins / run.seconds
        table.add_row(
            str(cores), f"{run.seconds:.0f}", f"{rate:.1f}", f"{one.seconds / run.seconds:.2f}"
        )
    console.print(table)
    console.print(f"{one.handins} hand-ins with files, {one.results} results each; goal 1.8\n")


def _sizes(console: Console, bench: _Bench, sizes: list[int]) -> Run:
    table = Table(title="Classes of several sizes, two cores", title_justify="left")
    columns = ("students", "hand-ins", "results", "seconds", "s/hand-in", "s/result", "peak MB")
    for column in columns:
        table.add_column(column, justify="right")
    for students in sizes:
        run = bench.run(students, 2)
        table.add_row(
            str(students),
            str(run.handins),
            str(run.results),
            f"{run.seconds:.0f}",
            f"{run.seconds / run.handins:.2f}",
            f"{run.seconds / run.results:.3f}",
            f"{run.peak_bytes / 1e6:.0f}",
        )
    console.print(table)
    return run


def _shares(console: Console, bench: _Bench, students: int, sample: int = 8) -> None:
    """The shares of grading's time in which a worker has a case, and of the rest."""
    chosen = random.Random(SEED).sample(bench.handins(students), sample)
    started, cases, compiling = time.perf_counter(), 0.0, 0.0
    for handin in chosen:
        with Session(
            Path("assignment"), EXERCISES, Options(seed=CLASS_SEED), files=_all(handin)
        ) as session:
            for task in selected(EXERCISES, bench.only):
                grade_task(session, task)
            cases += sum(each.waiting for each in session.runners.times.values())
            compiling += sum(each.compiles for each in session.runners.times.values())
    total = time.perf_counter() - started
    console.print(
        f"\nOf {total:.1f} s over {sample} hand-ins, one after the other: {cases / total:.0%} a "
        f"worker runs a case, {compiling / total:.0%} is waited for compilers, "
        f"{1 - (cases + compiling) / total:.0%} is neither."
    )


def _alone(console: Console, bench: _Bench, students: int, run: Run, count: int) -> None:
    """Compare rows of the class with the same files graded alone."""
    rows = json.loads((run.out / "gradebook.json").read_text())["entries"]
    stored = {row["handin"]: row["raw"] for row in rows if row["handin"]}
    handins = [each for each in bench.handins(students) if each.id in stored]
    differ = []
    for handin in random.Random(SEED + 1).sample(handins, min(count, len(handins))):
        with tempfile.TemporaryDirectory(prefix="warpgrade-alone-") as folder:
            for name, data in handin.files.items():
                (Path(folder) / name).write_bytes(data)
            seen = grade(Path(folder), EXERCISES, Options(seed=CLASS_SEED), only=bench.only)
        alone = score(seen, EXERCISES).score
        if alone != stored[handin.id]:
            differ.append(f"{handin.id}: alone {alone}, in the class {stored[handin.id]}")
    told = "\n".join(differ) or "all have the score that they have in the class"
    console.print(f"{min(count, len(handins))} hand-ins graded alone: {told}")


def _all(handin: Handin) -> dict[str, bytes | str]:
    variants = [v for each in EXERCISES.values() for v in each.variants.values()]
    return {v.file: handin.files.get(v.file, f"there is no {v.file}") for v in variants}


if __name__ == "__main__":
    main()
