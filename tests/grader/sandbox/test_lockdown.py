"""What the fork server and its workers give up, and that no step can fail unnoticed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys

import pytest

from grader.sandbox import allowed_paths
from grader.sandbox.confinement import Level
from grader.sandbox.seccomp import compile_filter
from tests.support.confined import LEVELS, Room, skip_unless

PROGRAM = allowed_paths.WORKER_FOLDER / "lockdown.py"

# Argument 1: the plan; 2: lines to run after. Prints what `tell` is given, as JSON.
ALONE = f"""
import importlib.util, json, os, sys, threading
spec = importlib.util.spec_from_file_location("lockdown", {str(PROGRAM)!r})
lockdown = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lockdown)
plan = json.loads(sys.argv[1])
def tell(value):
    print(json.dumps(value), flush=True)
def status():
    lines = open("/proc/self/status").read().splitlines()
    return dict(line.split(":", 1) for line in lines)
exec(sys.argv[2])
"""


def alone(plan: dict, lines: str) -> list:
    """What a plain process, confined by nothing but its own steps, tells."""
    argv = [sys.executable, "-I", "-B", "-c", ALONE, json.dumps(plan), lines]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def with_filter() -> dict:
    """A plan of nothing but the filter, as under bubblewrap."""
    skip_unless(Level.landlock)  # which has a filter, too
    program = compile_filter("cpu", own_namespaces=True)
    return {"filter": base64.b64encode(program).decode(), "landlock": None}


def test_an_empty_plan_changes_nothing():
    lines = """
before = status()
lockdown.secure_parent(plan)
lockdown.secure_worker(plan)
tell({name: (before[name], status()[name]) for name in ("CapEff", "NoNewPrivs", "Seccomp")})
"""
    (told,) = alone({}, lines)
    assert all(before == after for before, after in told.values())


def test_the_parent_takes_on_the_filter_and_gives_up_capabilities(with_filter):
    lines = """
