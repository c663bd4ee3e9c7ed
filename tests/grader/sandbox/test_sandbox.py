"""The sandbox: however a worker ends, the grader learns how, and nothing of it is left.

Its workers here are hosts of baselines, which call whatever a Python file of ours says.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from grader.gpu import machine
from grader.sandbox import Sandbox, cgroup, processes
from grader.sandbox.confinement import Level
from grader.sandbox.fork_server_process import ForkServer
from grader.sandbox.worker_process import (
    Cause,
    Death,
    Limits,
    SandboxError,
    Worker,
    socket_pair,
)
from grader.worker.protocol import Code, Operation, Reply
from tests.support.small_exercise import ROOT

SMALL = Limits(cpu_seconds=5.0, memory_bytes=512 << 20)
NUMBERS = itertools.count()
LOAD = Operation.load
FIRST_CALL = struct.pack("<2I", 1, 0)  # what is arranged: one call, of the first set

# What a submission needs to find the socket on which its host answers.
FIND_SOCKET = """
import os, socket, stat, struct
def request_socket():
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                return socket.socket(fileno=os.dup(fd))
        except OSError:
            pass
def reply(sequence, code=0, text=b"", length=None):
    return struct.pack("<QII", sequence, code, len(text) if length is None else length) + text
"""


def socketed(source: str) -> str:
    return FIND_SOCKET + textwrap.dedent(source)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    # The weakest level: what holds without confinement. With it: test_confinement.py.
    with Sandbox(level=Level.limits) as opened:
        yield opened


@pytest.fixture
def start(sandbox: Sandbox) -> Iterator[Callable[..., Worker]]:
    """Starts a worker over `source`, whose entry takes nothing, and loads it."""
    started: list[Worker] = []

    def start(source: str, limits: Limits = SMALL, load: bool = True) -> Worker:
        path = sandbox.hold(f"{next(NUMBERS)}.py", textwrap.dedent(source).encode())
        worker = sandbox.worker(path, "entry", [], limits)
        started.append(worker)
        return ready(worker) if load else worker

    yield start
    for worker in started:
        worker.close()
    assert below(sandbox) == []


BEFORE_CALLS = ((LOAD, b""), (Operation.place, b""), (Operation.arrange, FIRST_CALL))


def ready(worker: Worker) -> Worker:
    """A worker that has loaded its file: its fourth request, and each after it, is a call."""
    for operation, document in BEFORE_CALLS:
        answer = worker.ask(operation, document=document)
        assert isinstance(answer, Reply), answer
        assert answer.code is Code.ok, answer
    return worker


def call(worker: Worker, limits: Limits | None = None) -> Reply | Death:
    """Have the entry called once."""
    return worker.ask(Operation.replay, repeat=1, limits=limits)


def below(sandbox: Sandbox) -> list[psutil.Process]:
    """What runs below the fork server."""
    found = processes.below(parent_of(sandbox))
    return [each for each in found if is_running(each.pid)]


def parent_of(sandbox: Sandbox) -> int:
    return sandbox._server.pid


def fields(reply: Reply | Death) -> dict:
    assert isinstance(reply, Reply), reply
    return json.loads(reply.text)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether a condition comes to hold; long patience, short steps."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return False


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


# --- how a worker ends -------------------------------------------------------------------------

DEATHS = {
    "exit status": ("os._exit(3)", Cause.exited, "exit status 3"),
    "exit status 0": ("os._exit(0)", Cause.exited, "exit status 0"),
    "SIGSEGV": ("ctypes.string_at(8)", Cause.signalled, "killed by SIGSEGV"),
    "SIGABRT": ("os.abort()", Cause.signalled, "killed by SIGABRT"),
    "own SIGKILL": ("os.kill(os.getpid(), 9)", Cause.signalled, "killed by SIGKILL"),
    "its session": ("os.killpg(0, 15)", Cause.signalled, "killed by SIGTERM"),
}


def test_what_has_begun_is_started_once_and_needs_waiting_for() -> None:
    with contextlib.ExitStack() as opened:
        begun = Sandbox(level=Level.limits, kind="native")
        opened.callback(begun.close)
        begun.begin()
        assert not begun.is_started
        pid = begun._server._process.pid
        [child] = [each for each in psutil.Process().children() if each.pid == pid]
        begun.begin()
        begun.start()
        assert begun.is_started and begun._server._process.pid == child.pid
        begun.start()
        assert begun._server._process.pid == child.pid


def test_threads_start_and_end_workers_side_by_side(sandbox: Sandbox) -> None:
    """No worker is taken for another one's orphan, and no message for another one's."""
    path = sandbox.hold(f"{next(NUMBERS)}.py", b"def entry(): pass")

    def use(_: int) -> list[object]:
        ends: list[object] = []
        for turn in range(8):
            worker = sandbox.worker(path, "entry", [], SMALL)
            if turn % 2:
                psutil.Process(worker.pid).kill()  # its exit is awaited
                ends.append(type(worker.ask(LOAD)))
            else:
                answer = worker.ask(LOAD)
                ends.append(isinstance(answer, Reply) and answer.code)
            worker.close()
        return ends

    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(use, range(3))] == [[Code.ok, Death] * 4] * 3
    assert below(sandbox) == []


def test_an_exit_is_read_though_others_lie_before_it_and_the_fork_server_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ForkServer.__new__(ForkServer)
    server._lock, server._exits = threading.RLock(), {}
    server._control, theirs = socket_pair()
    monkeypatch.setattr(server, "_process", SimpleNamespace(poll=lambda: -9), raising=False)
    with theirs, server._control:
        for number in (1, 2, 3):
            theirs.send(json.dumps({"id": number, "exit": number}).encode())
        assert server.exit_of(3, wait=60.0) == 3
        assert server.exit_of(4, wait=60.0) is None  # at once


def test_what_has_only_begun_is_ended_too() -> None:
    begun = Sandbox(level=Level.limits, kind="native")
    begun.begin()
    child = psutil.Process(begun._server._process.pid)
    begun.close()
    assert not child.is_running() and not begun.is_started


def test_what_nobody_closes_leaves_no_folder_behind(tmp_path: Path) -> None:
    program = """
