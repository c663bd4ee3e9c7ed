"""What a confined process can't do, tried from inside, at each level that this machine has."""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from grader.executors.compile import kept_builds
from grader.sandbox import allowed_paths, confinement
from grader.sandbox.confinement import Confinement, ConfinementError, Level
from tests.support.confined import LEVELS, Room, alive, own_pid, skip_unless

REPOSITORY = Path(__file__).parents[3]
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")

READ = """
def read(path):
    if os.path.isdir(path):
        os.listdir(path)
    else:
        open(path, "rb").read(1)
"""


@pytest.fixture(params=LEVELS, ids=lambda level: level.value)
def room(request, tmp_path) -> Room:
    """A confined room at each level."""
    return Room(tmp_path, skip_unless(request.param))


@pytest.fixture
def namespaces(tmp_path) -> Room:
    """A room in namespaces."""
    return Room(tmp_path, skip_unless(Level.bubblewrap))


def expect_refused(told: dict[str, str | None]) -> None:
    """Each attempt ended in an error."""
    assert told, "nothing was tried"
    assert not [name for name, error in told.items() if error is None], told


# --- files ----------------------------------------------------------------------------------------


def test_the_project_and_the_machine_can_not_be_read(room, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "secret").write_text("secret")
    (room.root / "beside").write_text("secret")
    paths = [
        *(REPOSITORY / name for name in ("reference", "tests", "assignment", "pyproject.toml")),
        *(REPOSITORY / "grader" / name for name in ("exercises", "sandbox", "__init__.py")),
        Path("/etc/shadow"),
        Path("/etc/passwd"),
        Path.home(),
        other / "secret",
        room.root / "beside",
    ]
    paths = [path for path in paths if path.exists()]
    given = {"paths": [str(path) for path in paths]}
    lines = READ + 'tell({path: refused(read, path) for path in given["paths"]})'
    (told,) = room.run(lines, given)
    assert len(told) == len(paths)
    if room.confinement.level is Level.bubblewrap:  # folders above what is mounted do exist
        told = {path: error for path, error in told.items() if not _leads_somewhere(Path(path))}
    expect_refused(told)


def _leads_somewhere(path: Path) -> bool:
    """Whether something mounted lies below, so that the folder exists, with that alone in it."""
    mounted = allowed_paths.mounts(allowed_paths.readable("cpu")).binds
    return any(Path(each).is_relative_to(path) for each in mounted)


def test_above_what_is_mounted_only_the_way_down_is_seen(namespaces):
    lines = 'tell({path: os.listdir(path) for path in given["paths"]})'
    paths = [str(REPOSITORY), str(REPOSITORY / "grader")]
    (told,) = namespaces.run(lines, {"paths": paths})
    venv = [Path(sys.prefix).relative_to(REPOSITORY).parts[0]] if _venv_is_inside() else []
    assert set(told[paths[0]]) == {"grader", *venv}
    assert told[paths[1]] == ["worker"]


def _venv_is_inside() -> bool:
    return Path(sys.prefix).is_relative_to(REPOSITORY)


def test_no_link_in_proc_leads_around_it(room):
    lines = READ + (
        'tell({path: refused(read, path + given["path"]) for path in '
        '["/proc/self/root", "/proc/self/cwd/../../../../../../../..", "/proc/1/root"]})'
    )
    (told,) = room.run(lines, {"path": str(REPOSITORY / "pyproject.toml")})
    expect_refused(told)


def test_the_graders_process_can_not_be_read(room):
    paths = [f"/proc/{own_pid()}/{name}" for name in ("environ", "cmdline", "mem", "fd", "maps")]
    paths.append("/proc/1/environ" if room.confinement.level is Level.landlock else paths[0])
    lines = READ + 'tell({path: refused(read, path) for path in given["paths"]})'
    (told,) = room.run(lines, {"paths": paths})
    expect_refused(told)


