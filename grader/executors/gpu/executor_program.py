"""The program that executes plans on a GPU: the grader's C++, built once, in the user's cache.

It loads the driver when it runs, and the one header that it needs comes with Triton. So no CUDA
toolkit has to be installed.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import os
import threading
from functools import lru_cache
from pathlib import Path

from grader.emulator import toolchain
from grader.sandbox.allowed_paths import package_folders

_NATIVE = Path(toolchain.NATIVE)
_SOURCES = (
    *("lockdown", "text", "arguments", "mapping", "host"),
    *("gpu_driver", "gpu_document", "gpu_plan", "backend_gpu_plans"),
)
_FLAGS = ("-std=c++17", "-O2", "-fPIE", "-pie")


def why_not() -> str:
    """Why this machine can't build the executor, with what to do; "" where it can."""
    try:
        toolchain.find_compiler()
    except toolchain.ToolchainMissing as error:
        return str(error)
    return "" if _cuda_header() else "Triton's copy of cuda.h isn't there: install triton again"


def begin() -> None:
    """Build the program in a thread. A failure is met again by `program`."""

    def build() -> None:
        with contextlib.suppress(toolchain.ToolchainMissing, toolchain.ToolchainError, OSError):
            program()

    threading.Thread(target=build, daemon=True).start()


@lru_cache(maxsize=1)
def program() -> bytes:
    """The executor's program. Raises ToolchainMissing, or ToolchainError where it doesn't build."""
    compiler, version = toolchain.find_compiler()
    header = _cuda_header()
    if header is None:
        raise toolchain.ToolchainMissing(why_not())
    folder = toolchain.cache_root() / f"gpu-program-{_key(compiler, version, header)}"
    toolchain.make_once(folder, lambda scratch: _build(compiler, header.parent, scratch))
    return (folder / "program").read_bytes()


def _build(compiler: str, include: Path, scratch: Path) -> None:
    def compiled(name: str) -> str:
        source = str(_NATIVE / f"{name}.cpp")
        line = [compiler, *_FLAGS, f"-I{include}", "-c", source, "-o", f"{name}.o"]
        toolchain.run(line, scratch)
        return f"{name}.o"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compiled, _SOURCES))
    toolchain.run([compiler, *_FLAGS, *objects, "-o", "program", "-ldl"], scratch)
    for each in objects:
        (scratch / each).unlink()


def _key(compiler: str, version: str, header: Path) -> str:
    digest = hashlib.sha256("\0".join((compiler, version, *_FLAGS)).encode())
    own = sorted({*_NATIVE.glob("*.h"), *(_NATIVE / f"{name}.cpp" for name in _SOURCES)})
    for path in (header, *own):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def _cuda_header() -> Path | None:
    folders = package_folders("triton")
    headers = (each / "backends" / "nvidia" / "include" / "cuda.h" for each in folders)
    return next((each for each in headers if each.is_file()), None)
