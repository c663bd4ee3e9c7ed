"""Confines the fork server and its workers before a submission runs.

The grader sends a plan (JSON, from grader/sandbox/confinement.py). Every step is irreversible and
inherited. The fork server installs the system call filter for itself and all workers. Each worker
installs Landlock for itself, so that it can't reach the server and the other workers either, and a
second filter.

    {"filter": base64 of a seccomp program, or "",
     "worker_filter": the same, of the calls that only workers may not make
     "separate": {"devices": [path, ...]}, the files that a worker with a folder of its own may
                 write to beside it; null where the kernel has no Landlock
     "landlock": {"read": [path, ...], "execute": [...], "write": [...], "devices": [...],
                  "names_threads": whether it may write to its own entry in /proc} or null}

A step that fails raises OSError: no worker is better than an open one.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import platform
import socket
import sys
from typing import Any

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SECCOMP_SET_MODE_FILTER = 1
# For every thread, and without slower branches, which some kernels add to filtered processes.
_SECCOMP_FLAGS = 1 | 4
_CLONE_NEWUSER = 0x10000000

_libc = ctypes.CDLL(None, use_errno=True)


def secure_parent(plan: dict[str, Any]) -> None:
    """Confine the fork server and all its forks; nothing where the plan is empty."""
    if not plan:
        return
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    # Workers run as the same user, and could otherwise open its memory in /proc.
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))
    _drop_capabilities()
    if plan.get("landlock") or plan.get("separate"):
        import landlockpy

        landlockpy.abi_version()  # it finds libc by a program, which is out of reach later
    if plan.get("filter"):
        _load_filter(base64.b64decode(plan["filter"]))


def secure_worker(plan: dict[str, Any], traceable: bool = True) -> None:
    """Confine one worker, right after its fork and before it reads any of the submission.

    A worker that isn't `traceable` hides its memory and descriptors in /proc from the others, which
    run as the same user.
    """
    if not plan:
        return
    _check(_libc.prctl(_PR_SET_DUMPABLE, int(traceable), 0, 0, 0))
    if plan.get("landlock"):
        _restrict_files(plan["landlock"])
    if plan.get("worker_filter"):
        _load_filter(base64.b64decode(plan["worker_filter"]))


def restrict_writing(plan: dict[str, Any], folder: str) -> None:
    """Let this process and its children write to files in one folder only.

    Other workers of the same submission have the same user and the same scratch folder. Nothing
    happens where the kernel lacks Landlock, which `grader doctor` reports.
    """
    if not plan.get("separate"):
        return
    from landlockpy import AccessFS, Ruleset

    change = AccessFS.WRITE_FILE | AccessFS.TRUNCATE
    arrange = AccessFS.MAKE_REG | AccessFS.MAKE_DIR | AccessFS.MAKE_SYM | AccessFS.MAKE_FIFO
    arrange |= AccessFS.MAKE_SOCK | AccessFS.REMOVE_FILE | AccessFS.REMOVE_DIR | AccessFS.REFER
    with Ruleset(handled_fs=change | arrange) as ruleset:
        ruleset.allow_path(folder, change | arrange)
        for path in plan["separate"]["devices"]:
            is_folder = os.path.isdir(path)  # noqa: PTH112
            ruleset.allow_path(path, change | arrange if is_folder else change)
        ruleset.restrict()


def _restrict_files(rules: dict[str, list[str]]) -> None:
    """Landlock: paths by the rules, no TCP, no signals and no sockets to the outside."""
    from landlockpy import AccessFS, Ruleset, Scope

    read = AccessFS.READ_FILE | AccessFS.READ_DIR
    write = read | AccessFS.WRITE_FILE | AccessFS.TRUNCATE | AccessFS.REFER
    write |= AccessFS.MAKE_REG | AccessFS.MAKE_DIR | AccessFS.MAKE_SYM | AccessFS.MAKE_FIFO
    write |= AccessFS.REMOVE_FILE | AccessFS.REMOVE_DIR
    use = read | AccessFS.WRITE_FILE | AccessFS.TRUNCATE | AccessFS.IOCTL_DEV
    rights = {"read": read, "execute": read | AccessFS.EXECUTE, "write": write, "devices": use}
    of_files = read & ~AccessFS.READ_DIR | AccessFS.EXECUTE | AccessFS.WRITE_FILE
    of_files |= AccessFS.TRUNCATE | AccessFS.IOCTL_DEV
    with Ruleset(scoped=Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET) as ruleset:
        for kind, access in rights.items():
            for path in rules[kind]:
                only = access if os.path.isdir(path) else access & of_files  # noqa: PTH112
                ruleset.allow_path(path, only)
        # Its own /proc entry; the open descriptor keeps the entry, and so the rule, alive.
        own = os.open("/proc/self", os.O_PATH | os.O_CLOEXEC)
        named = read | AccessFS.WRITE_FILE | AccessFS.TRUNCATE
        of_own = named if rules.get("names_threads") else read
        ruleset.allow_path(f"/proc/self/fd/{own}", of_own)
        ruleset.restrict()


def _drop_capabilities() -> None:
    """Drop root's capabilities; nothing happens for other users."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails where there is none to drop
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(_libc.syscall(_number(_SYS_CAPSET), header, none))


