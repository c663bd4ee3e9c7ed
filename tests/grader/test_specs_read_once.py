"""Specs that a process of tests parses once: no reader sees what another one has changed."""

from __future__ import annotations

import shutil

from grader import spec
from grader.spec import exercise
from tests.support import specs


def test_a_reader_that_changes_an_exercise_changes_its_own_alone():
    one = spec.load_all()
    one["silu"].belongs_to(None, "another GPU")
    one["gelu"].variants.clear()
    other = spec.load_all()
    assert other["silu"] != one["silu"] and other["gelu"].variants


def test_readers_get_what_the_files_say(tmp_path, monkeypatch):
    folder = shutil.copytree(spec.EXERCISES, tmp_path / "exercises")
    monkeypatch.setattr(specs, "EXERCISES", folder)
    assert specs._copies(folder) == exercise.load_folder(folder)
    (folder / "silu.yaml").unlink()
    assert "silu" not in specs._copies(folder)
