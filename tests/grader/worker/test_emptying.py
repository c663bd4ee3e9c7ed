"""A submission's folder is emptied, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grader.worker.emptying import is_emptied


def test_a_folder_is_emptied_however_deep_it_is(tmp_path: Path) -> None:
    inside = tmp_path
    for _ in range(15):
        inside /= "x" * 200
    inside.mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("/")
    assert is_emptied(str(tmp_path))
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
    assert not is_emptied(str(scratch))
    assert (outside / "file").read_text() == "kept"


def test_a_link_in_a_folders_place_is_no_empty_folder(tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", tmp_path / "link"
    outside.mkdir()
    link.symlink_to(outside)
    assert not is_emptied(str(link))


def test_what_can_not_be_removed_keeps_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "kept", "z"):
        (tmp_path / name).touch()
    unlink = os.unlink

    def refusing(name: str, **folder: int) -> None:
        if name == "kept":
            raise PermissionError
        unlink(name, **folder)

    monkeypatch.setattr(os, "unlink", refusing)
    assert not is_emptied(str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
