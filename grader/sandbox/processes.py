"""The processes behind a worker: found, measured and ended.

A worker can leave its session, its parent and its environment, but not the "no new privileges" flag
of prctl(2), which the fork server sets first. The flag distinguishes a submission's orphans from
the grader's own children. Other facts are from proc(5).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import psutil

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")
_ROUNDS = 50  # of killing: a process forked meanwhile is found in the next one
_ROUND_SECONDS = 0.2  # in which a round's processes have to end

_HAS_LISTS = Path(f"/proc/self/task/{os.getpid()}/children").exists()

FindProcesses = Callable[[], list[psutil.Process]]


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process, so that they can be ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def below(pid: int) -> list[psutil.Process]:
    """All descendants of a process, including zombies; none where it is gone.

    From the kernel's lists of children, or else from all processes. A number of a list counts while
    its process has that parent: where a submission forks without pause, it may soon be another's.
    """
    if not _HAS_LISTS:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(pid).children(recursive=True)
    descendants: list[psutil.Process] = []
    for child in children(pid):
        with contextlib.suppress(psutil.Error):  # it has ended meanwhile
            process = psutil.Process(child)
            if process.ppid() == pid:
                descendants += [process, *below(child)]
    return descendants


def children(pid: int) -> list[int]:
    """The children of a process from the kernel's list; none where it keeps no list."""
    pids: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (called for every worker)
            with open(f"/proc/{pid}/task/{task}/children") as file:  # noqa: PTH123
                pids += map(int, file.read().split())
    except (OSError, ValueError):
        pass
    return pids


def without(
    every: list[psutil.Process], roots: Iterable[psutil.Process | int]
) -> list[psutil.Process]:
    """`every` without some processes and their descendants."""
    for root in roots:
        pid = root if isinstance(root, int) else root.pid
        theirs = {pid, *(each.pid for each in below(pid))}
        every = [each for each in every if each.pid not in theirs]
    return every


def is_child(pid: int, parent: int) -> bool:
    """Whether `pid` is, or was until a moment ago, a child of `parent`: no other process."""
    if pid <= 1:
        return False
    try:
        return psutil.Process(pid).ppid() == parent
    except psutil.Error:
        return True  # it has ended and has no parent


def end(find: FindProcesses) -> None:
    """Kill what `find` returns, until it twice returns nothing alive.

    Once is not enough: if a parent ends while processes are listed, its child is listed below
    neither the old nor the new parent.
    """
    is_second = False
    for _ in range(_ROUNDS):
        alive = [process for process in find() if is_alive(process)]
        if not alive and is_second:
            return
        is_second = not alive
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        try:
            psutil.wait_procs(alive, timeout=_ROUND_SECONDS)
        except OSError:  # psutil doesn't expect newer kernels' errors, and hasn't waited for others
            time.sleep(_ROUND_SECONDS / 10)


def end_adopted(home: str, spare: Collection[int]) -> None:
    """Kill and reap the orphans of a submission that have become this process's children.

    `spare` are the fork servers in use. Where this process has the flag itself, orphans are
    recognised by their HOME.
    """
    for _ in range(_ROUNDS):
        orphans = [
            child
            for child in psutil.Process().children()
            if child.pid not in spare and _is_of_a_submission(child.pid, home)
        ]
        if not orphans:
            return
        for orphan in orphans:
            with contextlib.suppress(psutil.Error):
                orphan.kill()
            with contextlib.suppress(psutil.Error):
                orphan.wait(1.0)  # this process then adopts its children: the next round's


class Usage:
    """CPU time, memory and processes of a worker and its descendants since a request.

    `others` finds the processes besides the worker.
    """

    def __init__(self, pid: int, others: FindProcesses) -> None:
        self._pid = pid
        self._others = others
        self._began = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)
        # One system call: most requests are answered before the first check.
        self._clock_before = _clock_of(pid)
        self._before: dict[int, float] = {}  # CPU seconds of processes older than the request

    def now(self) -> tuple[float, int, int]:
        """CPU seconds since the request was sent; current resident bytes and processes.

        A process that has ended, and that nobody has reaped yet, has no memory and isn't counted.
        """
        if self._pid not in self._before:
            # CPU time of children that it waited for before the first check counts as older.
            since = _clock_of(self._pid) - self._clock_before
            self._before[self._pid] = _cpu_and_start(self._pid)[0] - since
        cpu, memory, alive = 0.0, 0, 0
        pids = [self._pid, *(each.pid for each in self._others())]
        for pid in pids:
            used, start = _cpu_and_start(pid)
            # An older process that was unknown when the request was sent counts from now on.
            cpu += used - self._before.setdefault(pid, used if start < self._began else 0.0)
            resident = _resident_bytes(pid)
            memory, alive = memory + resident, alive + bool(resident)
        return cpu, memory, alive


def _clock_of(pid: int) -> float:
    """CPU seconds of a process without its children; 0.0 where it has ended."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # CPUCLOCK_SCHED: see clock_getcpuclockid(3)
    except OSError:
        return 0.0


def _cpu_and_start(pid: int) -> tuple[float, int]:
    """CPU seconds of a process and the children it waited for; its start in ticks since boot."""
    try:
        stat = os.open(f"/proc/{pid}/stat", os.O_RDONLY)
    except OSError:
        return 0.0, 0
    try:
        fields = os.read(stat, 4096).rpartition(b")")[2].split()
    except OSError:
        return 0.0, 0
    finally:
        os.close(stat)
    return sum(map(int, fields[11:15])) / _TICKS, int(fields[19])


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def is_alive(process: psutil.Process) -> bool:
    """Whether a process is there and has not ended: one that its parent hasn't reaped has."""
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _is_of_a_submission(pid: int, home: str) -> bool:
    if not _is_marked("self"):
        return _is_marked(pid)
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).environ().get("HOME") == home
    return False


def _is_marked(pid: int | str) -> bool:
    try:
        return "\nNoNewPrivs:\t1\n" in Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return False
