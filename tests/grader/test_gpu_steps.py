"""`make gpu` runs every test that needs a GPU."""

from __future__ import annotations

import re
from pathlib import Path

from tests.benchmarks import gpu

HERE = Path(__file__).parent


def test_every_file_with_a_gpu_test_is_in_one_step():
    marked = {
        f"tests/grader/{path.name}"
        for path in HERE.glob("test_*.py")
        if re.search(
            r"^\s*(@pytest\.mark\.gpu|pytestmark = .*mark\.gpu)|marks=.*mark\.gpu",
            path.read_text(),
            re.M,
        )
    }
    named = [
        word for step in gpu.STEPS for word in step.command if word.startswith("tests/grader/")
    ]
    assert marked and not marked - set(named)
    assert len(named) == len(set(named))
    assert all(Path(HERE.parents[1], word).is_file() for word in named)
