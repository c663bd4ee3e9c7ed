"""A submission's scratch folder: measured without trust, removed whatever was made of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grader.sandbox import scratch
from grader.sandbox.scratch import is_larger_than, remove_tree


def test_bytes_on_disk_count_through_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"x" * 100_000)
    assert is_larger_than(tmp_path, 90_000)
    assert not is_larger_than(tmp_path, 1_000_000)


def test_what_a_link_leads_to_does_not_count(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"x" * 100_000)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    assert not is_larger_than(inside, 90_000)


def test_many_empty_files_are_too_much(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(scratch, "MOST_ENTRIES", 20)
    for index in range(20):
        (tmp_path / str(index)).touch()
    assert not is_larger_than(tmp_path, 1 << 30)
    (tmp_path / "one_more").touch()
    assert is_larger_than(tmp_path, 1 << 30)


def test_a_folder_of_more_entries_than_are_counted_is_removed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(scratch, "MOST_ENTRIES", 20)
    folder = tmp_path / "scratch"
    folder.mkdir()
    for index in range(100):
        (folder / str(index)).touch()
    remove_tree(str(folder))
    assert not folder.exists()


def test_a_folder_that_is_exchanged_for_a_link_is_not_followed(tmp_path: Path, monkeypatch) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    outside.chmod(0o755)
    (tmp_path / "scratch" / "inner").mkdir(parents=True)
    rename = os.rename

    def exchanging(source: str, target: str, **folders: int) -> None:
        rename(source, target, **folders)
        (moved,) = (tmp_path / "scratch").iterdir()
        moved.rmdir()
        moved.symlink_to(outside)

    monkeypatch.setattr(os, "rename", exchanging)
    remove_tree(str(tmp_path / "scratch"))
    assert (outside / "kept").exists()
    assert outside.stat().st_mode & 0o777 == 0o755


def test_folders_without_permissions_are_removed_at_any_depth(tmp_path: Path) -> None:
    code = """
import os, sys
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
for _ in range(1500):
    os.mkdir("x" * 100); os.chdir("x" * 100)
open("file", "w").close()
for _ in range(1500):
    os.chdir(".."); os.chmod("x" * 100, 0)
"""
    folder = tmp_path / "scratch"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    remove_tree(str(folder))
    assert not folder.exists()
