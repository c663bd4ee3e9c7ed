"""The cheats on the clock: files that would look faster than they are, and their expected results.

They are in tests/submissions/clock/, each a complete file of a submission. The first line has what
it does | the line of "how kernel graders get cheated" | the variant it is handed in for | its
status by plan | and, where that isn't a fault, its result under a GPU's clock:

    # It keeps results and gives them out again. | 6 | silu/triton | passed | timed

By plan it gets a status: of a small case, without a GPU. The clock is given the plan of its host
code for a large case. There it ends with one of the statuses, or it is

    timed    and takes no less time than honest code
    slow     timed once, and so slow that no threshold is near

`timed, crashed` means one of the two. Cheats by host code that computes with PyTorch are refused by
the rules on plans. Those files are run all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.spec import Exercise, Variant, load_all
from grader.spec.task import Task
from grader.status import Status

FOLDER = Path(__file__).resolve().parents[1] / "submissions" / "clock"
EXERCISES = load_all()
SUFFIXES = {".py": "triton", ".cu": "cuda"}
TIMED, SLOW = "timed", "slow"
UNDECIDED = frozenset({Status.passed, Status.not_measured})  # by plan: a GPU may decide more


class CheatError(ValueError):
    """The first line of a cheat is wrong: the message names file and what was expected."""


@dataclass(frozen=True)
class Cheat:
    """One submission that tries to look faster than it is."""

    name: str
    what: str
    line: int  # of how graders get cheated, 1 to 10
    exercise: Exercise
    variant: Variant
    by_plan: frozenset[Status]
    on_gpu: frozenset[str]  # statuses, TIMED, SLOW; none where the plan decides
    source: bytes

    @property
    def key(self) -> str:
        """Its name among all of them."""
        return f"{self.name}_{self.variant.language}"

    @property
    def task(self) -> Task:
        """What it cheats in."""
        return Task(self.exercise, self.variant)


def load() -> list[Cheat]:
    """Every cheat, by name. Raises CheatError."""
    return [_read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in SUFFIXES]


def _read(path: Path) -> Cheat:
    source = path.read_bytes()
    first = source.decode("utf-8").partition("\n")[0]
    fields = [part.strip() for part in first.lstrip("#/ ").split(" | ")]
    if len(fields) not in (4, 5):
        raise CheatError(f"{path.name}: expected what | line | variant | by plan | on a GPU")
    what, line, name, by_plan, *on_gpu = fields
    try:
        exercise_name, variant_name = name.split("/")
        exercise = EXERCISES[exercise_name]
        variant = exercise.variants[variant_name]
        statuses = frozenset(map(Status, by_plan.split(", ")))
        outcomes = frozenset(on_gpu[0].split(", ") if on_gpu else ())
        for each in outcomes - {TIMED, SLOW}:
            Status(each)
    except (KeyError, ValueError) as error:
        raise CheatError(f"{path.name}: expected a variant, a status, outcomes: {error}") from None
    if not (line.isdigit() and 1 <= int(line) <= 10):
        raise CheatError(f"{path.name}: expected a line from 1 to 10, got {line}")
    if variant.language != SUFFIXES[path.suffix] or (statuses <= UNDECIDED) != bool(outcomes):
        raise CheatError(f"{path.name}: expected the suffix of {name}, and what a GPU shows of it")
    return Cheat(path.stem, what, int(line), exercise, variant, statuses, outcomes, source)
