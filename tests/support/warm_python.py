"""Runs `python WORDS` in a process that has torch already: most of a command's time is its import.

    done = warm_python.run(["-m", "grader", "--version"], cwd=ROOT)

A parent imports torch once in each process of tests, and forks. What runs is the command as Python
would run it, in a process that ends as its own would. A command that is sent signals, or whose own
imports are tested, is started by `subprocess` instead.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_PARENT = """
import json, os, runpy, socket, sys
import torch
asked = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, files, _, _ = socket.recv_fds(asked, 1 << 20, 3)
    if not message:
        os._exit(0)
    child = os.fork()
    if not child:
        break
    for file in files:
        os.close(file)
    asked.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
asked.close()
words, folder, environment = json.loads(message)
for number, file in enumerate(files):
    os.dup2(file, number)
    os.close(file)
os.chdir(folder)
os.environ.clear()
os.environ.update(environment)
for number, name in enumerate(("stdin", "stdout", "stderr")):
    stream = open(number, "w" if number else "r", buffering=1 if number == 2 else -1)
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)
added = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
sys.path[:] = [*added, *(each for each in sys.path[1:] if each not in PATH)]
if words[0] == "-m":
    sys.path.insert(0, folder)
    sys.argv = words[1:]
    runpy.run_module(words[1], run_name="__main__", alter_sys=True)
elif words[0] == "-c":
    sys.path.insert(0, "")
    sys.argv = ["-c", *words[2:]]
    exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
"""


def run(
    words: Sequence[object],
    cwd: Path | str = ".",
    env: Mapping[str, str] | None = None,
    input: str = "",
) -> subprocess.CompletedProcess[str]:
    """What `python WORDS` does and prints, given `input`; WORDS are -m, -c or a file, and more."""
    line = [str(word) for word in words]
    environment = dict(os.environ if env is None else env)
    message = json.dumps([line, str(Path(cwd).resolve()), environment]).encode()
    with contextlib.ExitStack() as opened:
        given, *prints = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(input.encode())
        given.seek(0)
        parent = _parent()
        socket.send_fds(parent, [message], [each.fileno() for each in (given, *prints)])
        status = int(parent.recv(32))
        for each in prints:
            each.seek(0)
        printed = [each.read().decode() for each in prints]
    return subprocess.CompletedProcess(line, status, *printed)


@functools.cache
def _parent() -> socket.socket:
    """The socket to the parent, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    path = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", f"PATH = {path!r}\n{_PARENT}", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