def _load_filter(program: bytes) -> None:
    """Install a seccomp program."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    instructions = ctypes.create_string_buffer(program, len(program))
    description = Program(len(program) // 8, ctypes.addressof(instructions))
    arguments = (_SECCOMP_SET_MODE_FILTER, _SECCOMP_FLAGS, ctypes.byref(description))
    _check(_libc.syscall(_number(_SYS_SECCOMP), *arguments))


def _number(numbers: dict[str, int]) -> int:
    machine = platform.machine()
    if machine not in numbers:
        raise OSError(f"confinement knows no system call numbers of {machine}")
    return numbers[machine]


def _check(result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"confinement: {os.strerror(code)}")


# --- the trial: the grader starts this file to test confinement on this machine -------------------


def _trial(plan: dict[str, Any], scratch: str, secret: str, grader: int, device: str) -> list[str]:
    """Attempts that succeed under confinement and shouldn't, and those that fail and shouldn't.

    `secret` is a file of the grader's; `grader` its process, or 0 with process numbers of its own.
    """
    secure_parent(plan)
    secure_worker(plan)
    attempts = {
        "read a file of the grader": lambda: os.open(secret, os.O_RDONLY),
        "write beside a file of the grader": lambda: os.open(
            f"{secret}.new", os.O_WRONLY | os.O_CREAT
        ),
        "read the grader's environment": lambda: os.open(f"/proc/{grader}/environ", os.O_RDONLY),
        "see other processes": _others,
        "signal the grader": lambda: os.kill(grader, 0),
        "reach the network": _connect,
        "make a user namespace": lambda: _check(_libc.unshare(_CLONE_NEWUSER)),
    }
    if plan.get("filter"):
        attempts["change a file's mode"] = lambda: os.chmod(scratch, 0o755)  # noqa: PTH101
    if not grader:
        del attempts["signal the grader"], attempts["read the grader's environment"]
    possible = [name for name, attempt in attempts.items() if _works(attempt)]
    own = f"{scratch}/trial"
    if not _works(lambda: os.close(os.open(own, os.O_WRONLY | os.O_CREAT))):
        possible.append("not write to its own folder")
    if not _works(lambda: os.listdir(os.path.dirname(os.__file__))):  # noqa: PTH120, PTH208
        possible.append("not read Python's library")
    if device == "cuda" and not _works(_start_driver):
        possible.append("not start the CUDA driver")
    with contextlib.suppress(OSError):
        os.unlink(own)  # noqa: PTH108
    return possible


def _others() -> None:
    visible = [each for each in os.listdir("/proc") if each.isdigit()]  # noqa: PTH208
    if visible == [str(os.getpid())]:
        raise OSError("nobody")


def _connect() -> None:
    """Connect a datagram socket, which needs a route but no listener."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
        unconnected.connect(("192.0.2.1", 9))


def _start_driver() -> None:
    code = ctypes.CDLL("libcuda.so.1").cuInit(0)
    if code != 0:
        raise OSError(f"CUDA error {code}")


def _works(attempt: Any) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    scratch, secret, grader, device, plan = sys.argv[1:]
    print(json.dumps(_trial(json.loads(plan), scratch, secret, int(grader), device)))
