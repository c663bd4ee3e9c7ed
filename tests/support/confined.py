"""Runs a few lines of Python in a confinement, as a worker is run: parent, fork, worker.

`Room` makes the folders; `run` starts the lines and returns their output, as JSON values.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from grader.gpu.devices import DeviceName
from grader.sandbox import allowed_paths, confinement
from grader.sandbox.confinement import Level

LEVELS = [Level.bubblewrap, Level.landlock]

# Argument 1: the lines to run; 2: values for them as JSON; last: the plan.
PROGRAM = f"""
import importlib.util, json, os, sys
spec = importlib.util.spec_from_file_location(
    "lockdown", {str(allowed_paths.WORKER_FOLDER / "lockdown.py")!r}
)
lockdown = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lockdown)
plan, given = json.loads(sys.argv[-1]), json.loads(sys.argv[2])
exec(given.pop("first", ""))
lockdown.secure_parent(plan)
if os.fork() == 0:
    lockdown.secure_worker(plan)
    import ctypes, socket
    from pathlib import Path
    libc = ctypes.CDLL(None, use_errno=True)

    def tell(value):
        print(json.dumps(value), flush=True)

    def refused(attempt, *arguments):
        '''The error's name, or None where it worked.'''
        import errno
        try:
            result = attempt(*arguments)
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error))
        if isinstance(result, int) and result == -1:
            return errno.errorcode.get(ctypes.get_errno(), "-1")
        return None

    status = 1
    try:
        exec(compile(Path(sys.argv[1]).read_text(), sys.argv[1], "exec"))
        status = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(-1, 0)[1]))
"""


def skip_unless(level: Level, device: DeviceName = "cpu") -> confinement.Confinement:
    """The confinement, or a skipped test that says why there is none."""
    offer = next(each for each in confinement.probe(device) if each.level is level)
    if not offer.works:
        pytest.skip(f"no {level.value} here: {offer.reason}")
    return confinement.choose(level, device)


@dataclass
class Room:
    """The folders of one submission and the confinement around it."""

    root: Path
    confinement: confinement.Confinement

    def __post_init__(self) -> None:
        for folder in (self.scratch, self.submission):
            folder.mkdir()
        (self.submission / "program.py").write_text(PROGRAM)

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def submission(self) -> Path:
        return self.root / "submission"

    @property
    def environment(self) -> dict[str, str]:
        folders = {"HOME": str(self.scratch), "TMPDIR": str(self.scratch)}
        return {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **folders}

    def line(self, lines: str, given: dict | None = None, name: str = "lines.py") -> list[str]:
        """The command line for some lines of Python."""
        file = self.submission / name
        file.write_text(lines)
        argv = [sys.executable, "-I", "-B", str(self.submission / "program.py"), str(file)]
        argv.append(json.dumps(given or {}))
        return confinement.command(
            self.confinement,
            argv,
            scratch=self.scratch,
            submission=self.submission,
            environment=self.environment,
        )

    def start(self, lines: str, given: dict | None = None, fds: tuple[int, ...] = ()):
        """Start the lines and return the running process."""
        return subprocess.Popen(
            self.line(lines, given),
            env=self.environment,
            cwd=self.scratch,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            pass_fds=fds,
            start_new_session=True,
        )

    def run(self, lines: str, given: dict | None = None, fds: tuple[int, ...] = ()) -> list:
        """What the lines told, one value per `tell`. Fails the test when they don't end well."""
        out, err = self.start(lines, given, fds).communicate(timeout=60)
        assert not err, err
        return [json.loads(line) for line in out.splitlines()]


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "State:\tZ" not in status


def own_pid() -> int:
    """This process, which stands for the grader."""
    return os.getpid()
