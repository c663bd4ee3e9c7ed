"""docs/spec.md: its specs can be read, and what it says about them holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.cases import Space
from grader.spec import load
from grader.spec.contents import _WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "spec.md").read_text(encoding="utf-8")
SPECS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("text", SPECS, ids=lambda text: text.splitlines()[0])
def test_a_spec_of_the_page_is_read_and_drawn_from(text, tmp_path):
    path = tmp_path / "shown.yaml"
    path.write_text(text, encoding="utf-8")
    exercise = load(path)
    [variant] = exercise.variants.values()
    for size_class in exercise.sizes:
        assert Space(exercise, variant, "float32", size_class, 7).edges()


def test_the_page_has_every_word_of_values():
    assert len(SPECS) == 3
    table = PAGE.split("| `values:` |")[1].split("\n\n")[0]
    for word in _WORDS:
        assert f"`{word}`" in table
