"""A submission's scratch folder: measured without trust, removed whatever was made of it."""

from __future__ import annotations

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
