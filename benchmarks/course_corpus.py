"""Every solution, stub, wrong and honest submission of a course, graded once: one table.

    python benchmarks/course_corpus.py [courses/kernels2] [--only TEXT]... [--out FILE.json]

A solution must earn everything that can be graded here, a stub nothing. A wrong submission must
fail in the parts that its entry says, an honest one in none. The exit status is the number of
submissions of which that doesn't hold, at most 99.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import course_corpus  # noqa: E402


def main() -> int:
    """Grade what is named, print the table; the number of surprises."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("course", nargs="?", type=Path, default=ROOT / "courses" / "kernels2")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table("submission", "of", "must be", "was", "s")
    rows, surprises = [], 0
    with tempfile.TemporaryDirectory(prefix="warpgrade-course-") as folder:
        for each in course_corpus.every(given.course):
            if not all(text in each.name for text in given.only):
                continue
            started = time.monotonic()
            result = each.run(Path(folder) / each.name.replace("/", "-"))
            seconds = time.monotonic() - started
            surprises += bool(result.trouble)
            was = result.trouble.partition("\n")[0] or result.was
            table.add_row(each.name, each.about, each.wanted, was, f"{seconds:.0f}")
            rows.append({"name": each.name, "wanted": each.wanted, "was": was, "seconds": seconds})
            if result.trouble:
                console.print(f"[red]{each.name}[/]: {result.trouble}", highlight=False)
    console.print(table)
    console.print(f"{len(rows) - surprises} of {len(rows)} as expected")
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return min(surprises, 99)


if __name__ == "__main__":
    sys.exit(main())
