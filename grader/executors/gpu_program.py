"""The program that executes plans on a GPU: C++ of ours, built once and kept in the user's cache.

It is linked to nothing of CUDA's: the driver is looked up when it runs, and the one header that it
needs comes with Triton. So no CUDA toolkit has to be installed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import importlib.util
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from grader.emulator import toolchain

_NATIVE = Path(toolchain.NATIVE)
_SOURCES = (
    *("lockdown", "text", "arguments", "mapping", "host"),
    *("gpu_driver", "gpu_document", "gpu_plan", "backend_gpu_plans"),
)
_building = threading.Lock()
_FLAGS = ("-std=c++17", "-O2", "-fPIE", "-pie")


def why_not() -> str:
    """Why this machine can't build the executor, with what to do; "" where it can."""
    try:
        toolchain.find_compiler()
    except toolchain.ToolchainMissing as error:
        return str(error)
    return "" if _cuda_header() else "Triton's copy of cuda.h isn't there: install triton again"


def begin() -> None:
    """Have the program built while something else is done; who needs it is told of a failure."""

    def build() -> None:
        with contextlib.suppress(toolchain.ToolchainMissing, toolchain.ToolchainError, OSError):
            program()

    threading.Thread(target=build, daemon=True).start()


def program() -> bytes:
    """The executor's program. Raises ToolchainMissing, or ToolchainError where it doesn't build."""
    with _building:
        return _program()


@lru_cache(maxsize=1)
def _program() -> bytes:
    compiler, version = toolchain.find_compiler()
    header = _cuda_header()
    if header is None:
        raise toolchain.ToolchainMissing(why_not())
    made = toolchain.cache_root() / f"gpu-executor-{_key(compiler, version, header)}"
    if not made.exists():
        _build(compiler, header.parent, made)
    return made.read_bytes()


def _build(compiler: str, include: Path, made: Path) -> None:
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=made.parent) as scratch:
        objects = [Path(scratch) / f"{name}.o" for name in _SOURCES]
        flags = [*_FLAGS, f"-I{include}"]
        lines = [
            [compiler, *flags, "-c", str(_NATIVE / f"{each.stem}.cpp"), "-o", str(each)]
            for each in objects
        ]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(_run, lines))
        program = Path(scratch) / "program"
        _run([compiler, *_FLAGS, *map(str, objects), "-o", str(program), "-ldl"])
        program.rename(made)


def _run(line: Sequence[str]) -> None:
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise toolchain.ToolchainError(f"the executor for GPUs: {done.stderr[-4000:]}")


def _key(compiler: str, version: str, header: Path) -> str:
    digest = hashlib.sha256("\0".join((compiler, version, *_FLAGS)).encode())
    own = sorted({*_NATIVE.glob("*.h"), *(_NATIVE / f"{name}.cpp" for name in _SOURCES)})
    for path in (header, *own):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _cuda_header() -> Path | None:
    spec = importlib.util.find_spec("triton")
    folders = spec.submodule_search_locations if spec else ()
    found = (Path(each) / "backends" / "nvidia" / "include" / "cuda.h" for each in folders or ())
    return next((each for each in found if each.is_file()), None)
