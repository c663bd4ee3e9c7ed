"""Fork servers from the preloader are as confined as started ones, and end as surely."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from grader.sandbox import Sandbox, bytecode, confinement, preloader
from grader.sandbox.confinement import Confinement, Level
from grader.sandbox.worker_process import Limits, socket_pair
from grader.worker.protocol import Operation, Reply
from tests.support.children import wait_until
from tests.support.confined import skip_unless
from tests.support.small_exercise import ROOT

SECONDS = 30
LIMITS = Limits(cpu_seconds=20.0)

# A submission's module that tells what its planner sees, as the message of an exception.
LOOK = """
import json, os, re, resource, signal, socket, stat

def refused(attempt, *arguments):
    try:
        attempt(*arguments)
    except OSError as error:
        return type(error).__name__
    return "DONE"

def kinds():
    for each in sorted(os.listdir("/proc/self/fd")):
        try:
            yield stat.S_IFMT(os.fstat(int(each)).st_mode)
        except OSError:
            pass

status = open("/proc/self/status").read()
names = ("NoNewPrivs", "Seccomp", "CapEff", "CapBnd", "SigIgn", "SigBlk", "Uid", "Threads")
limits = [name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_AS"]
seen = {
    "environment": sorted(os.environ),
    "status": {name: re.search(f"{name}:(.*)", status)[1] for name in names},
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    "descriptors": sorted(kinds()),
    "umask": os.umask(0o77),
    "session": os.getsid(0) == os.getpid(),
    "server": os.getppid(),
    "in home": os.getcwd() == os.environ["HOME"],
    "refused": {
        "read": refused(open, PROJECT + "/pyproject.toml"),
        "write": refused(open, "/tmp/left_behind", "w"),
        "signal": refused(os.kill, os.getppid(), 0),
        "signal preloader": refused(os.kill, PRELOADER, 0),
        "preloader's memory": refused(open, f"/proc/{PRELOADER}/mem", "rb"),
        "preloader's descriptors": refused(os.listdir, f"/proc/{PRELOADER}/fd"),
        "server's memory": refused(open, f"/proc/{os.getppid()}/mem", "rb"),
        "network": refused(socket.socket, socket.AF_INET, socket.SOCK_STREAM),
    },
}
raise RuntimeError("<<" + json.dumps(seen) + ">>")
"""

# Leaves a process behind that has left its parent and its environment.
LEAVE = """
import os, time
ends = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        os.write(ends[1], str(os.getpid()).encode())
        os.close(1), os.close(2)
        time.sleep(600)
    os._exit(0)
os.wait()
raise RuntimeError("<<" + os.read(ends[0], 32).decode() + ">>")
"""


@pytest.fixture(scope="module", autouse=True)
def landlock() -> Iterator[None]:
    """Landlock, also where there is bubblewrap, which would be chosen."""
    skip_unless(Level.landlock)
    own = confinement.choose

    def choose(level: Level | None = None, *more: Any, **given: Any) -> Confinement:
        return own(level or Level.landlock, *more, **given)

    with pytest.MonkeyPatch.context() as patched:
        for module in (preloader, confinement):
            patched.setattr(module, "choose", choose)
        yield


@pytest.fixture(scope="module")
def launched() -> Iterator[psutil.Process]:
    """A preloader of this process, which tests leave without fork servers."""
    with begun() as process:
        yield process


@contextlib.contextmanager
def begun() -> Iterator[psutil.Process]:
    """A preloader of this process meanwhile."""
    before, preloader._requests = preloader._requests, None
    preloader.begin()
    process = preloader._launched
    assert process is not None
    yield psutil.Process(process.pid)
    if (requests := preloader.shared()) is not None:
        requests.close()
    process.wait(SECONDS)
    preloader._requests = before


def told(sandbox: Sandbox, source: str) -> Any:
    """What the module tells when a planner imports it."""
    path = sandbox.hold("module.py", source.encode())
    worker = sandbox.worker(path, "entry", [], LIMITS, role="planner")
    answer = worker.ask(Operation.load, document=b"entry")
    worker.close()
    assert isinstance(answer, Reply), answer
    return json.loads(json.loads(answer.text)["message"].split("<<")[1].split(">>")[0])


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_worker_sees_what_it_sees_where_its_fork_server_was_started(launched):
    source = f"PROJECT, PRELOADER = {str(ROOT)!r}, {launched.pid}\n{LOOK}"
    with Sandbox(level=Level.landlock, kind="plans") as other:
        other.start()  # nothing of it is left in the next one
        with Sandbox(level=Level.landlock, kind="plans") as forked:
            seen = told(forked, source)
    requests, preloader._requests = preloader._requests, None
    with Sandbox(level=Level.landlock, kind="plans") as started:
        expected = told(started, source)
    preloader._requests = requests
    assert "DONE" not in seen["refused"].values()
    assert {**seen, "server": 0} == {**expected, "server": 0}


def test_one_import_serves_every_sandbox(launched):
    with Sandbox(kind="plans") as one, Sandbox(kind="plans") as other:
        servers = {one.start().pid, other.start().pid}
        assert len(servers) == 2
        assert servers == {each.pid for each in launched.children()}
        assert one.scratch != other.scratch
    assert not launched.children()  # reaped, too


def test_one_who_asked_and_is_gone_costs_nobody_else_anything(launched):
    with Sandbox(level=Level.landlock, kind="plans") as other:
        server = other.start().pid
        ours, theirs = socket_pair()
        ours.close()
        request = {"plan": {}, "environment": {}, "folder": "/", "group": ""}
        requests = preloader.shared()
        with theirs:
            given = [theirs.fileno()] * 3
            socket.send_fds(requests, [json.dumps(request).encode()], given)
        with Sandbox(level=Level.landlock, kind="plans") as next_one:
            assert psutil.Process(next_one.start().pid).ppid() == launched.pid
        assert other.start().pid == server
        wait_until(lambda: len(launched.children()) == 1)


def test_sandboxes_of_other_kinds_have_their_own(launched):
    with Sandbox(kind="native", device="emulator") as sandbox:
        assert psutil.Process(sandbox.start().pid).ppid() == os.getpid()


def test_what_a_dead_fork_server_leaves_is_ended(launched):
    with Sandbox(level=Level.landlock, kind="plans") as sandbox:
        left = told(sandbox, LEAVE)
        server = sandbox.start()
        psutil.Process(server.pid).kill()
        wait_until(lambda: server.exit_of(0, 0.1) is None and is_gone(server.pid))
        with Sandbox(level=Level.landlock, kind="plans") as other:
            other.start()
            server.stop()
            assert is_gone(left)
            assert not is_gone(other.start().pid)


def test_a_sandbox_whose_preloader_is_gone_goes_on():
    with begun() as launched, Sandbox(level=Level.landlock, kind="plans") as sandbox:
        sandbox.start()
        launched.kill()
        wait_until(lambda: is_gone(launched.pid))
        assert told(sandbox, LEAVE) > 0
        assert psutil.Process(sandbox.start().pid).ppid() == os.getpid()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_everything_ends_with_the_grader(tmp_path, how):
    """Also a fork server that is stopped, and so doesn't see that nobody asks any more."""
    program = """
import psutil, sys, time
from grader.sandbox import Sandbox, bytecode, confinement, preloader
preloader.choose = lambda: confinement.choose(confinement.Level.landlock)
preloader.begin()
with Sandbox(level=confinement.Level.landlock, kind="plans") as sandbox:
    print(preloader._launched.pid, sandbox.start().pid, flush=True)
    time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    ) as grader:
        try:
            assert grader.stdout is not None
            pids = [int(each) for each in grader.stdout.readline().split()]
            os.kill(pids[1], how)
        finally:
            grader.kill()
    wait_until(lambda: all(map(is_gone, pids)))


def test_a_failed_import_is_told_by_each_sandbox(monkeypatch, tmp_path):
    broken = tmp_path / "worker"
    broken.mkdir()
    for each in bytecode._START.parent.glob("*.py"):
        (broken / each.name).write_text(each.read_text())
    (broken / "plan_processes.py").write_text("raise ImportError('no triton here')")
    monkeypatch.setattr(bytecode, "_START", broken / "start.py")
    with begun(), pytest.raises(Exception, match="no triton here"):
        Sandbox(level=Level.landlock, kind="plans").start()
