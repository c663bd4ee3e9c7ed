"""Attacks as hand-ins of a class, their rules lifted, so that they run: none gains, none does harm.

What each layer holds by itself is shown in test_attacks.py, archives in test_archives.py; here a
class is graded with attacks between two honest hand-ins, in one process, which keeps sandboxes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from grader.batch.course.records import Entry
from grader.batch.store.store import NAME
from grader.batch.tasks import grade_in_pool
from grader.grading import kept_sandboxes
from grader.sandbox import confinement
from grader.sandbox.confinement import Level
from grader.status import Status
from tests.support import attacks
from tests.support.attacking import ESCAPED
from tests.support.attacks import Layer
from tests.support.canaries import Canaries
from tests.support.small_exercise import BRIEF, RIGHT, submission, write_spec
from tests.support.standin import grade_class

ATTACKS = {
    "brings files named like the grader's": "shadows_modules",
    "overwrites spec, comparison and results": "overwrites_the_grader",
    "prints a verdict": "prints_a_verdict",
    "exits in the middle": "exits_quietly",
    "forks without end": "forks_without_end",
    "floods the disk": "floods_the_disk",
    "reads other submissions": "reads_other_submissions",
    "cuts the shared memory short": "output_truncated",
    "leaves code for the next submission": "poisons_a_cache",
}
HONEST = ("ada", "zoe")  # graded before and after
HARD = (Level.bubblewrap, Level.landlock)
# Which limit is met first, of memory or of the number of processes, depends on the machine's speed.
BY_SPEED = {"forks_without_end": (Status.out_of_memory, Status.crashed)}


@dataclass
class Graded:
    """The class after it was graded, with what was touched that must not be."""

    rows: dict[str, Entry]
    out: Path
    canaries: Canaries
    touched: list[str]


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Iterator[Graded]:
    if not any(each.works for each in confinement.probe("cpu") if each.level in HARD):
        pytest.skip("neither bubblewrap nor Landlock here")
    folder = tmp_path_factory.mktemp("class")
    exercises = write_spec(folder / "specs")
    by_name = {each.name: each for each in attacks.load("triton")}
    course = folder / "course.yaml"
    course.write_text("lifted: [silu/triton]\n")
    with Canaries() as canaries:
        for name in HONEST:
            submission(folder / "source" / name, RIGHT + f"\n# {name}\n")
        for name in ATTACKS.values():
            by_name[name].write(folder / "source" / name, canaries.known)
        _, book = grade_class(
            folder / "source",
            folder / "out",
            exercises,
            course=course,
            function=grade_in_pool,
            effort=replace(BRIEF, shrink_runs=3, shrink_seconds=1.0, compile_ahead=False),
        )
        for sandbox in kept_sandboxes._emptied.values():  # all that is left then is an attack's
            sandbox.close()
        kept_sandboxes._emptied.clear()
        rows = {entry.student.id: entry for entry in book.entries}
        yield Graded(rows, folder / "out", canaries, canaries.touched())


@pytest.mark.parametrize("name", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_is_a_row_like_any_other_and_gains_nothing(graded: Graded, name: str) -> None:
    entry = graded.rows[name]
    attack = next(each for each in attacks.load("triton") if each.name == name)
    [seen] = entry.counted.evidence.variants
    expected = attack.layers.get(Layer.sandbox)
    assert seen.correctness in BY_SPEED.get(name, (expected or seen.correctness,))
    assert seen.correctness not in (Status.grader_error, Status.not_measured)
    # What only reaches for more than is its own computes honestly beside that.
    if Layer.sandbox not in attack.layers or seen.correctness is not Status.passed:
        assert entry.score == 0
    text = "".join(part.failures[0].detail + part.failures[0].what for part in seen.parts
                   if part.failures)  # fmt: skip
    assert ESCAPED not in text


@pytest.mark.parametrize("name", HONEST)
def test_who_is_graded_beside_them_has_full_marks(graded: Graded, name: str) -> None:
    assert graded.rows[name].score == 3
    assert graded.rows[name].waiting == ()


def test_nothing_outside_was_reached_and_no_secret_is_in_the_results(graded: Graded) -> None:
    assert graded.touched == []
    for path in graded.out.rglob("*"):
        if path.is_file():
            assert graded.canaries.token.encode() not in path.read_bytes(), path


def test_files_that_no_exercise_names_are_neither_kept_nor_run(graded: Graded) -> None:
    with sqlite3.connect(graded.out / NAME) as store:
        names = {name for (name,) in store.execute("SELECT DISTINCT name FROM files")}
    assert names == {"silu.py"}
    notes = " ".join(graded.rows["shadows_modules"].counted.handin.notes)
    for name in ("conftest.py", "sitecustomize.py", "torch.py", "grader.py"):
        assert name in notes


def test_files_of_whoever_grades_are_out_of_a_hand_ins_reach(tmp_path, monkeypatch) -> None:
    """A folder assignment/ with a solution often lies where a class is graded."""
    exercises = write_spec(tmp_path / "specs")
    submission(tmp_path / "assignment")
    (tmp_path / "assignment" / "silu.py").rename(tmp_path / "assignment" / "solved.py")
    submission(tmp_path / "source" / "eve", "from solved import silu, silu_kernel, tl, triton\n")
    monkeypatch.chdir(tmp_path)
    _, book = grade_class(
        tmp_path / "source", tmp_path / "out", exercises, require_sandbox=False, effort=BRIEF
    )
    [entry] = book.entries
    assert entry.score == 0
    [part, *_] = entry.counted.evidence.variants[0].parts
    assert "No module named 'solved'" in part.failures[0].what
