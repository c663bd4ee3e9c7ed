"""A control group (cgroup v2) for one submission: the kernel limits memory and processes.

Without a writable hierarchy that has the memory and pids controllers, the grader polls usage
instead (processes.py). Interface: the kernel's Documentation/admin-guide/cgroup-v2.rst.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from functools import lru_cache
from pathlib import Path

_CONTROLLERS = {"memory", "pids"}
_END_SECONDS = 5.0


class ProcessGroup:
    """A control group of a worker and its processes, which bounds their memory and number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, memory_bytes: int, processes: int) -> ProcessGroup | None:
        """A new group with these limits, or None where groups aren't available (see `why_not`)."""
        home = _home()
        if home is None:
            return None
        group = cls(home / f"warpgrade-{secrets.token_hex(8)}")
        try:
            group.folder.mkdir()
            group.bound(memory_bytes, processes)
        except OSError:
            group.close()
            return None
        return group

    def bound(self, memory_bytes: int, processes: int) -> None:
        """Set the limits. Raises OSError."""
        (self.folder / "memory.max").write_text(str(memory_bytes))
        (self.folder / "pids.max").write_text(str(processes))
        with contextlib.suppress(OSError):  # the file is missing where the kernel has no swap
            (self.folder / "memory.swap.max").write_text("0")

    def command(self, argv: list[str]) -> list[str]:
        """`argv`, started inside the group: it enters before it runs, so nothing escapes."""
        script = 'echo 0 > "$0" && unset PWD && exec "$@"'  # the shell exports it
        return ["/bin/sh", "-c", script, str(self.entrance), *argv]

    @property
    def entrance(self) -> Path:
        """The file to which a process writes 0 to enter."""
        return self.folder / "cgroup.procs"

    def times_out_of_memory(self) -> int:
        """How many processes the kernel has killed here for lack of memory."""
        with contextlib.suppress(OSError, ValueError):
            for line in (self.folder / "memory.events").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        return 0

    def is_empty(self) -> bool:
        with contextlib.suppress(OSError):
            return not (self.folder / "cgroup.procs").read_text().split()
        return True

    def end(self) -> None:
        """Kill everything in the group at once."""
        with contextlib.suppress(OSError):  # Linux 5.14; before, the grader kills each process
            (self.folder / "cgroup.kill").write_text("1")

    def close(self) -> None:
        """End its processes and remove it."""
        deadline = time.monotonic() + _END_SECONDS
        self.end()
        while not self.is_empty() and time.monotonic() < deadline:
            time.sleep(0.005)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


@lru_cache(maxsize=1)
def why_not() -> str:
    """Why control groups aren't available here, in a few words; "" where they are."""
    if _mount_point() is None:
        return "no cgroup v2"
    if _home() is None:
        return "no cgroup v2 that may be written to"
    return ""


def _mount_point() -> Path | None:
    """The mount point of a cgroup v2 hierarchy with the needed controllers."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text().splitlines():
            fields = line.split()
            if fields[2] == "cgroup2" and _has_controllers(Path(fields[1]), "cgroup.controllers"):
                return Path(fields[1])
    return None


@lru_cache(maxsize=1)
def _home() -> Path | None:
    """The parent of new groups: this process's group or the nearest one above that allows it."""
    root = _mount_point()
    own = _own_group()
    if root is None or own is None:
        return None
    here = root / own.lstrip("/")
    for folder in (here, *here.parents):
        if not folder.is_relative_to(root):
            break
        if _has_controllers(folder, "cgroup.subtree_control") and _allows(folder):
            return folder
    return None


def _own_group() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return line[3:]
    return None


def _has_controllers(folder: Path, file: str) -> bool:
    try:
        return set((folder / file).read_text().split()) >= _CONTROLLERS
    except OSError:
        return False


def _allows(folder: Path) -> bool:
    """Whether a group can be made there and a process put in it, tested by doing so."""
    trial = folder / f"warpgrade-{secrets.token_hex(8)}"
    try:
        trial.mkdir()
    except OSError:
        return False
    try:
        return os.access(folder / "cgroup.procs", os.W_OK) and _takes_a_process(trial)
    finally:
        with contextlib.suppress(OSError):
            trial.rmdir()


def _takes_a_process(folder: Path) -> bool:
    """Whether a child process may enter the group."""
    line = ProcessGroup(folder).command(["/bin/sh", "-c", ":"])
    try:
        return subprocess.run(line, capture_output=True, timeout=_END_SECONDS).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
