"""The preloader: imports torch and triton once, and forks the fork servers of a grade's sandboxes.

Processes of a grade have sandboxes of their own, and fifteen imports at a time take seconds more
than one. A fork server made here is confined by itself, as if it had been started: nothing of a
submission is in this process, and no worker can signal it (see grader/sandbox/preloader.py).

Requests are JSON in SOCK_SEQPACKET datagrams, from any process of the grade:

    {"plan": {...}, "environment": {...}, "folder": "...", "group": "..."}

with descriptors: the fork server's control socket, its log, and a lease. `group` is the file of a
control group that it enters, or "". The answer is the fork server's number, as text on the lease.
When the other end of the lease is closed, the fork server and all that it has left are ended.
Its number isn't given to another process before.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import tempfile
import traceback
from typing import Any, NoReturn

from . import fork_server, huge_pages

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_IDLE_MILLISECONDS = 5

Leases = dict[int, tuple[socket.socket, int]]  # by descriptor: the lease, and the fork server


def main(requests_fd: int) -> NoReturn:
    """Serve requests until no process has the other end of the socket."""
    requests = socket.socket(fileno=requests_fd)
    os.set_inheritable(requests_fd, False)
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans of a fork server that has ended come here
    gc.disable()
    trouble = ""
    try:
        fork_server.import_frameworks("plans")
    except Exception:
        trouble = traceback.format_exc()
    gc.freeze()
    leases: Leases = {}
    poller = select.poll()
    poller.register(requests, select.POLLIN)
    gathering = huge_pages.gathering()
    is_idle = False
    while True:
        ready = poller.poll(None if is_idle else _IDLE_MILLISECONDS)
        if not ready:
            is_idle = next(gathering, None) is None
        for fd, _ in ready:
            if fd != requests.fileno():
                poller.unregister(fd)
                _end(leases, fd)
            elif not _serve(requests, leases, poller, trouble):
                os._exit(0)  # fork servers end with this process


def _serve(requests: socket.socket, leases: Leases, poller: select.poll, trouble: str) -> bool:
    """Fork a fork server for one request; False where nobody can ask any more."""
    message, descriptors = fork_server.receive(requests)
    if message is None:
        return False
    control, log, lease_fd = descriptors
    lease = socket.socket(fileno=lease_fd)
    try:
        pid = 0 if trouble else _forked(requests, leases, descriptors, message)
    except OSError:
        trouble = traceback.format_exc()
    if trouble:
        os.write(log, trouble.encode())
        lease.close()
    else:
        with contextlib.suppress(OSError):  # who asked has ended: so will the lease
            lease.send(str(pid).encode())
        leases[lease_fd] = lease, pid
        poller.register(lease_fd, select.POLLIN)
    os.close(control)
    os.close(log)
    return True


def _forked(
    requests: socket.socket, leases: Leases, descriptors: list[int], message: dict[str, Any]
) -> int:
    """The number of a new fork server, which has nothing that leads to others. Raises OSError."""
    pid = os.fork()
    if pid == 0:
        control, log, lease_fd = descriptors
        requests.close()
        for fd in (lease_fd, *leases):
            os.close(fd)
        _become_fork_server(control, log, message)
    return pid


def _become_fork_server(control: int, log: int, message: dict[str, Any]) -> NoReturn:
    """Be what a start of start.py would be; leave nothing of the preloader's surroundings."""
    status = 1
    try:
        os.setsid()
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        if message["group"]:
            with open(message["group"], "w") as group:  # noqa: PTH123
                group.write("0")
        os.chdir(message["folder"])
        os.environ.update(message["environment"])
        tempfile.tempdir = None
        fork_server.serve(socket.socket(fileno=control), "plans", message["plan"])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _end(leases: Leases, fd: int) -> None:
    """End the fork server of a lease, and the orphans that it left."""
    lease, pid = leases.pop(fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    live = {pid for _, pid in leases.values()}
    while orphans := [child for child in _children() if child not in live]:
        for orphan in orphans:
            os.kill(orphan, signal.SIGKILL)
            os.waitpid(orphan, 0)  # its children come here, for the next round
    lease.close()


def _children() -> list[int]:
    """This process's children; none where the kernel keeps no list."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123
            return [int(each) for each in file.read().split()]
    except OSError:
        return []