def test_the_fork_server_can_not_be_read_or_signalled(room):
    lines = """
parent = os.getppid()
told = {name: refused(open, f"/proc/{parent}/{name}", "rb") for name in ("environ", "mem", "maps")}
killed = refused(os.kill, parent, 9)  # to the init of a namespace it is dropped without a word
tell(told)
tell(killed if plan["landlock"] else "dropped")
"""
    told, killed = room.run(lines)  # ends well, so the parent is alive
    expect_refused(told)
    assert killed


def test_nothing_outside_the_scratch_folder_can_be_written(room):
    paths = [
        *(room.root, room.submission, REPOSITORY, REPOSITORY / "grader" / "worker"),
        *map(Path, ("/", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/proc", "/sys", "/run", "/usr")),
        *(Path(sys.prefix) / "lib", Path.home()),
    ]
    lines = 'tell({path: refused(open, path + "/left_behind", "w") for path in given["paths"]})'
    (told,) = room.run(lines, {"paths": [str(path) for path in paths]})
    expect_refused(told)
    assert not [path for path in paths if (path / "left_behind").exists()]


def test_files_there_can_not_be_changed(room):
    (room.submission / "kernel.py").write_text("honest")
    lines = """
path = given["path"]
tell({
    "write": refused(open, path, "r+"),
    "truncate": refused(os.truncate, path, 0),
    "remove": refused(os.unlink, path),
    "rename": refused(os.rename, path, path + "2"),
    "move here": refused(os.rename, path, os.environ["HOME"] + "/kernel.py"),
    "link": refused(os.link, path, os.environ["HOME"] + "/kernel.py"),
    "mode": refused(os.chmod, path, 0o777),
    "owner": refused(os.chown, path, os.getuid(), -1),
    "times": refused(os.utime, path, (1, 1)),
    "attribute": refused(os.setxattr, path, "user.x", b"1"),
    "mode of a device": refused(os.chmod, "/dev/full", 0o666),
})
"""
    (told,) = room.run(lines, {"path": str(room.submission / "kernel.py")})
    expect_refused(told)
    assert (room.submission / "kernel.py").read_text() == "honest"


def test_the_scratch_folder_can_be_written(room):
    lines = """
home = Path(os.environ["HOME"])
(home / "a").mkdir()
(home / "a" / "b").write_text("text")
(home / "a" / "b").rename(home / "c")  # as compilers do with what they have finished
tell((home / "c").read_text())
tell(os.getcwd() == str(home))
Path("/dev/null").write_text("gone")
"""
    assert room.run(lines) == ["text", True]


def test_no_folder_can_be_made_that_could_not_be_emptied(room):
    lines = """
tell({
    "unreadable": refused(os.mkdir, "a", 0o300),
    "unwritable": refused(os.mkdir, "a", 0o500),
    "unsearchable": refused(os.mkdir, "a", 0o600),
    "by a mask": refused(os.umask, 0o400),
})
os.mkdir("b", 0o700)
os.umask(0o77)
"""
    (told,) = room.run(lines)
    expect_refused(told)


def test_the_scratch_folder_is_bounded(monkeypatch, namespaces):
    monkeypatch.setattr(confinement, "SCRATCH_BYTES", 1 << 20)
    lines = """
with open(os.environ["HOME"] + "/flood", "wb", buffering=0) as file:
    written = [refused(file.write, bytes(1 << 19)) for _ in range(4)]
tell(written[-1])
"""
    assert namespaces.run(lines) == ["ENOSPC"]
    assert not list(namespaces.scratch.iterdir())


# --- network and sockets --------------------------------------------------------------------------


def test_there_are_no_sockets_to_the_outside(room, tmp_path):
    lines = """
families = {name: getattr(socket, name) for name in
            ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_UNIX")}
tell({f"{name} {kind}": refused(socket.socket, family, kind)
      for name, family in families.items()
      for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW)})
tell({str(kind): refused(socket.socketpair, socket.AF_UNIX, kind)
      for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW)})
# The upper half of an argument that the kernel reads as an int must not hide anything.
tell({"socket": refused(libc.syscall, 41, ctypes.c_ulong(1 << 32 | 2), 1, 0)})
a, b = socket.socketpair()
a.send(b"x")
tell(b.recv(1).decode())
"""
    *told, works = room.run(lines)
    for each in told:
        expect_refused(each)
    assert works == "x"


def test_listening_servers_can_not_be_reached(room, tmp_path):
    """With a socket that was made before, so that nothing but the connection is tried."""
    path = tmp_path / "listener"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket() as spare_tcp,
        socket.socket(socket.AF_UNIX) as spare_named,
        socket.socket(socket.AF_UNIX) as spare_abstract,
    ):
        named.bind(str(path))
        abstract.bind(f"\0warpgrade-{own_pid()}")
        for server in (named, abstract):
            server.listen()
        spares = [each.fileno() for each in (spare_tcp, spare_named, spare_abstract)]
        given = {
            "spares": spares,
            "targets": [list(tcp.getsockname()), str(path), f"\0warpgrade-{own_pid()}"],
        }
        lines = """
told = {}
for number, target in zip(given["spares"], given["targets"]):
    spare = socket.socket(fileno=number)
    target = tuple(target) if isinstance(target, list) else target
    told[str(target)] = refused(spare.connect, target)
tell(told)
"""
        (told,) = room.run(lines, given, fds=tuple(spares))
    expect_refused(told)


# --- other processes ------------------------------------------------------------------------------


def test_other_processes_can_not_be_signalled_or_slowed(room):
    # Each would change nothing if it worked: the values are what they are already.
    lines = """
import fcntl, resource, signal
def own(command):
    r, w = os.pipe()
    return fcntl.fcntl(r, command, given["pid"])
pid = given["pid"]
tell({
    "kill": refused(os.kill, pid, 0),
    "continue": refused(os.kill, pid, signal.SIGCONT),
    "tgkill": refused(libc.tgkill, pid, pid, 0),
    "pidfd": refused(lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0)),
    "prlimit": refused(resource.prlimit, pid, resource.RLIMIT_CPU, given["cpu"]),
    "priority": refused(os.setpriority, os.PRIO_PROCESS, pid, given["nice"]),
    "affinity": refused(os.sched_setaffinity, pid, given["affinity"]),
    "scheduler": refused(os.sched_setscheduler, pid, os.SCHED_OTHER, os.sched_param(0)),
    "owner of a pipe": refused(own, 8),
})
"""
    pid = own_pid()
    given = {
        "pid": pid,
        "cpu": resource.getrlimit(resource.RLIMIT_CPU),
        "nice": os.getpriority(os.PRIO_PROCESS, pid),
        "affinity": sorted(os.sched_getaffinity(pid)),
    }
    (told,) = room.run(lines, given)
    expect_refused(told)


def test_other_processes_can_not_be_traced(room):
    lines = """
pid = given["pid"]
buffer = ctypes.create_string_buffer(8)
vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
tell({
    "attach": refused(libc.ptrace, 16, pid, 0, 0),
    "seize": refused(libc.ptrace, 0x4206, pid, 0, 0),
    "read": refused(libc.process_vm_readv, pid, vector, 1, vector, 1, 0),
    "write": refused(libc.process_vm_writev, pid, vector, 1, vector, 1, 0),
    "descriptor": refused(lambda: libc.syscall(438, os.pidfd_open(pid), 0, 0)),
})
"""
    (told,) = room.run(lines, {"pid": own_pid()})
    expect_refused(told)


def test_other_processes_are_not_seen(room):
    lines = """
try:
    tell(sorted(int(each) for each in os.listdir("/proc") if each.isdigit()))
except PermissionError:
    tell([])
"""
    (told,) = room.run(lines)
    # In a namespace there are the fork server and the worker; threads have taken numbers between.
    assert not told or (len(told) == 2 and told[0] == 1)


def test_a_worker_can_end_itself_by_a_signal(room):
    """abort() and faults must show as what they are, in the student's report."""
    process = room.start("import signal\nos.kill(os.getpid(), signal.SIGABRT)")
    process.communicate(timeout=60)
    assert process.returncode in (-6 % 256, 250)


# --- privileges and the kernel --------------------------------------------------------------------


def test_there_are_no_privileges(room):
    lines = """
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
tell({name: int(status[name], 16) for name in status if name.startswith("Cap")})
tell(int(status["NoNewPrivs"]))
tell(os.getuid())
"""
    capabilities, no_new_privileges, uid = room.run(lines)
    if os.geteuid() != 0:  # what it may never get back either, once no new privileges are
        del capabilities["CapBnd"]
    assert set(capabilities.values()) == {0}
    assert no_new_privileges == 1
    if room.confinement.level is Level.bubblewrap:
        assert uid != 0


def test_the_system_can_not_be_changed(room):
    """Refused before the arguments are looked at, which are such that nothing would change."""
    lines = """
nowhere = b"/nowhere/at/all"
tell({
    "mount": refused(libc.mount, b"none", nowhere, b"tmpfs", 0, None),
    "umount": refused(libc.umount2, nowhere, 2),
    "chroot": refused(libc.chroot, nowhere),
    "user namespace": refused(libc.unshare, 0x10000000),
    "mount namespace": refused(libc.unshare, 0x00020000),
    "setns": refused(libc.setns, -1, 0),
    "host name": refused(libc.sethostname, b"", -1),
    "setuid": refused(os.setuid, os.getuid()),
    "personality": refused(libc.personality, ctypes.c_ulong(0xFFFFFFFF)),
    "device": refused(libc.mknod, nowhere, 0o020666, 0),
})
"""
    (told,) = room.run(lines)
    assert set(told.values()) == {"EPERM"}, told


def test_the_kernels_settings_can_not_be_written(room):
    lines = """
paths = ["/proc/sys/kernel/core_pattern", "/proc/self/oom_score_adj", "/proc/sysrq-trigger"]
tell({path: refused(os.open, path, os.O_WRONLY) for path in paths})
"""
    (told,) = room.run(lines)
    expect_refused(told)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")
def test_rare_system_calls_are_refused_by_number(room):
    """With arguments that would end in another error."""
    lines = """
clone_new_user = 0x10000000 | 17
upper = ctypes.c_ulong(1 << 63 | clone_new_user)
tell({
    "clone into a namespace": refused(libc.syscall, 56, clone_new_user, 0, 0, 0, 0),
    "the same, by its upper half": refused(libc.syscall, 56, upper, 0, 0, 0, 0),
    "clock": refused(libc.syscall, 227, 0, 0),
    "io_uring": refused(libc.syscall, 425, 0, 0),
    "userfaultfd": refused(libc.syscall, 323, -1),
    "perf": refused(libc.syscall, 298, 0, 0, 0, 0, -1),
    "keyring": refused(libc.syscall, 250, 9999, 0, 0, 0, 0),
    "add_key": refused(libc.syscall, 248, 0, 0, 0, 0, 0),
    "bpf": refused(libc.syscall, 321, 9999, 0, 0),
    "fchmodat2": refused(libc.syscall, 452, -1, 0, 0, 0),
    "setxattrat": refused(libc.syscall, 463, -1, 0, 0, 0, 0, 0),
    "fcntl, by its upper half": refused(libc.syscall, 72, -1, ctypes.c_ulong(1 << 32 | 8), 0),
    "terminal input": refused(libc.syscall, 16, -1, ctypes.c_ulong(1 << 32 | 0x5412), 0),
    "a lease on a file": refused(libc.syscall, 72, -1, 1024, 0),
    "a file's flags": refused(libc.syscall, 16, -1, 0x40086602, 0),
    "the same, with more bits": refused(libc.syscall, 16, -1, ctypes.c_ulong(1 << 32 | 0x5401), 0),
    "a file's extents": refused(libc.syscall, 16, -1, 0x2, 0),
})
tell(refused(libc.syscall, 435, 0, 0))
"""
    told, clone3 = room.run(lines)
    assert set(told.values()) == {"EPERM"}, told
    assert clone3 == "ENOSYS"  # so that the C library makes threads by clone()


def test_nothing_is_left_in_the_kernel(room):
    lines = """
tell({
    "shared memory": refused(libc.shmget, 1, 0, 0),
    "semaphores": refused(libc.semget, 1, 0, 0),
    "messages": refused(libc.msgget, 1, 0),
    "message queue": refused(libc.mq_open, b"/nowhere", 0),
})
tell({"memory file": refused(os.memfd_create, "x")})
"""
    told, others = room.run(lines)
    assert set(told.values()) == {"EPERM"}, told
    expect_refused(others)


def test_the_environment_is_what_was_given(room, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_GRADER", "1")
    (told,) = room.run("tell(dict(os.environ))")
    assert told.pop("PWD", str(room.scratch)) == str(room.scratch)  # bubblewrap sets it
    assert told == room.environment


def test_no_shell_and_no_compiler_can_be_started(room):
    lines = """
import subprocess
told = {}
for program in ("/bin/sh", "/usr/bin/env", "/usr/bin/gcc", "/usr/bin/perl"):
    told[program] = refused(subprocess.run, [program, "--version"])
tell(told)
"""
    (told,) = room.run(lines)
    expect_refused(told)


# --- the end --------------------------------------------------------------------------------------


def test_no_process_leaves_its_workers_group(room):
    """One signal to the group reaches each that a worker has started."""
    lines = """
def leaves(attempt):
    child = os.fork()
    if child == 0:
        os._exit(refused(attempt) is None)
    return None if os.waitpid(child, 0)[1] else "refused"
tell({
    "a session": leaves(os.setsid),
    "a group": leaves(os.setpgrp),
    "a child's group": leaves(lambda: os.setpgid(os.getpid(), 0)),
})
"""
    (told,) = room.run(lines)
    expect_refused(told)


def test_with_its_parent_every_process_ends(namespaces):
    lines = """
if os.fork() == 0:
    refused(os.setsid)
    if os.fork() == 0:
        tell("here")
        while True:
            import time
            time.sleep(1)
    os._exit(0)
while True:
    import time
    time.sleep(1)
"""
    process = namespaces.start(lines)
    process.stdout.readline()
    found = psutil.Process(process.pid).children(recursive=True)
    assert len(found) >= 3
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(alive(each.pid) for each in found) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [each for each in found if alive(each.pid)]
    process.stdout.close()
    process.stderr.close()


def test_processes_inside_are_found_outside(room):
    process = room.start("tell(os.getpid())\nimport time\ntime.sleep(60)")
    inner = int(process.stdout.readline())
    pid = confinement.outer_pid(inner, process.pid)
    try:
        assert pid is not None
        assert alive(pid)
        assert process.pid in [each.pid for each in psutil.Process(pid).parents()]
        assert (pid == inner) is (not room.confinement.has_own_pids)
        assert confinement.outer_pid(99999999, process.pid) is None
        assert confinement.outer_pid(own_pid(), process.pid) is None
    finally:
        for each in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                each.kill()
        process.kill()
        process.communicate()


def test_a_process_that_is_gone_has_no_number():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert confinement.outer_pid(1, gone.pid) is None


# --- what kernels need ----------------------------------------------------------------------------

KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)

x = torch.ones(100)
double_kernel[(2,)](x, 100, BLOCK=64)
tell(x.sum().item())

import pathlib, subprocess
ptxas = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
tell(subprocess.run([ptxas, "--version"], capture_output=True).returncode)  # it compiles, too
"""


def test_triton_runs_and_compiles_inside(room):
    first = "os.environ['TRITON_INTERPRET'] = '1'; import torch, triton"
    assert room.run(KERNEL, {"first": first}) == [200.0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("level", LEVELS)
def test_a_compiled_kernel_runs_on_the_gpu_inside(tmp_path, level):
    room = Room(tmp_path, skip_unless(level, "cuda"))
    lines = KERNEL.replace("torch.ones(100)", 'torch.ones(100, device="cuda")')
    given = {"first": "os.environ['TRITON_CACHE_DIR'] = os.environ['HOME']; import torch, triton"}
    assert room.run(lines, given) == [200.0, 0]


@pytest.mark.gpu
@pytest.mark.parametrize("level", LEVELS)
def test_on_a_gpu_too_the_project_the_grader_and_the_network_are_out_of_reach(tmp_path, level):
    room = Room(tmp_path, skip_unless(level, "cuda"))
    (tmp_path / "secret").write_text("secret")
    lines = """
pid = given["pid"]
tell({
    "file": refused(open, given["path"]),
    "environment": refused(open, f"/proc/{pid}/environ"),
    "command line": refused(open, f"/proc/{pid}/cmdline"),
    "signal": refused(os.kill, pid, 0),
    "network": refused(socket.socket, socket.AF_INET, socket.SOCK_STREAM),
    "datagrams": refused(socket.socket, socket.AF_INET, socket.SOCK_DGRAM),
    "write": refused(open, given["path"] + "2", "w"),
})
"""
    (told,) = room.run(lines, {"path": str(tmp_path / "secret"), "pid": own_pid()})
    expect_refused(told)


# --- choosing -------------------------------------------------------------------------------------


@pytest.fixture
def fresh_probe():
    """Forget what was found out about this machine, before and after."""
    confinement._try.cache_clear()
    yield
    confinement._try.cache_clear()


def test_limits_always_work_and_are_never_enough():
    chosen = confinement.choose(Level.limits)
    assert not chosen.is_enough
    assert not chosen.in_force or "bounded by cgroup" in chosen.in_force[0]
    assert "no network" in chosen.missing


def test_the_strongest_level_is_taken():
    works = [offer.level for offer in confinement.probe() if offer.works]
    assert confinement.choose().level is works[0]


def test_without_bubblewrap_there_is_a_reason_and_advice(fresh_probe, monkeypatch):
    monkeypatch.setattr(confinement.shutil, "which", lambda name: None)
    with pytest.raises(ConfinementError) as caught:
        confinement.choose(Level.bubblewrap)
    text = str(caught.value)
    assert text == "no bubblewrap: bubblewrap isn't installed. apt install bubblewrap"
    assert confinement.choose().level is not Level.bubblewrap


@pytest.mark.parametrize(
    ("version", "words"), [(None, "landlockpy"), (0, "no Landlock"), (2, "version 2 here")]
)
def test_a_kernel_without_landlock_is_named(fresh_probe, monkeypatch, version, words):
    monkeypatch.setattr(confinement, "landlock_version", lambda: version)
    offer = confinement.probe()[1]
    assert not offer.works
    assert words in offer.reason
    assert offer.advice


@pytest.mark.parametrize("level", LEVELS)
def test_a_confinement_that_lets_something_through_is_not_used(fresh_probe, monkeypatch, level):
    """The trial has to notice: here nothing at all is confined."""
    skip_unless(level)
    confinement._try.cache_clear()
    monkeypatch.setattr(confinement, "_bubblewrap", lambda *_: [])
    monkeypatch.setattr(confinement, "lockdown_plan", lambda *_: {})
    offer = next(each for each in confinement.probe() if each.level is level)
    assert not offer.works
    assert "read a file of the grader" in offer.reason
    assert "reach the network" in offer.reason or not _has_a_route()


def _has_a_route() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        return trial.connect_ex(("192.0.2.1", 9)) != errno.ENETUNREACH


def test_a_trial_leaves_nothing_behind(fresh_probe, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    confinement.probe()
    assert not list(tmp_path.iterdir())


def test_a_submission_inside_the_scratch_folder_is_refused(tmp_path):
    with pytest.raises(ConfinementError, match="would not be read-only"):
        confinement.command(
            Confinement(Level.landlock, "cpu", (), ()),
            ["python"],
            scratch=tmp_path,
            submission=tmp_path / "submission",
            environment={},
        )


# --- the list of paths ----------------------------------------------------------------------------


def test_nothing_of_the_project_is_on_the_list():
    binds = allowed_paths.mounts(allowed_paths.readable("cpu")).binds
    inside = [each for each in binds if Path(each).is_relative_to(REPOSITORY)]
    venv = Path(sys.prefix).resolve()
    assert [each for each in inside if not Path(each).is_relative_to(venv)] == [
        str(REPOSITORY / "grader" / "worker")
    ]
    assert not [each for each in binds if REPOSITORY.is_relative_to(each)]


@pytest.mark.skipif(not HUGE_PAGES.exists(), reason="the kernel has no huge pages")
def test_compilers_can_ask_whether_there_are_huge_pages() -> None:
    """The C library gives them none otherwise, and a link takes longer."""
    assert HUGE_PAGES in allowed_paths.readable("emulator")
    assert HUGE_PAGES not in allowed_paths.readable("cpu")


def test_a_grader_installed_among_the_packages_is_left_out(monkeypatch, tmp_path):
    for name in ("grader/worker", "grader/spec", "torch"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(allowed_paths, "_GRADER_FOLDER", tmp_path / "grader")
    monkeypatch.setattr(allowed_paths, "WORKER_FOLDER", tmp_path / "grader" / "worker")
    monkeypatch.setattr(allowed_paths, "_python", lambda: (tmp_path,))
    found = [path for path in allowed_paths.readable("cpu") if tmp_path in path.parents]
    assert found == [tmp_path / "grader" / "worker", tmp_path / "torch"]


def test_packages_that_a_pth_file_names_are_readable_and_nothing_else_of_sys_path(
    monkeypatch, tmp_path
):
    other = tmp_path / "other" / "site-packages"
    other.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(other), str(tmp_path)])
    allowed_paths._python.cache_clear()
    try:
        found = allowed_paths.readable("cpu")
    finally:
        allowed_paths._python.cache_clear()
    assert other in found
    assert tmp_path not in found


def test_links_on_the_way_are_made_again(tmp_path):
    real = tmp_path / "real"
    (real / "lib").mkdir(parents=True)
    (real / "python3").write_text("")
    (tmp_path / "near").symlink_to("real")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to("../near/python3")
    tree = allowed_paths.mounts([tmp_path / "bin" / "python", tmp_path / "near" / "lib"])
    assert tree.links == {
        str(tmp_path / "bin" / "python"): "../near/python3",
        str(tmp_path / "near"): "real",
    }
    assert tree.binds == (str(real / "lib"), str(real / "python3"))


def test_a_loop_of_links_is_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many symbolic links"):
        allowed_paths.mounts([tmp_path / "a" / "c"])


def test_on_a_gpu_the_compiler_is_on_the_list():
    names = {str(path) for path in allowed_paths.readable("cuda")}
    assert {"/usr/bin", "/usr/include"} & names if os.path.isdir("/usr/include") else True  # noqa: PTH112
    assert "/usr/bin" not in {str(path) for path in allowed_paths.readable("cpu")}


def test_a_compilers_cache_that_isnt_there_yet_is_readable_once_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = tmp_path / "cache" / "warpgrade"
    assert cache in allowed_paths.readable("emulator") and cache.is_dir()


@pytest.mark.parametrize("device", ["cpu", "emulator", "cuda"])
def test_what_compilers_made_of_other_files_is_not_readable(device, tmp_path, monkeypatch):
    """Among them are the solutions' kernels, where the same user has graded these."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = kept_builds.folder()
    kept.mkdir()
    shown = allowed_paths.readable(device)
    assert not any(kept.is_relative_to(path) or path.is_relative_to(kept) for path in shown)
