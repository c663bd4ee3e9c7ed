"""Reads a file that a user names: a course's, a roster, evidence, plans, readings."""

import os
import stat
from pathlib import Path

from grader.mistakes import Mistake


def content(path: Path, most_bytes: int) -> bytes:
    """A regular file's bytes. Raises Mistake: a pipe or a device may have no end."""
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode):
                data = file.read(most_bytes + 1)
                if len(data) <= most_bytes:
                    return data
                why = f"expected at most {most_bytes >> 20} MiB"
            else:
                why = "can't be read: expected a file, got a pipe or a device"
    except OSError as error:
        why = f"can't be read: {error.strerror}"
    raise Mistake(f"{path}: {why}")


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to is opened at once."""
    return os.open(path, flags | os.O_NONBLOCK)
