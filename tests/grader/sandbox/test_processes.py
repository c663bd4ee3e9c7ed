"""Which processes are found below another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from grader.sandbox import processes

SLEEPS = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child; both end with their input."""
    line = [sys.executable, "-c", SLEEPS]
    with subprocess.Popen(line, stdin=subprocess.PIPE) as started:
        while not processes.children(started.pid):
            assert started.poll() is None
        yield started
        assert started.stdin is not None
        started.stdin.close()


@pytest.mark.skipif(not processes._HAS_LISTS, reason="the kernel keeps no lists of children")
def test_a_number_that_is_another_processs_by_now_is_not_below(monkeypatch, parent) -> None:
    [child] = processes.children(parent.pid)
    assert [each.pid for each in processes.below(parent.pid)] == [child]
    # Between a list and a look at its processes, the numbers of two that ended were given away.
    lists = {os.getpid(): [parent.pid], parent.pid: [os.getppid()], os.getppid(): [os.getpid()]}
    monkeypatch.setattr(processes, "children", lambda pid: lists[pid])
    assert [each.pid for each in processes.below(os.getpid())] == [parent.pid]