import os, signal, threading
from grader.sandbox import Sandbox

signal.signal(signal.SIGINT, signal.default_int_handler)
kept = Sandbox()
kept.begin()
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with Sandbox() as sandbox:  # takes longer than that to import
        pass
except KeyboardInterrupt:
    print(len(os.listdir(os.environ["TMPDIR"])))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    line = [sys.executable, "-c", program]
    ran = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr, [*tmp_path.iterdir()]) == ("1\n", "", [])  # that which is kept


def test_a_worker_collects_its_garbage_though_the_parent_imported_without(start):
    worker = start("import gc\ndef entry(): assert gc.isenabled() and gc.get_freeze_count()")
    answer = call(worker)
    assert isinstance(answer, Reply), answer
    assert answer.code is Code.ok, answer


@pytest.mark.parametrize("name", DEATHS)
def test_death_in_a_call_tells_its_cause(start, name: str) -> None:
    statement, cause, description = DEATHS[name]
    worker = start(f"import os, ctypes\ndef entry():\n    {statement}")
    death = call(worker)
    assert isinstance(death, Death)
    assert (death.cause, death.description) == (cause, description)


def test_a_fault_is_located_in_the_log(start) -> None:
    worker = start("import ctypes\ndef entry():\n    ctypes.string_at(8)\n")
    death = call(worker)
    assert death.signal == 11
    assert re.search(r'\d+\.py", line 3 in entry', death.log)


def test_death_while_loading_is_told_alike(start) -> None:
    death = start("import os\nos._exit(7)", load=False).ask(LOAD)
    assert (death.cause, death.description) == (Cause.exited, "exit status 7")


@pytest.mark.parametrize("close", ["os.closerange(3, 64)", "s.shutdown(2)"])
def test_a_worker_that_hangs_up_but_lives_on_is_ended(start, close: str) -> None:
    worker = start(
        socketed(f"""
        import time
        def entry():
            s = request_socket()
            {close}
            time.sleep(60)
        """)
    )
    death = call(worker)
    assert death.cause is Cause.exited
    assert not is_running(worker.pid)


def test_death_is_seen_although_a_child_keeps_the_socket_open(start) -> None:
    """Without watching the process itself this would end as a timeout, after 9 seconds."""
    worker = start("""
        import os, time
        def entry():
            if os.fork() == 0:
                time.sleep(60)
            os._exit(5)
        """)
    death = call(worker, limits=Limits(cpu_seconds=3.0))
    assert (death.cause, death.description) == (Cause.exited, "exit status 5")


