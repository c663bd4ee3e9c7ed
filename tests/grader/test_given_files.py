"""Files that a command is given: one that can't be read is a mistake, and none is waited for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from grader import evidence
from grader.batch.course import roster
from grader.executors.gpu import bundle
from grader.given_files import content
from grader.mistakes import Mistake
from grader.spec.document import read_document
from grader.staff.calibration import readings

READERS = [evidence.read, bundle.read, readings.read, roster.load, read_document]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A pipe that ends, with nothing in it, where somebody waits for it for 5 s."""
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    ending = threading.Timer(5, lambda: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)))
    ending.start()
    yield path
    ending.cancel()


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__module__)
def test_a_pipe_is_not_waited_for(read: Callable[[Path], Any], pipe: Path) -> None:
    with pytest.raises(Mistake, match=r"pipe\.csv: can't be read: expected a file, got a pipe"):
        read(pipe)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__module__)
def test_no_more_of_a_file_is_read_than_it_may_have(
    read: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "large.csv"
    path.touch()
    os.truncate(path, 1 << 33)
    with pytest.raises(Mistake, match=r"large\.csv: expected at most \d+ MiB"):
        read(path)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda path: path.mkdir(), "can't be read: Is a directory"),
        (lambda path: path.symlink_to(path), "can't be read: Too many levels of symbolic links"),
        (lambda path: path.symlink_to("/dev/zero"), "got a pipe or a device"),
        (lambda path: None, "can't be read: No such file or directory"),
    ],
)
def test_what_is_no_file_is_named(made: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    made(tmp_path / "given")
    with pytest.raises(Mistake, match=f"given: .*{why}"):
        content(tmp_path / "given", 10)


def test_a_file_of_the_greatest_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "given").write_bytes(b"x" * 10)
    assert content(tmp_path / "given", 10) == b"x" * 10
