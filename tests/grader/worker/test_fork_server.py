"""The fork server empties a submission's folder and nothing else, and waits for room to fork."""

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


def test_a_fork_waits_until_processes_that_have_ended_are_reaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zombies = [1, 2, 3]

    def fork() -> int:
        if zombies:
            raise BlockingIOError
        return 17

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(fork_server, "_REAP_MILLISECONDS", 1)
    assert fork_server._forked(zombies.pop) == 17


def test_a_fork_for_which_there_is_never_room_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fork() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(fork_server, "_REAP_MILLISECONDS", 0)
    with pytest.raises(BlockingIOError):
        fork_server._forked(lambda: None)