# --- limits ------------------------------------------------------------------------------------


SPINNING = {
    "itself": """
        def entry():
            while True: pass
        """,
    "in a child": """
        import os
        def entry():
            if os.fork() == 0:
                while True: pass
            os.wait()
        """,
    "in an orphan": """
        import os, time
        def entry():
            if os.fork() == 0:
                if os.fork() == 0:
                    while True: pass
                os._exit(0)
            os.wait()
            time.sleep(60)
        """,
    "in children that end": """
        import os, time
        def entry():
            while True:
                if os.fork() == 0:
                    began = time.process_time()
                    while time.process_time() - began < 0.03: pass
                    os._exit(0)
                os.wait()
        """,
}


@pytest.mark.parametrize("name", SPINNING)
def test_computing_too_long_is_timed_out_by_cpu_time(start, monkeypatch, name: str) -> None:
    monkeypatch.setattr("grader.sandbox.worker_process.WALL_PER_CPU", 200.0)  # out of the way
    limits = Limits(cpu_seconds=0.2)
    death = call(start(SPINNING[name]), limits=limits)
    assert death.cause is Cause.timed_out
    assert death.seconds < limits.wall_seconds


def test_what_an_older_process_used_before_does_not_count(start) -> None:
    """A process met for the first time, but older than the request, counts from then on."""
    worker = start("def entry(): pass")
    this = psutil.Process()  # stands for it: it has imported torch
    usage = processes.Usage(worker.pid, lambda: [this])
    cpu, memory, count = usage.now()
    assert count == 2
    assert cpu < this.cpu_times().user / 2
    assert memory > this.memory_info().rss / 2


def test_sleeping_is_timed_out_by_wall_time(start) -> None:
    worker = start("import time\ndef entry():\n    time.sleep(60)")
    limits = Limits(cpu_seconds=0.1)
    death = call(worker, limits=limits)
    assert death.cause is Cause.timed_out
    assert limits.wall_seconds <= death.seconds < 30


def test_what_an_earlier_request_used_does_not_count(start) -> None:
    worker = start("""
        import time
        def entry():
            began = time.process_time()
            while time.process_time() - began < 0.2: pass
        """)
    for _ in range(3):
        assert isinstance(call(worker, limits=Limits(cpu_seconds=0.5)), Reply)


def test_allocating_too_much_raises_in_the_worker(start) -> None:
    worker = start("def entry():\n    bytearray(600 << 20)")
    assert call(worker).code is Code.out_of_memory
    assert call(worker).code is Code.out_of_memory  # it lives on


def test_allocating_within_the_limit_is_allowed(start) -> None:
    worker = start("def entry():\n    bytearray(100 << 20)")
    assert call(worker).code is Code.ok


def test_memory_of_many_processes_together_is_limited(start, monkeypatch) -> None:
    monkeypatch.setattr("grader.sandbox.worker_process.INHERITED_BYTES", 0)
    worker = start("""
        import os, time
        def entry():
            for _ in range(3):
                if os.fork() == 0:
                    held = bytearray(b"x") * (40 << 20)
                    time.sleep(60)
            time.sleep(60)
        """)
    alone = psutil.Process(worker.pid).memory_info().rss
    death = call(worker, limits=Limits(60.0, alone + (100 << 20)))
    assert death.cause is Cause.out_of_memory


def test_limits_can_not_be_raised_again(start) -> None:
    worker = start("""
        import json, resource
        def entry():
            names = ("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CORE")
            raise RuntimeError(json.dumps(
                {name: resource.getrlimit(getattr(resource, name)) for name in names}))
        """)
    limits = json.loads(fields(call(worker))["message"])
    assert all(soft == hard != -1 for soft, hard in limits.values())
    assert limits["RLIMIT_CORE"] == [0, 0]


# --- replies -----------------------------------------------------------------------------------

