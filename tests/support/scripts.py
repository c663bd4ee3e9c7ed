"""Runs Python files as `python FILE` would, each in a process of its own that has torch and triton
already: a parent imports them once and forks.

    with Scripts(interpreted=True) as scripts:
        printed = scripts.run(folder / "try_it.py")
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.support.small_exercise import ROOT

SECONDS = 240  # that a file may take
_PARENT = """
import faulthandler, os, runpy, sys, traceback
import torch, triton, triton.language
for line in sys.stdin:
    script = line.rstrip("\\n")
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    status = 1
    try:
        os.chdir(os.path.dirname(script))
        os.environ["TRITON_CACHE_DIR"] = os.path.abspath("cache")
        out = os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        errors = os.open("errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(errors, 2)
        faulthandler.dump_traceback_later({SECONDS}, exit=True)
        runpy.run_path(script, run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
"""


class Scripts:
    """The parent. `interpreted`: kernels of Triton run in its interpreter."""

    def __init__(self, interpreted: bool) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'assignment'}{os.pathsep}{ROOT}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("TRITON_INTERPRET", None)
        if interpreted:
            environment["TRITON_INTERPRET"] = "1"
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _PARENT.replace("{SECONDS}", str(SECONDS))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Scripts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._parent.communicate()

    def run(self, script: Path) -> str:
        """What a file prints, run in its folder. Raises AssertionError where it fails."""
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._parent.stdin.write(f"{script.resolve()}\n")
        self._parent.stdin.flush()
        status = self._parent.stdout.readline().strip()
        printed = (script.parent / "printed").read_text(encoding="utf-8")
        errors = (script.parent / "errors").read_text(encoding="utf-8")
        assert status == "0", printed[-2000:] + errors[-4000:]
        return printed
