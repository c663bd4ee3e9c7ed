"""A leaderboard: the fastest correct kernel of each person.

    python docs/examples/leaderboard.py silu/triton handins/*.py

A file's name is the person's. Without a GPU nothing is timed: everybody has points, nobody a time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import warpgrade


def rank(exercise: str, files: Sequence[Path]) -> list[tuple[str, warpgrade.CheckResult]]:
    """The correct files: those that were timed come first, the fastest at the top."""
    results = [(shown(file.stem), warpgrade.check(file, exercise)) for file in files]
    correct = [(name, result) for name, result in results if result.passed]
    return sorted(correct, key=lambda row: row[1].microseconds or float("inf"))


def shown(name: str) -> str:
    """A name without what a terminal obeys: people choose their files' names."""
    return "".join(char if char.isprintable() else "\ufffd" for char in name)


def table(rows: Sequence[tuple[str, warpgrade.CheckResult]]) -> str:
    """A line for each person, the name last: one with a time in it would look like columns."""
    lines = []
    for place, (name, result) in enumerate(rows, 1):
        time = f"{result.microseconds:.1f} us" if result.microseconds else "not timed"
        score = f"{result.score:g} of {result.max_score:g}"
        lines.append(f"{place:3} {time:>12} {score:>10}  {name}")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(f"usage: {sys.argv[0]} EXERCISE FILE...")
    try:
        print(table(rank(sys.argv[1], [Path(name) for name in sys.argv[2:]])))
    except warpgrade.Mistake as mistake:
        sys.exit(str(mistake))