lockdown.secure_parent(plan)
tell({name: status()[name].strip() for name in ("NoNewPrivs", "Seccomp")})
tell([int(status()[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")])
"""
    flags, capabilities = alone(with_filter, lines)
    assert flags == {"NoNewPrivs": "1", "Seccomp": "2"}
    assert capabilities == [0, 0, 0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has a bounding set to drop")
def test_root_can_not_get_its_capabilities_back(with_filter):
    (told,) = alone(with_filter, "lockdown.secure_parent(plan)\ntell(int(status()['CapBnd'], 16))")
    assert told == 0


def test_threads_that_are_there_already_take_on_the_filter(with_filter):
    lines = """
go, done = threading.Event(), threading.Event()
def late():
    go.wait()
    try:
        os.chmod("/nowhere/at/all", 0o600)
    except OSError as error:
        tell(type(error).__name__)
    done.set()
threading.Thread(target=late).start()
lockdown.secure_parent(plan)
go.set()
done.wait()
"""
    assert alone(with_filter, lines) == ["PermissionError"]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_file_that_may_be_read_is_changed_by_a_request_to_its_file_system(device, tmp_path):
    """Neither its flags nor its other attributes; blocking and closing are no such requests."""
    skip_unless(Level.landlock)
    file = tmp_path / "read.txt"
    file.touch()
    program = compile_filter(device, own_namespaces=True)
    plan = {"filter": base64.b64encode(program).decode(), "landlock": None}
    lines = f"""
import errno, fcntl
lockdown.secure_parent(plan)
opened = os.open({str(file)!r}, os.O_RDONLY)
for request in (0x40086602, 0x401C5820, 0x40087602, 0x40086604, 0x5000940F):
    try:
        fcntl.ioctl(opened, request, bytes(1024))
    except OSError as error:
        tell(errno.errorcode[error.errno])
os.set_blocking(opened, False)
os.set_inheritable(opened, True)
"""
    assert alone(plan, lines) == ["EPERM"] * 5


def test_the_parent_is_not_open_to_its_workers_but_they_are_to_themselves(with_filter):
    lines = """
libc = lockdown._libc
lockdown.secure_parent(plan)
tell(libc.prctl(3, 0, 0, 0, 0))
lockdown.secure_worker(plan)
tell(libc.prctl(3, 0, 0, 0, 0))
"""
    assert alone(with_filter, lines) == [0, 1]


@pytest.mark.parametrize("program", [b"\0" * 8, b"", b"12345678" * 5])
def test_a_filter_the_kernel_refuses_is_an_error(program):
    plan = {"filter": base64.b64encode(program).decode() or "====", "landlock": None}
    lines = """
try:
    lockdown.secure_parent(plan)
except (OSError, ValueError) as error:
    tell(type(error).__name__)
"""
    (told,) = alone(plan, lines)
    assert told in ("OSError", "ValueError", "Error")


def test_a_rule_for_a_path_that_is_gone_is_an_error(with_filter, tmp_path):
    rules = {"read": [str(tmp_path / "gone")], "execute": [], "write": [], "devices": []}
    lines = """
lockdown.secure_parent(plan)
try:
    lockdown.secure_worker(plan)
except OSError as error:
    tell(type(error).__name__)
"""
    assert alone({**with_filter, "landlock": rules}, lines) == ["FileNotFoundError"]


def test_an_unknown_processor_is_an_error(with_filter):
    lines = """
lockdown.platform.machine = lambda: "pdp11"
try:
    lockdown.secure_parent(plan)
except OSError as error:
    tell(str(error))
"""
    (told,) = alone(with_filter, lines)
    assert told == "confinement knows no system call numbers of pdp11"


def test_workers_are_out_of_each_others_reach(tmp_path):
    room = Room(tmp_path, skip_unless(Level.landlock))
    first = room.start("import time\ntell(os.getpid())\ntime.sleep(60)")
    try:
        other = int(first.stdout.readline())
        lines = """
tell([refused(os.kill, given["other"], 0), refused(open, f"/proc/{given['other']}/mem", "rb")])
"""
        (told,) = room.run(lines, {"other": other})
        assert None not in told
    finally:
        os.kill(other, 9)
        first.communicate()


@pytest.mark.parametrize("level", LEVELS)
def test_threads_and_children_of_a_worker_are_confined_too(tmp_path, level):
    room = Room(tmp_path, skip_unless(level))
    lines = """
import threading
def attempt():
    tell(refused(open, given["path"]))
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
if os.fork() == 0:
    attempt()
    os._exit(0)
os.wait()
"""
    (tmp_path / "secret").write_text("secret")
    told = room.run(lines, {"path": str(tmp_path / "secret")})
    assert len(told) == 2
    assert None not in told


def test_the_file_needs_nothing_of_the_grader():
    """It is started by path, inside, where there is no grader."""
    code = f"import runpy, sys; runpy.run_path({str(PROGRAM)!r}); print('grader' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_a_worker_with_a_folder_of_its_own_writes_nowhere_else(tmp_path):
    """Its files can be read by others, and nobody's can be changed, moved or removed by it."""
    skip_unless(Level.landlock)
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    lines = """
folder = plan["folder"]
lockdown.restrict_writing(plan, f"{folder}/own")
attempts = {
    "write": lambda place: open(f"{place}/file", "w").close(),
    "make": lambda place: open(f"{place}/new", "w").close(),
    "link": lambda place: os.symlink("file", f"{place}/link"),
    "move": lambda place: os.rename(f"{place}/file", f"{place}/moved"),
    "remove": lambda place: os.unlink(f"{place}/new" if place.endswith("own") else f"{place}/file"),
}
for place in ("own", "other", "."):
    done = []
    for name, attempt in attempts.items():
        try:
            attempt(f"{folder}/{place}")
        except PermissionError:
            continue
        except FileNotFoundError:
            pass
        done.append(name)
    tell(done)
open("/dev/null", "w").close()
tell(open(f"{folder}/other/file").read())
"""
    plan = {"separate": {"devices": ["/dev"]}, "folder": str(tmp_path)}
    own, other, above, read = alone(plan, lines)
    assert own == ["write", "make", "link", "move", "remove"]
    assert other == []
    assert set(above) <= {"write", "move", "remove"}  # of what isn't there
    assert read == "other"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other", "own"]
