"""Makes things that an attack must not reach, anew for each run, and checks whether it did.

A folder beside the grader's own with files like the grader's, a process of the same user, listening
servers, a secret in files, environment, memory and command line. `known` tells the attack where
everything is, so that only confinement is in its way.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from grader.gpu.locks import FOLDER

_IPC_RMID = 0
_VICTIM_SECONDS = "600"
_REAPING_SECONDS = 10.0  # for killed processes to be gone, on a busy machine


class Canaries:
    """A context manager: makes them on entry and removes them on exit."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(16)
        self.mark = f"warpgrade-mark-{secrets.token_hex(6)}"  # in names of what attacks leave
        self.key = secrets.randbelow(1 << 30) + 1  # of a System V object
        self.known: dict[str, Any] = {}

    def __enter__(self) -> Canaries:
        self._before = {each.pid for each in psutil.Process().children(recursive=True)}
        self._kept_environment = os.environ.get("WARPGRADE_SECRET")
        os.environ["WARPGRADE_SECRET"] = self.token
        self.folder = Path(tempfile.mkdtemp(prefix="warpgrade-canary-"))
        self._make_files()
        self._memory = ctypes.create_string_buffer(self.token.encode())
        self._listen()
        self._victim = subprocess.Popen(
            ["sleep", _VICTIM_SECONDS],
            env={"PATH": os.environ.get("PATH", ""), "SECRET": self.token},
            start_new_session=True,
        )
        self.known = {
            "folder": str(self.folder),
            "port": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "abstract": self.mark,
            "victim": self._victim.pid,
            "grader": os.getpid(),
            "address": ctypes.addressof(self._memory),
            "mark": self.mark,
            "key": self.key,
        }
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._victim.pid, signal.SIGCONT)
        self._victim.kill()
        self._victim.wait()
        for each in self._sockets:
            each.close()
        for path in self._marked_files():
            path.unlink(missing_ok=True)
        self._remove_shared_memory()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.environ.pop("WARPGRADE_SECRET")
        if self._kept_environment is not None:
            os.environ["WARPGRADE_SECRET"] = self._kept_environment

    def touched(self) -> list[str]:
        """The changes and accesses of an attack; [] where there are none."""
        found = [f"file {name} was changed" for name in self._changed_files()]
        if self._victim.poll() is not None:
            found.append("another process was killed")
        elif psutil.Process(self._victim.pid).status() == psutil.STATUS_STOPPED:
            found.append("another process was stopped")
        elif psutil.Process(self._victim.pid).nice() != self._priority:
            found.append("another process's priority was changed")
        found += [f"somebody connected: {name}" for name in self._called()]
        found += [f"{path} was left" for path in self._marked_files()]
        if self._shared_memory() >= 0:
            found.append("a System V shared memory segment was left")
        found += [f"it left a process: {each}" for each in self.processes_left()]
        return found

    def processes_left(self) -> list[str]:
        """Processes that came since and stay, except the victim.

        In a sandbox that lives on, a killed orphan is reaped by the workers' parent when its next
        worker ends.
        """
        spare = {*self._before, self._victim.pid}
        deadline = time.monotonic() + _REAPING_SECONDS
        while True:
            children = psutil.Process().children(recursive=True)
            left = [each for each in children if each.pid not in spare and not _is_dead(each)]
            if not left or time.monotonic() > deadline:
                return [_called(each) for each in left]
            time.sleep(0.05)

    # --- files ----------------------------------------------------------------------------------

    def _make_files(self) -> None:
        texts = {
            "secret.txt": self.token,
            "results.json": '{"score": 0}',
            "exercises/silu.yaml": f"title: SiLU  # {self.token}\n",
            "grader/cases/compare.py": f"def judge(): ...  # {self.token}\n",
            "reference/silu.py": f"def silu(x, out): ...  # {self.token}\n",
            "other_submission/silu.py": f"def silu(x, out): ...  # {self.token}\n",
            "cache/readme": self.token,
        }
        for name, text in texts.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o644)
        self._files = self._look()

    def _look(self) -> dict[str, tuple[bytes, int, int]]:
        """Contents, mode and owner of every file, by name."""
        found = {}
        for path in sorted(self.folder.rglob("*")):
            state = path.lstat()
            contents = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path.relative_to(self.folder))] = (contents, state.st_mode, state.st_uid)
        return found

    def _changed_files(self) -> list[str]:
        now = self._look()
        names = sorted({*self._files, *now} - {"socket"})
        return [name for name in names if self._files.get(name) != now.get(name)]

    def _marked_files(self) -> list[Path]:
        places = {Path("/dev/shm"), Path("/dev/mqueue"), Path("/tmp"), Path("/var/tmp")}
        places |= {Path(tempfile.gettempdir()), Path.home()}
        found = []
        for place in places:
            with contextlib.suppress(OSError):
                found += [each for each in place.iterdir() if self.mark in each.name]
        return found

    # --- servers --------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind(f"\0{self.mark}")
        self._abstract.listen()
        self._named = socket.socket(socket.AF_UNIX)
        self._named.bind(str(self.folder / "socket"))
        self._named.listen()
        self._sockets = [self._tcp, self._udp, self._abstract, self._named]
        for each in self._sockets:
            each.setblocking(False)
        self._priority = psutil.Process().nice()

    def _called(self) -> list[str]:
        found = []
        streams = {"TCP": self._tcp, "abstract socket": self._abstract, "socket": self._named}
        for name, each in streams.items():
            with contextlib.suppress(BlockingIOError):
                each.accept()[0].close()
                found.append(name)
        with contextlib.suppress(BlockingIOError):
            self._udp.recv(16)
            found.append("UDP")
        return found

    # --- System V -------------------------------------------------------------------------------

    def _shared_memory(self) -> int:
        """The segment with our key, -1 where there is none."""
        return ctypes.CDLL(None).shmget(self.key, 0, 0)

    def _remove_shared_memory(self) -> None:
        segment = self._shared_memory()
        if segment >= 0:
            ctypes.CDLL(None).shmctl(segment, _IPC_RMID, None)


