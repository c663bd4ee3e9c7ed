"""Grades one class on this machine's GPUs by several checkouts in turn, and compares points.

    python benchmarks/class_on_gpu.py [CHECKOUT]... [--n 30] [--rounds 2] [--gpus 0,1]
        [--out FOLDER]

Makes one synthetic class (tests/support/synthetic_class.py). In each round every CHECKOUT, this one
by default, grades it with `grader batch` into a new folder of OUT. A line tells its wall seconds,
the files whose speed was measured, and those of which it wasn't although they are right, with the
reasons. The last lines tell which students' points differ between two runs.

Exit status 1 where a run fails, a right file's speed isn't measured, or points differ.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXERCISES = ("silu", "rmsnorm", "softmax")
VARIANT = "triton"
CLASS_SEED, SEED = "1", "7"
POINTS = ("score", "gradable", "bonus")  # columns of gradebook.csv


@dataclass(frozen=True)
class Run:
    """A graded class: wall seconds, files with a measured speed, reasons for none, and points."""

    name: str
    seconds: float
    measured: int
    unmeasured: Counter[str]
    points: dict[str, tuple[str, ...]]  # by student

    def __str__(self) -> str:
        told = "".join(f"\n    {count} x {why}" for why, count in self.unmeasured.items())
        missing = self.unmeasured.total()
        return f"{self.name}: {self.seconds:.1f} s, {self.measured} timed, {missing} not{told}"


def main() -> None:
    """Print a line per run, and the differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[ROOT])
    parser.add_argument("--n", type=int, default=30, help="students")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--gpus", help="as grader batch --gpus")
    parser.add_argument("--out", type=Path, help="a folder for the results, which are else removed")
    given = parser.parse_args()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="warpgrade-class-") as scratch:
        out = (given.out or Path(scratch)).resolve()
        out.mkdir(parents=True, exist_ok=True)
        made = made_class(Path(scratch) / "class", given.n)
        for turn in range(given.rounds):
            for checkout in given.checkouts:
                name = f"{checkout.resolve().name}-{turn + 1}"
                runs.append(graded(checkout.resolve(), made, out / name, given.gpus))
                print(runs[-1], flush=True)
    differing = [line for other in runs[1:] for line in differences(runs[0], other)]
    print("\n".join(differing) or "All runs gave the same points.")
    raise SystemExit(int(bool(differing) or any(each.unmeasured for each in runs)))


def made_class(folder: Path, students: int) -> Path:
    """A synthetic class of so many students, in this folder."""
    line = [sys.executable, "-m", "tests.support.synthetic_class", str(folder), "--n"]
    line += [str(students), "--seed", CLASS_SEED, "--only", *EXERCISES]
    subprocess.run(line, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return folder


def graded(checkout: Path, made: Path, out: Path, gpus: str | None) -> Run:
    """The class as a checkout grades it."""
    only = [word for name in EXERCISES for word in ("--only", f"{name}/{VARIANT}")]
    line = [sys.executable, "-m", "grader", "batch", str(made / "submissions"), "--out", str(out)]
    line += ["--plain", "--roster", str(made / "roster.csv"), "--seed", SEED, *only]
    line += ["--gpus", gpus] if gpus else []
    started = time.monotonic()
    told = subprocess.run(
        line,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - started
    if told.returncode:
        raise SystemExit(f"{' '.join(line)}: exit status {told.returncode}\n{told.stdout[-2000:]}")
    measured, unmeasured = speeds(out / "class.sqlite")
    return Run(out.name, seconds, measured, unmeasured, points(out / "gradebook.csv"))


def speeds(store: Path) -> tuple[int, Counter[str]]:
    """Files whose speed was measured, and the reasons of those right ones of which it wasn't."""
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT evidence FROM results WHERE superseded IS NULL").fetchall()
    measured, unmeasured = 0, Counter[str]()
    for (text,) in rows:
        seen = json.loads(text)
        timed = seen.get("performance")
        if timed is None:
            continue
        cases = [timed, *timed.get("further", ())]
        reasons = [case["reason"] for case in cases if case["status"] == "not_measured"]
        if reasons:
            unmeasured[f"{seen['exercise']}/{seen['variant']}: {reasons[0]}"] += 1
        else:
            measured += 1
    return measured, unmeasured


def points(gradebook: Path) -> dict[str, tuple[str, ...]]:
    """What each student has, by id."""
    with gradebook.open(encoding="utf-8", newline="") as file:
        return {row["id"]: tuple(row[name] for name in POINTS) for row in csv.DictReader(file)}


def differences(one: Run, other: Run) -> list[str]:
    """A line per student whose points differ between two runs."""
    return [
        f"{student}: {_words(one, student)}, {_words(other, student)}"
        for student in sorted({*one.points, *other.points})
        if one.points.get(student) != other.points.get(student)
    ]


def _words(run: Run, student: str) -> str:
    had = dict(zip(POINTS, run.points.get(student, ()), strict=False))
    return f"{run.name} " + " ".join(f"{name} {value or 'none'}" for name, value in had.items())


if __name__ == "__main__":
    main()
