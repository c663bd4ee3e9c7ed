"""Times each variant of the solutions without a GPU, all its cases one after another.

    python benchmarks/variants.py OUT [--checkout FOLDER] [--only NAME]... [--rounds N]
    python benchmarks/variants.py --compare OLD NEW

OUT is JSON: for each variant the least seconds of the rounds, and the number of cases. `--checkout`
names another working tree (of an older commit, for example), whose grader and solutions are used.
`--compare` has exit status 1 where a variant of NEW takes longer than in OLD.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Measure or compare; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", nargs="?", type=Path, metavar="OUT")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"))
    parser.add_argument("--checkout", type=Path, default=ROOT)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    if given.compare:
        return compare(*(json.loads(path.read_text()) for path in given.compare))
    if given.out is None:
        parser.error("expected OUT, or --compare OLD NEW")
    folder = str(given.checkout.resolve())
    sys.path[:] = [folder, *(path for path in sys.path if path != folder)]
    os.environ["PYTHONPATH"] = folder
    rounds = [measured(Path(folder), given.only) for _ in range(given.rounds)]
    least = {
        name: min((each[name] for each in rounds), key=lambda found: found["seconds"])
        for name in rounds[0]
    }
    given.out.write_text(json.dumps(least, indent=1))
    return 0


def measured(folder: Path, only: list[str]) -> dict[str, dict[str, float]]:
    """Seconds and cases of each variant of the solutions in a working tree."""
    from grader.grading.check import check
    from grader.grading.session import Options, Session, selected
    from grader.spec import load_all

    exercises = load_all()
    found = {}
    with Session(folder / "reference", exercises, Options(device="cpu")) as session:
        for task in selected(exercises, only):
            parts = check(session, task).parts
            wrong = [part for part in parts if part.status.value != "passed"]
            if wrong:
                raise SystemExit(f"{task}: {wrong[0]}")
            name = str(task)
            seconds = sum(part.seconds for part in parts)
            found[name] = {"seconds": seconds, "cases": sum(part.cases_run for part in parts)}
            print(f"{name:28} {seconds:6.2f} s {found[name]['cases']:5} cases", flush=True)
    return found


def compare(old: dict, new: dict) -> int:
    """Print both with their ratio; 1 where a variant takes longer now."""
    table = Table("variant", "old s", "new s", "new / old", "cases old", "cases new")
    for name in sorted(old.keys() & new.keys()):
        before, after = old[name], new[name]
        ratio = after["seconds"] / before["seconds"]
        table.add_row(
            name,
            *(f"{before['seconds']:.2f}", f"{after['seconds']:.2f}", f"{ratio:.2f}"),
            *(str(before["cases"]), str(after["cases"])),
            style="red" if ratio > 1 else "",
        )
    Console(width=100).print(table)
    return int(any(new[name]["seconds"] > old[name]["seconds"] for name in old.keys() & new.keys()))


if __name__ == "__main__":
    sys.exit(main())
