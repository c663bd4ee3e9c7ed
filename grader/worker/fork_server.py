"""The fork server: imports what workers need once, then forks a worker for each request.

There are four kinds of fork server:

    plans     its workers plan, compile or execute Triton kernels: see plan_processes.py
    python    its workers are baselines, in Python of ours: see baseline_host.py
    inductor  the same, for torch.compile too
    native    its workers compile CUDA C++ (builder.py), or become the compiled program (native/)

All but the last import torch, the first one triton, and the third torch.compile. That takes
seconds, whereas a fork takes milliseconds. So the case after a dead worker only waits for a fork.
The last one imports what compiles when there is the first source to compile.

The server stays single-threaded and never touches a GPU (a process that has can't be forked). It
runs no submission code itself, but its children run as the same user and could tamper with it. So
the grader trusts only its reports of how a child ended, and survives its death.

Control messages are JSON in SOCK_SEQPACKET datagrams. From the grader:

    {"id": 1, "path": "...", "entry": "...", "options": [], "device": "cpu",
     "role": "planner", "memory_bytes": ...,
     "buffers": [[length, writable], ...]}       with descriptors: request socket, log pipe, buffers

where "on_gpu": true means that the buffers are on the GPU (gpu_mapping.py); in a native server,
"build": {...} means that `path` is a source to compile (builder.py).

and {"id": 2, "empty": true} has the scratch folder emptied, for another submission.

To the grader: {"ready": true}, {"id": 1, "pid": ...}, {"id": 1, "exit": wait status},
{"id": 2, "emptied": whether it is}.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import lockdown
from .emptying import is_emptied

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
MAX_DESCRIPTORS = 8
MAX_MESSAGE = 1 << 17  # bytes
MAX_FILE_BYTES = 256 << 20
_IDLE_MILLISECONDS = 5  # without a message, before a step of idle work
_REAP_MILLISECONDS = 100  # between searches for orphans that have ended
_MOST_REAPED = 4096  # at a time: some submissions start processes without end
_FORK_TRIES = 20  # while a submission's processes leave no room for another one
MAX_PROCESSES = 256  # and threads, of one submission

# What torch.compile imports at its first compilation, which each worker would import for itself.
_OF_A_FIRST_COMPILATION = (
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch._inductor.codegen.cpp_wrapper_gpu",
    "torch._inductor.codegen.halide",
    "torch._inductor.codegen.mps",
    "torch._inductor.codegen.pallas",
    "torch._inductor.codegen.wrapper_fxir",
    "torch._inductor.fx_passes.quantization",
    "torch._inductor.fx_passes.fuse_attention",
    "torch._inductor.fx_passes.mkldnn_fusion",
    "torch._inductor.fx_passes.pad_mm",
    "torch._inductor.runtime.caching",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "triton.compiler.code_generator",
    "sympy.tensor.tensor",
)

Children = dict[int, tuple[int, int]]  # pid -> (id, pidfd)


def main(control_fd: int, kind: str, plan: dict[str, Any]) -> None:
    """Import what workers of this kind need, and `serve`."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    gc.disable()  # imported objects live to the end: collections would only take time
    if kind != "native":
        import_frameworks(kind)
    serve(socket.socket(fileno=control_fd), kind, plan)


def serve(control: socket.socket, kind: str, plan: dict[str, Any]) -> None:
    """Serve control messages until the grader closes the socket.

    `kind` is one of the four above; for `plan` see lockdown.py.
    """
    os.set_inheritable(control.fileno(), False)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans of workers stay visible to the grader
    # No setuid program helps a submission; and no descendant can drop this flag (processes.py).
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    lockdown.secure_parent(plan)
    gc.freeze()  # keeps the collector from touching, and so copying, the server's pages
    gc.enable()
    _send(control, {"ready": True})
    children: Children = {}
    poller = select.poll()
    poller.register(control, select.POLLIN)
    idle_work = _idle_work(kind)
    has_children = False
    while True:
        pause = _REAP_MILLISECONDS if has_children else None
        ready = poller.poll(_IDLE_MILLISECONDS if idle_work else pause)
        if not ready and idle_work is not None and next(idle_work, None) is None:
            idle_work = None
        is_asked = any(fd == control.fileno() for fd, _ in ready)
        if is_asked and not _spawn(control, children, poller, kind, plan):
            return
        has_children = _reap(control, children, poller)


