"""Where the time of grading goes (no GPU used): `make bench`.

Prints, for the reference solutions of SiLU and RMSNorm (or of other Triton exercises, or of all of
them: minutes), graded in the interpreter: the whole time and its parts, cases per second, the cost
of a further worker, and what the boundary between the two processes costs a case: beside a process
that makes the same checks itself, and beside one that only calls the kernel and compares. Times are
wall seconds on this machine. Of a further worker they are medians; of the boundary the shortest of
every case, over rounds in which the ways take turns: boundary.py says how and why.

    python tests/benchmarks/grading.py [--submission DIR] [--repeats N] [--rounds N]
                                       [--only EXERCISE]... [--all]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

STARTED = time.perf_counter()
DEFAULT = ("silu", "rmsnorm")

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from grader.cases import Space  # noqa: E402
from grader.grade import Session, selected  # noqa: E402
from grader.runner import Runner, Times  # noqa: E402
from grader.sandbox import Sandbox  # noqa: E402
from grader.spec import Exercise, Variant, load_all  # noqa: E402
from tests.benchmarks import boundary  # noqa: E402

IMPORTED = time.perf_counter()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submission", type=Path, default=ROOT / "reference")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", action="append", metavar="EXERCISE", help="not silu and rmsnorm")
    parser.add_argument("--all", action="store_true", help="every exercise: minutes")
    parser.add_argument("--rounds", type=int, default=boundary.ROUNDS, help="of the boundary's")
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
    _boundary(console, exercises, given.submission, given.rounds)


def triton_variants(exercises: dict[str, Exercise]) -> list[tuple[Exercise, Variant]]:
    """What the interpreter runs; the first of an exercise stands for it below."""
    return [pair for pair in selected(exercises) if pair[1].language == "triton"]


def _whole(console: Console, exercises: dict[str, Exercise], submission: Path) -> None:
    """One grade, as `grader grade` does it."""
    started = time.perf_counter()
    with Session(submission, exercises, device="interpreter") as session:
        session.sandbox.start()
        ready = time.perf_counter()
        rows = []
        for exercise, variant in triton_variants(exercises):
            before = time.perf_counter()
            seen = session.variant(exercise, variant)
            took = time.perf_counter() - before
            times = session.runners.times[f"{exercise.name}/{variant.name}"]
            rows.append((f"{exercise.name}/{variant.name}", seen.correctness.value, took, times))
    total = time.perf_counter() - started + (IMPORTED - STARTED)
    table = Table(title="One grade of the reference, seconds", title_justify="left")
    columns = ("", "verdict", "all", "workers", "cases", "answers", "compiling*", "cases/s")
    for column in columns:
        left = column in ("", "verdict")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    table.add_row("imports", "", f"{IMPORTED - STARTED:.2f}")
    table.add_row("forking parent", "", f"{ready - started:.2f}")
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
    """What a further worker costs: fork, load the file, answer the first case."""
    exercise, variant = triton_variants(exercises)[0]
    case = Space(exercise, variant, variant.dtypes[0], variant.size_classes[0], 1).edges()[0]
    with (
        Sandbox() as sandbox,
        Runner(sandbox, exercise, variant, _held(sandbox, submission, variant)) as runner,
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


def _boundary(console: Console, exercises, submission: Path, rounds: int) -> None:
    """The same cases in one process and in two: boundary.py."""
    told = []
    table = Table(title="Per case, milliseconds", title_justify="left")
    for column in ("", "cases", *boundary.WAYS):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    for exercise, variant in triton_variants(exercises):
        name = f"{exercise.name}/{variant.name}"
        seen = boundary.measure(exercise, variant, submission, rounds=rounds)
        table.add_row(
            name, str(seen.cases), *(f"{1e3 * seen.of(way):.2f}" for way in boundary.WAYS)
        )
        told += [_shares(name, seen, of) for of in ("two", "apart")]
    console.print(table)
    console.print(
        "The shortest that each case took, averaged over cases: of "
        f"{boundary.SETS} x {rounds} rounds, in which\nthe ways take turns, in "
        f"{boundary.SETS} sets of processes. All on one CPU, but for `apart`, which has all.\n"
    )
    shares = Table(title=f"The boundary (goal {boundary.GOAL:.0%})", title_justify="left")
    for column in ("", "", "beside checked", "of a single set", "beside bare"):
        shares.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in told:
        shares.add_row(*row)
    console.print(shares)


def _shares(name: str, seen: boundary.Seen, of: str) -> tuple[str, ...]:
    least, most = seen.span("checked", of)
    checked, bare = (f"{seen.share(way, of):.1%}" for way in ("checked", "bare"))
    return name, of, checked, f"{least:.1%} to {most:.1%}", bare


def _held(sandbox: Sandbox, submission: Path, variant: Variant) -> Path:
    return sandbox.hold(variant.file, (submission / variant.file).read_bytes())


if __name__ == "__main__":
    main()