FORGERIES = {
    "garbage": "b'garbage'",
    "one byte": "b'x'",
    "unknown code": "reply(4, 99)",
    "wrong length field": "reply(4, 0, b'abc', 7)",
    "more text than allowed": "reply(4, 0, b'x' * (64 * 1024 + 1))",
    "an earlier sequence": "reply(1)",
    "a later sequence": "reply(5)",
    "largest sequence": "reply(2**64 - 1)",
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_is_no_answer_ends_the_worker(start, name: str) -> None:
    worker = start(
        socketed(f"""
        import time
        def entry():
            request_socket().send({FORGERIES[name]})
            time.sleep(60)
        """)
    )
    death = call(worker)
    assert isinstance(death, Death)
    assert death.cause is Cause.misbehaved
    assert not is_running(worker.pid)


def test_an_answer_given_in_advance_is_no_answer_to_the_next_request(start) -> None:
    worker = start(
        socketed("""
        def entry():
            s = request_socket()
            s.send(reply(4))
            s.send(reply(4))
        """)
    )
    assert isinstance(call(worker), Reply)
    assert call(worker).cause is Cause.misbehaved


def test_answers_to_requests_never_read_do_not_block_the_grader(start) -> None:
    worker = start(
        socketed("""
        import threading, time
        def answer_all():
            s = request_socket()
            for sequence in range(4, 100000):
                s.send(reply(sequence))
        def entry():
            threading.Thread(target=answer_all, daemon=True).start()
            time.sleep(60)
        """)
    )
    for _ in range(2000):  # more than the socket holds
        answer = call(worker)
        if isinstance(answer, Death):
            break
    assert answer.cause is Cause.misbehaved


def test_descriptors_sent_by_a_worker_are_dropped(start) -> None:
    worker = start(
        socketed("""
        def entry():
            s = request_socket()
            socket.send_fds(s, [reply(4)], [0, 1, 2])
        """)
    )
    before = open_descriptors()
    assert isinstance(call(worker), Reply)
    assert open_descriptors() == before


def test_deeply_nested_text_is_only_text(start) -> None:
    worker = start(
        socketed("""
        import time
        def entry():
            request_socket().send(reply(4, 4, b"[" * 60000))
            time.sleep(60)
        """)
    )
    assert call(worker).text == "[" * 60000


# --- output ------------------------------------------------------------------------------------


def test_a_flood_of_output_is_dropped_but_for_its_end(start) -> None:
    worker = start("""
        import os
        def entry():
            for _ in range(200):
                os.write(1, b"x" * 65536)
            os.write(2, b"the end")
        """)
    assert isinstance(call(worker), Reply)
    assert len(worker.log) <= 64 * 1024
    assert worker.log.endswith("the end")


def test_a_flood_without_end_is_timed_out(start) -> None:
    worker = start("""
        import fcntl, os
        def entry():
            fcntl.fcntl(1, 1031, 1 << 20)  # F_SETPIPE_SZ: as much as it may
            while True:
                os.write(1, b"x" * (1 << 20))
        """)
    assert call(worker, limits=Limits(cpu_seconds=0.2)).cause is Cause.timed_out


def test_reading_output_ends_though_more_is_always_there(start, monkeypatch) -> None:
    worker = start("def entry(): pass")
    reads: list[int] = []

    def endless(descriptor: int, length: int) -> bytes:
        reads.append(descriptor)
        assert len(reads) < 1000
        return b"x" * length

    monkeypatch.setattr("grader.sandbox.worker_process.os.read", endless)
    worker._printed.read()
    monkeypatch.undo()
    assert reads


def test_closing_its_output_costs_a_worker_nothing(start) -> None:
    worker = start("""
        import os, time
        def entry():
            os.close(1), os.close(2)
            time.sleep(0.3)
        """)
    assert isinstance(call(worker), Reply)


def test_output_of_one_request_is_not_shown_with_the_next(start) -> None:
    worker = start("calls = []\ndef entry():\n    calls.append(1)\n    print('call', len(calls))")
    call(worker)
    call(worker)
    assert worker.log == "call 2\n"


# --- nothing is left ---------------------------------------------------------------------------

LINGERING = {
    "child": "if os.fork() == 0: linger()",
    "double fork": "if os.fork() == 0:\n        os.fork() == 0 and linger()\n        os._exit(0)",
    "own session": "if os.fork() == 0:\n        os.setsid()\n        os.fork() or linger()\n"
    "        os._exit(0)",
    "other program": "subprocess.Popen(['sleep', '60'], env={}, start_new_session=True)",
    "deaf to signals": "if os.fork() == 0:\n        [signal.signal(s, signal.SIG_IGN) "
    "for s in (1, 2, 15)]\n        linger()",
}
LINGER = """
import os, signal, subprocess, time
def linger():
    time.sleep(60)
    os._exit(0)
def entry():
    {action}
    {then}
"""


@pytest.mark.parametrize("name", LINGERING)
def test_processes_that_outlive_a_closed_worker_are_ended(start, sandbox, name: str) -> None:
    worker = start(LINGER.format(action=LINGERING[name], then=""))
    assert isinstance(call(worker), Reply)
    assert wait_for(lambda: len(below(sandbox)) >= 2)
    worker.close()
    assert below(sandbox) == []


@pytest.mark.parametrize("name", LINGERING)
def test_processes_that_outlive_a_dead_worker_are_ended(start, sandbox, name: str) -> None:
    worker = start(LINGER.format(action=LINGERING[name], then="os._exit(1)"))
    assert call(worker).description == "exit status 1"
    assert below(sandbox) == []


def test_what_is_left_in_a_workers_group_ends_with_it_though_nobody_looks(
    start, sandbox, monkeypatch
) -> None:
    """Processes that fork the next and end are gone before one that looks can kill them."""
    monkeypatch.setattr(processes, "end", lambda find: None)
    worker = start(LINGER.format(action=LINGERING["double fork"], then=""))
    call(worker)
    assert wait_for(lambda: len(below(sandbox)) >= 2)
    worker.close()
    # One look may miss a process whose parent ends meanwhile.
    assert wait_for(lambda: below(sandbox) == below(sandbox) == [])


def test_orphans_that_have_ended_are_reaped_while_their_worker_goes_on(start, sandbox) -> None:
    """Each takes one of the machine's process numbers until then."""
    worker = start("""
        import os
        def entry():
            for _ in range(50):
                if not (child := os.fork()):
                    os.fork()
                    os._exit(0)
                os.waitpid(child, 0)
    """)
    assert isinstance(call(worker), Reply)
    assert wait_for(lambda: processes.children(parent_of(sandbox)) == [worker.pid])


def test_ending_one_worker_leaves_another_alone(start) -> None:
    """Runners of several variants keep a worker each, in one sandbox."""
    other = start("""
        import os, time
        child = os.fork()
        if child == 0:
            time.sleep(60)
        def entry():
            os.kill(child, 0)
        """)
    dying = start("import os\ndef entry():\n    os._exit(1)")
    closed = start("def entry(): pass")
    assert isinstance(call(dying), Death)
    closed.close()
    answer = call(other)
    assert isinstance(answer, Reply)
    assert answer.code is Code.ok


def test_a_dead_worker_costs_the_next_one_a_fork(start, sandbox) -> None:
    parent = parent_of(sandbox)
    for _ in range(3):
        assert isinstance(call(start("import os\ndef entry():\n    os._exit(1)")), Death)
    worker = start("import os\ndef entry():\n    raise RuntimeError(os.getppid())")
    assert fields(call(worker))["message"] == str(parent)
    assert parent_of(sandbox) == parent


def test_no_descriptor_is_left_behind(start) -> None:
    start("def entry(): pass").close()
    before = open_descriptors()
    for source in ("import os\ndef entry():\n    os._exit(1)", "def entry(): pass"):
        worker = start(source)
        call(worker)
        worker.close()
        worker.close()  # a second time does nothing
    assert open_descriptors() == before


def test_no_zombie_is_left_behind(start) -> None:
    before = {child.pid for child in psutil.Process().children()}
    for _ in range(3):
        call(start("import os\ndef entry():\n    os._exit(1)"))
    new = {child.pid for child in psutil.Process().children()} - before
    assert all(is_running(pid) for pid in new)


# --- what a worker knows -----------------------------------------------------------------------

KNOWS = """
import json, os, sys
def entry():
    print(json.dumps({expression}))
"""


def learned(start, expression: str) -> Any:
    worker = start(KNOWS.format(expression=expression))
    assert isinstance(call(worker), Reply)
    return json.loads(worker.log)


def test_the_environment_is_cleared(start, sandbox, monkeypatch) -> None:
    environment = learned(start, "dict(os.environ)")
    assert environment["HOME"] == environment["TMPDIR"] == str(sandbox.scratch)
    allowed = {"PATH", "HOME", "USER", "TMPDIR", "LANG", "LC_CTYPE", "CUDA_VISIBLE_DEVICES"}
    assert {name for name in environment if name not in allowed} == {
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "TRITON_CACHE_DIR",
        "TRITON_DEFAULT_FP_FUSION",
        "TORCHINDUCTOR_COMPILE_THREADS",
    }


def test_the_worker_has_no_module_of_the_grader(start) -> None:
    modules = learned(start, "sorted(sys.modules)")
    assert "warpgrade_worker.baseline_host" in modules
    theirs = {name.split(".")[0] for name in modules}
    assert not theirs & {"grader", "reference", "assignment", "hypothesis", "pydantic", "yaml"}


def test_the_grader_is_not_on_the_import_path(start) -> None:
    root = Path(__file__).resolve().parents[3]
    path = [Path(entry).resolve() for entry in learned(start, "sys.path")]
    assert not [
        entry for entry in path if entry == root or root / "grader" in (entry, *entry.parents)
    ]


def test_standard_input_is_empty_and_the_session_is_its_own(start) -> None:
    assert learned(start, "[sys.stdin.read(), os.getsid(0) == os.getpid()]") == ["", True]


def test_only_its_socket_its_log_and_its_buffers_are_open(start) -> None:
    expression = (
        "[os.readlink(f'/proc/self/fd/{fd}').split(':')[0] for fd in range(64)"
        " if os.path.lexists(f'/proc/self/fd/{fd}')]"
    )
    kinds = learned(start, expression)
    assert kinds.count("socket") == 1
    assert kinds.count("pipe") == 2
    assert {kind for kind in kinds if kind.startswith("/")} == {"/dev/null"}


# --- a submission against the fork server ------------------------------------------------------


@pytest.fixture
def own_sandbox() -> Iterator[Sandbox]:
    """One that a test may break."""
    with Sandbox(level=Level.limits) as opened:
        yield opened


def write(tmp_path: Path, name: str, source: str) -> Path:
    path = tmp_path / name
    path.write_text(textwrap.dedent(source))
    return path


def test_the_next_worker_comes_though_the_parent_was_killed(own_sandbox, tmp_path) -> None:
    """With the parent dies the worker; what it detached, and stripped, is ended as well."""
    note = tmp_path / "pids"
    killer = write(
        tmp_path,
        "killer.py",
        f"""
        import os, signal, subprocess
        def entry():
            detached = subprocess.Popen(["sleep", "60"], env={{}}, start_new_session=True)
            with open({str(note)!r}, "w") as file:
                file.write(str(detached.pid))
            os.mkfifo("start.log")
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
        """,
    )
    honest = write(tmp_path, "honest.py", "def entry(): pass")
    parent = parent_of(own_sandbox)
    worker = ready(own_sandbox.worker(killer, "entry", [], SMALL))
    assert isinstance(call(worker), Death)
    detached = int(note.read_text())
    assert is_running(detached)

    again = ready(own_sandbox.worker(honest, "entry", [], SMALL))
    assert call(again).code is Code.ok
    assert parent_of(own_sandbox) != parent
    assert not is_running(detached)


def test_closing_leaves_no_process_and_no_folder(tmp_path) -> None:
    littering = write(
        tmp_path,
        "littering.py",
        """
        import os, subprocess
        from pathlib import Path
        Path("locked/inner").mkdir(parents=True)
        Path("locked/inner/file").write_text("x")
        os.chmod("locked/inner", 0)
        os.chmod("locked", 0)
        os.symlink("/", "link")
        os.mkfifo("fifo")
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
        def entry():
            subprocess.Popen(["sleep", "60"], env={}, start_new_session=True)
        """,
    )
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    sandbox = Sandbox(level=Level.limits)
    sandbox.start()
    scratch = Path(sandbox.scratch)
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    worker = ready(sandbox.worker(littering, "entry", [], SMALL))
    assert call(worker).code is Code.ok
    assert (scratch / "deep").exists()
    sandbox.close()
    assert not scratch.exists()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    sandbox.close()  # a second time does nothing


def test_a_scratch_folder_turned_into_a_link_is_not_followed(tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    sandbox = Sandbox(level=Level.limits, kind="native")
    sandbox.start()
    scratch = Path(sandbox.scratch)
    scratch.rename(tmp_path / "moved")
    scratch.symlink_to(precious)
    sandbox.close()
    assert (precious / "file").read_text() == "keep"
    assert not scratch.is_symlink()


def test_a_worker_without_a_sandbox_is_our_error_not_the_submissions(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("grader.sandbox.bytecode._START", tmp_path / "missing.py")
    with pytest.raises(SandboxError, match="did not start"):
        Sandbox(level=Level.limits).start()


def test_buffers_that_can_not_be_mapped_are_our_error(own_sandbox, tmp_path) -> None:
    """The submission has not even been read: its death there must not be laid to it."""
    path = write(tmp_path, "honest.py", "def entry(): pass")
    with (
        (tmp_path / "not_memory").open("wb") as file,
        pytest.raises(SandboxError, match="not ready"),
    ):
        own_sandbox.worker(path, "entry", [(file.fileno(), 4096, False)], SMALL)


def test_a_fork_server_that_can_not_be_asked_is_told_by_what_the_system_says(
    own_sandbox, tmp_path, monkeypatch
) -> None:
    def refused(*given: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("grader.sandbox.fork_server_process.ForkServer.fork", refused)
    path = write(tmp_path, "honest.py", "def entry(): pass")
    with pytest.raises(SandboxError, match=r"^the fork server can't be asked: .*Too many open"):
        own_sandbox.worker(path, "entry", [], SMALL)


# --- floods ------------------------------------------------------------------------------------


def test_too_many_processes_end_a_worker(start, monkeypatch) -> None:
    monkeypatch.setattr("grader.sandbox.worker_process.MOST_PROCESSES", 5)
    worker = start("""
        import os, time
        def entry():
            for _ in range(8):
                if not os.fork():
                    time.sleep(60)
            time.sleep(60)
    """)
    death = call(worker)
    assert death.cause is Cause.too_many_processes


def test_processes_that_have_ended_are_not_too_many() -> None:
    with contextlib.ExitStack() as opened:
        ended = [opened.enter_context(subprocess.Popen(["true"])) for _ in range(3)]
        found = [psutil.Process(each.pid) for each in ended]
        assert wait_for(lambda: not any(map(processes.is_alive, found)))
        usage = processes.Usage(os.getpid(), lambda: found)
        assert usage.now()[2] == 1


def test_a_full_scratch_folder_ends_a_worker(start, monkeypatch) -> None:
    monkeypatch.setattr("grader.sandbox.confinement.SCRATCH_BYTES", 1 << 20)
    worker = start("""
        import time
        def entry():
            with open("flood", "wb") as file:
                file.write(bytes(4 << 20))
            time.sleep(60)
    """)
    death = call(worker)
    assert death.cause is Cause.disk_full


@pytest.mark.skipif(bool(cgroup.why_not()), reason=cgroup.why_not() or "there is one")
def test_a_control_group_bounds_all_of_a_submissions_processes(monkeypatch) -> None:
    monkeypatch.setattr(
        "grader.sandbox.fork_server_process.GROUP_BYTES", 6 << 30
    )  # torch with CUDA needs some
    greedy = """
        import os, time
        def entry():
            for _ in range(8):
                if not os.fork():
                    hoard = bytearray(os.urandom(1) * (1 << 30))
                    time.sleep(60)
            hoard = bytearray(os.urandom(1) * (1 << 30))
            time.sleep(60)
    """
    with Sandbox(machine.device(), level=Level.limits) as opened:
        path = opened.hold("greedy.py", textwrap.dedent(greedy).encode())
        group = opened._server._group.folder
        limits = Limits(cpu_seconds=30.0, memory_bytes=1 << 40)
        worker = opened.worker(path, "entry", [], limits)
        # On a GPU what is arranged is called already, to be captured.
        for operation, document in BEFORE_CALLS:
            if isinstance(worker.ask(operation, document=document), Death):
                break
        else:
            call(worker)
        assert opened._server._group.times_out_of_memory() or opened._server.was_out_of_memory()
    assert not group.exists()


def test_a_process_that_ends_while_it_is_waited_for_is_no_error(monkeypatch) -> None:
    def vanished(*_: object, **__: object) -> None:
        raise FileNotFoundError  # as Linux 6.18 says it of a process that was just reaped

    monkeypatch.setattr(psutil, "wait_procs", vanished)
    with subprocess.Popen(["sleep", "60"]) as child:
        processes.end(lambda: [psutil.Process(child.pid)])
        assert not is_running(child.pid)


def test_a_process_that_one_look_misses_is_ended_all_the_same() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        looks = iter([[], [psutil.Process(child.pid)]])
        processes.end(lambda: next(looks, []))
        assert not is_running(child.pid)