def _idle_work(kind: str) -> Iterator[int] | None:
    """Work in small steps while no message waits; None where there is none."""
    if kind == "inductor":
        return _importing(_OF_A_FIRST_COMPILATION)
    if kind != "plans":  # the others fork rarely, or have little to copy
        return None
    from . import huge_pages

    return huge_pages.gathering()


def _importing(modules: Sequence[str]) -> Iterator[int]:
    """Import one module a step; one that this version of torch lacks is left out."""
    for number, name in enumerate(modules):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        gc.freeze()  # as after the other imports
        yield number


def import_frameworks(kind: str) -> None:
    """Import what workers of a kind need."""
    import numpy  # noqa: F401
    import torch

    torch.set_num_threads(1)  # a fork after a parallel torch operation would hang
    if kind == "plans":
        from . import plan_processes

        plan_processes.prepare()
        return
    from . import baseline_host  # noqa: F401

    if kind == "inductor":
        # It asks whether there is a GPU; by NVML, since a process that called CUDA can't be forked.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        import torch._dynamo
        import torch._inductor.compile_fx


def _spawn(
    control: socket.socket, children: Children, poller: select.poll, kind: str, plan: dict[str, Any]
) -> bool:
    """Fork a worker for one message; False when the grader has gone."""
    message, descriptors = receive(control)
    if message is None:
        return False
    if "empty" in message:
        _send(control, {"id": message["id"], "emptied": is_emptied(os.environ["HOME"])})
        return True
    if "build" in message:
        from . import builder

        builder.prepare()  # before the fork, so that only the first build imports it
    if message.get("role") == "planner":
        _remove_folders_of_ended(children)
    pid = _forked(lambda: _reap(control, children, poller))
    if pid == 0:
        status = 1
        try:
            control.close()
            _become_worker(message, descriptors, kind, plan)
            status = 0
        except BaseException:
            traceback.print_exc()  # to the log, once stderr leads there
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)
    for descriptor in descriptors:
        os.close(descriptor)
    pidfd = os.pidfd_open(pid)
    children[pid] = (message["id"], pidfd)
    poller.register(pidfd, select.POLLIN)
    _send(control, {"id": message["id"], "pid": pid})
    return True


def _forked(reap: Callable[[], object]) -> int:
    """Fork as os.fork does, and wait while a control group has no room for another process.

    Processes that have ended take room there until they are reaped.
    """
    for _ in range(_FORK_TRIES):
        with contextlib.suppress(BlockingIOError):
            return os.fork()
        reap()
        time.sleep(_REAP_MILLISECONDS / 1000)
    return os.fork()


def _remove_folders_of_ended(children: Children) -> None:
    """Remove what planners left that have ended, so that the next one finds nothing of theirs.

    Two fresh planners have to give the same plan, and the first could leave a number that it has
    drawn to the second.
    """
    live = {str(number) for number, _ in children.values()}
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(_of_role("planner"))):
            if entry.name not in live:
                is_emptied(entry.path)
                os.rmdir(entry.path)  # noqa: PTH106 (pathlib costs an import here)


def _of_role(role: str) -> str:
    return os.path.join(os.environ["HOME"], role)  # noqa: PTH118


def _reap(control: socket.socket, children: Children, poller: select.poll) -> bool:
    """Reap children that have ended, orphans too, and report workers; whether children are left.

    Orphans are ours by PR_SET_CHILD_SUBREAPER. With a worker, what it has left in its process group
    is ended.
    """
    for _ in range(_MOST_REAPED):
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if ended is None:
            break
        if ended.si_pid in children:
            with contextlib.suppress(OSError):  # while it isn't reaped, nobody else has its number
                os.killpg(ended.si_pid, signal.SIGKILL)
        _, status = os.waitpid(ended.si_pid, 0)
        if ended.si_pid in children:
            number, pidfd = children.pop(ended.si_pid)
            poller.unregister(pidfd)
            os.close(pidfd)
            _send(control, {"id": number, "exit": status})
    return True


