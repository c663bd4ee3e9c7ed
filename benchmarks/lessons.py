"""Points of kernels that miss a lesson, and of honest ones: prints a table of each.

    python benchmarks/lessons.py [--only TEXT] [--honest] [--jobs N]

A kernel that misses a lesson is right and does without what its variant teaches: one thread does
all, accesses aren't coalesced, a tile is read again for each row. They are the entries of
tests/submissions/wrong with `check: memory`. Each is graded without a GPU. It has to lose the
points on its use of memory; an honest submission has to keep all. Exit status 1 where one doesn't.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grader.grading.grade import grade
from grader.grading.session import Options
from grader.scoring.score import score
from grader.spec import load_all
from grader.staff.calibration import corpus
from grader.staff.calibration.corpus import Submission


@dataclass(frozen=True)
class Row:
    """What a submission earned of the points that can be had without a GPU."""

    name: str
    about: str
    memory: tuple[float, float]  # earned, and of how many
    others: tuple[float, float]

    @property
    def keeps_others(self) -> bool:
        return self.others[0] == self.others[1]

    @property
    def keeps_memory(self) -> bool:
        return self.memory[0] == self.memory[1]


def graded(submission: Submission) -> Row:
    """Grade a submission without a GPU."""
    exercises = load_all()
    name = f"{submission.exercise}/{submission.variant}"
    with tempfile.TemporaryDirectory(prefix="warpgrade-lessons-") as folder:
        (Path(folder) / submission.file).write_text(submission.text())
        observed = grade(Path(folder), exercises, Options(device="cpu"), only=[name])
    earned = {"memory": [0.0, 0.0], "others": [0.0, 0.0]}
    for exercise in score(observed, exercises).exercises:
        for variant in exercise.variants:
            for check in variant.checks:
                of = earned["memory" if check.name == "memory" else "others"]
                of[0] += check.score
                of[1] += check.gradable
    memory, others = ((round(a, 2), round(b, 2)) for a, b in earned.values())
    return Row(submission.id, submission.mistake or submission.about, memory, others)


def main() -> int:
    """Print the table; 1 where a submission has other points than it should."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="only submissions with this text in their name")
    parser.add_argument("--honest", action="store_true", help="those that keep all points")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    exercises = load_all()
    chosen = [
        each
        for language in ("triton", "cuda")
        for each in corpus.load("honest" if given.honest else "wrong", language)
        if (given.honest or each.check == "memory") and given.only in each.id
        if exercises[each.exercise].variants[each.variant].max_points  # gelu is the worked example
    ]
    rows: list[Row] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for ended in as_completed([pool.submit(graded, each) for each in chosen]):
            rows.append(ended.result())
            print(f"{len(rows)} of {len(chosen)}", end="\r", file=sys.stderr, flush=True)
    table = Table("submission", "about", "memory", "other points")
    unexpected = 0
    for row in sorted(rows, key=lambda row: row.name):
        is_right = row.keeps_memory and row.keeps_others if given.honest else not row.memory[0]
        unexpected += not is_right
        points = (f"{a:g} of {b:g}" for a, b in (row.memory, row.others))
        table.add_row(row.name + " (!)" * (not is_right), row.about, *points)
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)
    console.print(f"{len(rows) - unexpected} of {len(rows)} as they should be")
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
