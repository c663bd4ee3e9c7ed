"""The cheats on the clock: files that stand by for it, and what must become of each.

They live in tests/submissions/clock/NAME.py, each a complete file for silu. As in clocked.py, the
"kernel" is a function of torch's: what cheats is what stands around it. The first line says what it
does | which line of "how kernel graders get cheated" it is | where it can be tried, `any` or `gpu`
| what must come of it:

    # It answers at once and lets a thread compute afterwards. | 2 | any | not_written

    not_written, wrong_values   the timing ends with one of these statuses
    timed                       it is timed, and gains nothing by it: on a GPU it takes no less than
                                what is honest. `timed >= 0.01` says how many seconds a call takes
    void                        none of its pairs counts
    disturbed                   it is told that a yardstick was slower beside it, or nothing is
                                measured
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.status import Status

FOLDER = Path(__file__).resolve().parents[1] / "submissions" / "clock"
OUTCOMES = ("timed", "void", "disturbed")


class CheatError(ValueError):
    """The first line of a cheat is wrong: the message names file and what was expected."""


@dataclass(frozen=True)
class Cheat:
    """One submission that tries to look faster than it is."""

    name: str
    what: str
    line: int  # of how graders get cheated, 1 to 10
    needs_gpu: bool
    outcome: str  # of OUTCOMES, or "" where it ends with a status
    statuses: frozenset[Status]
    at_least: float  # seconds that a call of it takes, where it is timed
    source: str


def load() -> list[Cheat]:
    """Every cheat, by name. Raises CheatError."""
    return [_read(path) for path in sorted(FOLDER.glob("*.py"))]


def _read(path: Path) -> Cheat:
    source = path.read_text(encoding="utf-8")
    fields = [part.strip() for part in source.partition("\n")[0].lstrip("# ").split(" | ")]
    if len(fields) != 4:
        raise CheatError(f"{path.name}: expected what | line | where | outcome, got {fields}")
    what, line, where, outcome = fields
    if not (line.isdigit() and 1 <= int(line) <= 10) or where not in ("any", "gpu"):
        raise CheatError(f"{path.name}: expected a line from 1 to 10 and any or gpu, got {fields}")
    word, _, seconds = outcome.partition(" >= ")
    try:
        given = () if word in OUTCOMES else word.split(", ")
        statuses = frozenset(map(Status, given))
        at_least = float(seconds or 0)
    except ValueError as error:
        raise CheatError(f"{path.name}: expected an outcome: {error}") from None
    word = "" if statuses else word
    return Cheat(path.stem, what, int(line), where == "gpu", word, statuses, at_least, source)