def _become_worker(
    message: dict[str, Any], descriptors: list[int], kind: str, plan: dict[str, Any]
) -> None:
    request_fd, log_fd, *buffer_fds = descriptors
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.close(null)
    os.close(log_fd)
    if kind == "native":
        _limit(message.get("memory_bytes"), plan)
        lockdown.secure_worker(plan)
        _become_native(message, request_fd, buffer_fds)
    elif kind == "plans":
        from . import plan_processes

        _move_to_own_folder(message, plan)
        buffers = plan_processes.open_buffers(buffer_fds, message["buffers"])
        _limit(message.get("memory_bytes"), plan)
        lockdown.secure_worker(plan, traceable=message["role"] == "planner")
        plan_processes.serve(socket.socket(fileno=request_fd), message, buffers)
    else:
        _become_python(message, request_fd, buffer_fds, plan)


def _move_to_own_folder(message: dict[str, Any], plan: dict[str, Any]) -> None:
    """Work in a subfolder of the scratch folder that workers of other roles can't write to.

    Each planner has one of its own, which is empty.
    """
    folder = _of_role(message["role"])
    if message["role"] == "planner":
        folder = os.path.join(folder, str(message["id"]))  # noqa: PTH118
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    os.chdir(folder)
    os.environ |= {"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": f"{folder}/triton"}
    tempfile.tempdir = None
    lockdown.restrict_writing(plan, folder)


def _become_native(message: dict[str, Any], request_fd: int, buffer_fds: list[int]) -> None:
    """Compile a source, or become a compiled program."""
    if "build" in message:
        from . import builder

        requests = socket.socket(fileno=request_fd)
        builder.serve(requests, buffer_fds[0], message["path"], message["build"])
        return
    line = [message["path"], *message["options"]]
    buffers = list(zip(buffer_fds, message["buffers"], strict=True))
    if message.get("on_gpu"):
        line.append("--on-gpu")
    line += [str(request_fd), message["entry"]]
    line += [f"{fd}:{length}:{int(writable)}" for fd, (length, writable) in buffers]
    for fd in (request_fd, *buffer_fds):
        os.set_inheritable(fd, True)
    os.execv(message["path"], line)


def _become_python(
    message: dict[str, Any], request_fd: int, buffer_fds: list[int], plan: dict[str, Any]
) -> None:
    """Serve requests about a Python file of ours."""
    faulthandler.enable()
    from . import baseline_host, gpu_mapping, memory

    opened: Callable[[int, int, bool], memory.TensorSource]
    opened = gpu_mapping.GpuBuffer if message.get("on_gpu") else memory.map_buffer
    buffers = [
        opened(fd, length, writable)
        for fd, (length, writable) in zip(buffer_fds, message["buffers"], strict=True)
    ]
    _limit(message.get("memory_bytes"), plan)
    lockdown.secure_worker(plan)
    baseline_host.serve(
        socket.socket(fileno=request_fd),
        buffers,
        path=message["path"],
        entry=message["entry"],
        device=message["device"],
    )


def _limit(memory_bytes: int | None, plan: dict[str, Any]) -> None:
    """Set limits that the worker can't raise again.

    `memory_bytes` is None where address space doesn't measure memory: CUDA and the emulator reserve
    more than they use.
    """
    # Without namespaces the limit counts the user's other processes, or doesn't apply to root.
    if plan and not plan.get("landlock"):
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_PROCESSES, MAX_PROCESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE_BYTES, MAX_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
    if memory_bytes:
        with open("/proc/self/statm") as statm:  # noqa: PTH123 (pathlib costs an import here)
            pages = int(statm.read().split()[0])
        limit = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def receive(control: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message and its descriptors; None at the end of them."""
    size = MAX_DESCRIPTORS * array.array("i").itemsize
    try:
        data, ancillary, _, _ = control.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(size))
    except ConnectionError:
        return None, []
    if not data:
        return None, []
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
    return json.loads(data), list(descriptors)


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        control.send(json.dumps(message).encode())


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
