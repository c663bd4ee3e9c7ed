"""The lecture's comparisons as tables of handout.md, from what `make lecture` left.

    python -m lecture.handout results/lecture/lecture.json [--handout FILE]

A table stands between `<!-- lecture: STEM -->` and `<!-- /lecture -->`, and is replaced; one whose
comparison wasn't made keeps what it has. Medians only: the intervals are in STEM.md.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grader.report.performance import duration

HANDOUT = Path(__file__).resolve().parents[1] / "handout.md"
PART = re.compile(r"<!-- lecture: (\w+) -->\n.*?<!-- /lecture -->", re.DOTALL)


def written(text: str, left: dict[str, Any]) -> str:
    """The handout with its tables brought up to date. Raises KeyError, TypeError."""
    tables = {each["stem"]: table(each, left["device"]) for each in left["comparisons"]}

    def part(found: re.Match[str]) -> str:
        made = tables.get(found[1])
        return f"<!-- lecture: {found[1]} -->\n{made}\n<!-- /lecture -->" if made else found[0]

    return PART.sub(part, text)


def table(comparison: dict[str, Any], device: str) -> str:
    """One of Markdown: a row for each size, a column for each line."""
    timings = comparison["timings"]
    times = {(each["x"], each["line"]): each["microseconds"]["median"] for each in timings}
    names = list(dict.fromkeys(each["line"] for each in timings))
    rows = [[comparison["x_name"], *names], ["--:"] * (1 + len(names))]
    for x in dict.fromkeys(each["x"] for each in timings):
        took = (times.get((x, name)) for name in names)
        rows.append([str(x), *("-" if each is None else duration(each) for each in took)])
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{comparison['title']}** on {device}:\n\n{lines}"


def main(words: Sequence[str] | None = None) -> None:
    """Rewrite the handout."""
    parser = argparse.ArgumentParser(prog="python -m lecture.handout", description=__doc__)
    parser.add_argument("left", type=Path, metavar="LECTURE.JSON")
    parser.add_argument("--handout", type=Path, default=HANDOUT)
    given = parser.parse_args(words)
    try:
        left = json.loads(given.left.read_text(encoding="utf-8"))
        text = written(given.handout.read_text(encoding="utf-8"), left)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except (ValueError, KeyError, TypeError) as error:
        parser.error(f"{given.left}: expected what `make lecture` leaves, got {error!r}")
    given.handout.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
