"""A cache of byte code for torch and other imports, where the installation has none.

Python keeps byte code beside a package's files. If packages were installed without it and Python
may not write it (PYTHONDONTWRITEBYTECODE, which many container images set, or a read-only folder),
every process compiles thousands of files at its start, and a grade starts several processes.

The cache is separate from the grader's other one, which compilers of CUDA C++ can read, because the
grader's own byte code is in it.
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
# Imports what a sandbox of plans imports, and ends: its socket has no other end.
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
    """Make this process and its children use the cache for packages without byte code.

    Call it before torch is imported. A background process fills the cache.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or sys.pycache_prefix is not None:
        return
    is_kept = Path(importlib.util.cache_from_source(spec.origin)).exists()
    is_writable = os.access(Path(spec.origin).parent, os.W_OK)
    if is_kept or (is_writable and not sys.dont_write_bytecode):
        return
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(folder())
    sys.dont_write_bytecode = False  # into the cache only
    if not (folder() / _COMPLETE).exists():
        _fill(folder())


def folder() -> Path:
    """The cache's folder, whether or not it is used."""
    return toolchain.cache_root().with_name("warpgrade-bytecode")


def _fill(cache: Path) -> None:
    """Start a process that imports what sandboxes import. It must not outlive this one."""
    line = [*option(), "-c", _FILL, str(_START), str(cache / _COMPLETE)]
    nowhere = subprocess.DEVNULL
    subprocess.Popen([sys.executable, "-I", *line], stdin=nowhere, stdout=nowhere, stderr=nowhere)


def option() -> list[str]:
    """The option that passes the cache to an isolated interpreter; empty where it isn't used."""
    return ["-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else []


def worker_command(*arguments: str) -> list[str]:
    """The command line of worker/start.py, whose interpreter uses the cache and writes none."""
    return [sys.executable, "-I", "-B", *option(), str(_START), *arguments]


def of(folders: list[Path]) -> list[Path]:
    """The cached folders of the byte code for these folders' files."""
    prefix = sys.pycache_prefix
    return [Path(f"{prefix}{each.resolve()}") for each in folders] if prefix else []
