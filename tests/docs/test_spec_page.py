"""docs/spec.md: its specs can be read, and what it says about them holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from grader.cases import Space
from grader.spec import Memory, Performance, Variant, load
from grader.spec.blocks import Pattern, Threshold
from grader.spec.contents import _WORDS
from grader.spec.task import Task
from grader.staff.calibration.corpus import Submission
from grader.status import Status

PAGE = (Path(__file__).parents[2] / "docs" / "spec.md").read_text(encoding="utf-8")
SPECS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", SPECS, ids=lambda text: text.splitlines()[0])
def test_a_spec_of_the_page_is_read_and_drawn_from(text, tmp_path):
    path = tmp_path / "shown.yaml"
    path.write_text(text, encoding="utf-8")
    exercise = load(path)
    [variant] = exercise.variants.values()
    for size_class in exercise.sizes:
        assert Space(Task(exercise, variant), "float32", size_class, 7).edges()


def test_the_page_has_every_word_of_values():
    assert len(SPECS) == 3
    table = PAGE.split("| `values:` |")[1].split("\n\n")[0]
    for word in _WORDS:
        assert f"`{word}`" in table


def first_column(heading: str) -> list[str]:
    """The names in the first column of the table whose heading begins so, in order."""
    rows = PAGE.split(f"\n{heading}")[1].split("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


# Those that the entry's file says.
SET_BY_LOAD = {"kind", "exercise", "reference"}


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        # `entry` of several dtypes is read as `entries`.
        ("| key of a variant |", {*Variant.model_fields} - {"name", "entries"}),
        ("| key | for | what is bounded |", {*Memory.model_fields}),
        ("| `data:` |", {*get_args(Pattern)}),
        ("| field | in |", {*Submission.model_fields} - SET_BY_LOAD),
    ],
)
def test_a_table_has_every_name_of_the_code_once(heading, names):
    column = first_column(heading)
    assert sorted(column) == sorted(names)


def test_the_statuses_of_wrong_submissions_are_those_of_the_grader_in_its_order():
    assert first_column("| `status:` |") == [each.value for each in Status if each.is_failure]


def test_the_page_names_what_performance_has():
    section = PAGE.split("\n`performance` has")[1].split("\nA bound is")[0]
    for name in ({*Performance.model_fields} - {"by_gpu"}) | {*Threshold.model_fields}:
        assert re.search(rf"\b{name.rstrip('_')}\b", section), name
