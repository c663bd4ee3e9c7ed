"""A fork server's memory is gathered into huge pages while nothing is asked of it."""

from __future__ import annotations

import platform
import time
from pathlib import Path

import pytest

from grader.sandbox import Sandbox
from grader.sandbox.worker_process import Limits
from grader.worker import huge_pages

HUGE = "AnonHugePages"


def kilobytes(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def test_an_idle_fork_server_gathers_its_memory_and_still_forks():
    if tuple(map(int, platform.release().split(".")[:2])) < (6, 1):
        pytest.skip("needs Linux 6.1")
    with Sandbox(kind="plans") as sandbox:
        path = sandbox.hold("silu.py", b"")
        sandbox.worker(path, "silu", (), Limits(), role="planner").close()
        [pid] = [sandbox._server.pid]
        for _ in range(100):
            if kilobytes(pid, HUGE) > 20_000:
                break
            time.sleep(0.05)
        else:
            pytest.skip("this kernel gathers no pages")
        for role in ("planner", "compiler", "executor"):
            sandbox.worker(path, "silu", (), Limits(), role=role).close()


def test_where_there_is_no_proc_nothing_is_gathered(monkeypatch):
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert list(huge_pages.gathering()) == []
