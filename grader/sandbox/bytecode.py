"""Byte code of torch and of what else is imported, kept in a cache where the installation has none.

Python keeps it beside a package's files. Where packages were installed without it, and Python may
not write it (PYTHONDONTWRITEBYTECODE, which many container images set, or a folder that can only be
read), every process compiles thousands of files before it begins. A grade starts several of these.

The cache is no part of the grader's other one, which compilers of CUDA C++ can read: byte code of
the grader lies in it, too.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from grader.emulator import toolchain

_START = Path(__file__).parents[1] / "worker" / "start.py"
_COMPLETE = "complete"
# Imports what a sandbox of plans does, and ends: nobody is at the other end of its socket.
_FILL = """
import os, runpy, socket, sys
start, complete = sys.argv[1:]
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
theirs.close()
sys.argv = [start, str(ours.detach()), "plans", "{}"]
runpy.run_path(start, run_name="__main__")
import torch._inductor.compile_fx  # a baseline's
open(complete, "w").close()
"""


def keep() -> None:
    """Have this process, and those it starts, find byte code in the cache, where there is none.

    It is called before torch is imported. What sandboxes import is put there in the background.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or sys.pycache_prefix is not None:
        return
    is_kept = Path(importlib.util.cache_from_source(spec.origin)).exists()
    is_writable = os.access(Path(spec.origin).parent, os.W_OK)
    if is_kept or (is_writable and not sys.dont_write_bytecode):
        return
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(folder())
    sys.dont_write_bytecode = False  # beside no file of anybody's
    if not (folder() / _COMPLETE).exists():
        _fill(folder())


def folder() -> Path:
    """Where the cache lies, whether or not it is used."""
    return toolchain.cache_root().with_name("warpgrade-bytecode")


def _fill(cache: Path) -> None:
    """Start a process that imports what sandboxes import. It goes no further than this one does."""
    line = [*option(), "-c", _FILL, str(_START), str(cache / _COMPLETE)]
    nowhere = subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-I", *line], stdin=nowhere, stdout=nowhere, stderr=nowhere)


def option() -> list[str]:
    """What tells an isolated interpreter of the cache: nothing where it isn't used."""
    return ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []


def of(folders: list[Path]) -> list[Path]:
    """Where the byte code of these folders' files lies in the cache."""
    prefix = sys.pycache_prefix
    return [Path(f"{prefix}{each.resolve()}") for each in folders] if prefix else []
