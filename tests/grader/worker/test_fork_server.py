"""The fork server empties a submission's folder, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.worker import fork_server


def test_a_folder_is_emptied_however_deep_it_is(tmp_path: Path) -> None:
    inside = tmp_path
    for _ in range(15):
        inside /= "x" * 200
    inside.mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("/")
    assert fork_server._is_emptied(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch, outside = tmp_path / "scratch", tmp_path / "outside"
    (scratch / "folder").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").write_text("kept")
    rename = os.rename

    def exchanged(source, target, **folders) -> None:
        """What a process of the submission may do just before."""
        (scratch / "folder").rmdir()
        (scratch / "folder").symlink_to(outside)
        rename(source, target, **folders)

    monkeypatch.setattr(os, "rename", exchanged)
    assert not fork_server._is_emptied(str(scratch))
    assert (outside / "file").read_text() == "kept"
