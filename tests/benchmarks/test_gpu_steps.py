"""`make gpu` runs every test that needs a GPU."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks import gpu

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_with_a_gpu_test_is_in_one_step():
    marked = {
        path.relative_to(ROOT).as_posix()
        for folder in ("grader", "reference", "docs", "benchmarks")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
        if re.search(
            r"^\s*(@pytest\.mark\.gpu|pytestmark = .*mark\.gpu)|marks=.*mark\.gpu",
            path.read_text(),
            re.M,
        )
    }
    named = [word for step in gpu.STEPS for word in step.command if word.startswith("tests/")]
    assert marked and not marked - set(named)
    assert len(named) == len(set(named))
    assert all(Path(ROOT, word).is_file() for word in named)