class Machine:
    """The machine's state that a run could change, compared before and after. A context manager.

    Inside it, temporary folders are made in one of its own, which must be empty at the end.
    """

    def __init__(self) -> None:
        self.differences: list[str] = []

    def __enter__(self) -> Machine:
        self._kept = tempfile.tempdir
        self._folder = Path(tempfile.mkdtemp(prefix="warpgrade-tests-"))
        tempfile.tempdir = str(self._folder)
        self._before = self._look()
        return self

    def __exit__(self, *_: object) -> None:
        tempfile.tempdir = self._kept
        left = self._look()
        new = [left[each] for each in sorted(left.keys() - self._before.keys())]
        self.differences = [f"left behind: {each}" for each in new]
        shutil.rmtree(self._folder, ignore_errors=True)

    def _look(self) -> dict[str, str]:
        """Its contents, by a stable key: a process may sleep now and run later."""
        # The locks of the GPUs stay, for all commands of a user.
        names = {each.name for each in self._folder.iterdir()} - {f"{FOLDER}-{os.getuid()}"}
        found = {f"file {each}" for each in names}
        for folder in (Path("/dev/shm"), Path("/dev/mqueue")):
            with contextlib.suppress(OSError):  # semaphores of multiprocessing come and go
                found |= {str(each) for each in folder.iterdir() if "sem.mp-" not in each.name}
        for kind in ("shm", "sem", "msg"):
            with contextlib.suppress(OSError):
                lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]
                found |= {f"System V {kind} {line.split()[1]}" for line in lines}
        sockets = psutil.Process().net_connections("all")
        found |= {f"socket {each.laddr} {each.raddr}" for each in sockets if each.laddr}
        children = psutil.Process().children(recursive=True)
        alive = [each for each in children if not _is_dead(each)]
        return {each: each for each in found} | {
            f"process {each.pid}": f"process {_called(each)}" for each in alive
        }


def _is_dead(process: psutil.Process) -> bool:
    """Whether it is gone, or waits for another process than this one to reap it."""
    try:
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return is_dead and process.ppid() != os.getpid()
    except psutil.NoSuchProcess:
        return True


def _called(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {process.name()} ({process.status()})"
    return str(process.pid)
